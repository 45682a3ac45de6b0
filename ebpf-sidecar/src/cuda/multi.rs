//! One link for all functions of a library (`uprobe_multi`, Linux 6.6 and later).
//!
//! Probes that are perf events are removed one by one, and since Linux 6.13 the kernel waits about
//! 100 ms for each: half a minute for a library. A link with all of them is removed in one wait. aya does not
//! make such links yet, so their programs are loaded here, into the maps that aya made.

#![allow(
    unsafe_code,
    reason = "two commands of the bpf system call that no library offers"
)]

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;
use aya_obj::generated::{
    BPF_F_UPROBE_MULTI_RETURN, bpf_attach_type::BPF_TRACE_UPROBE_MULTI, bpf_attr, bpf_cmd,
    bpf_prog_type::BPF_PROG_TYPE_KPROBE,
};
use gpustall_wire::cuda::Cookie;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The programs at the start and at the return of functions, loaded for links to many functions.
#[derive(Debug)]
pub(super) struct MultiPrograms {
    enter: OwnedFd,
    back: OwnedFd,
}

/// A function's first instruction: its offset in the file, and what its probes are told.
pub(super) type Place = (u64, Cookie);

impl MultiPrograms {
    /// Loads them from the object, to use the maps of `loaded`, which has all of its maps still.
    ///
    /// # Errors
    /// One sentence, when the kernel refuses them: it is older than 6.6.
    pub(super) fn load(object: &[u8], loaded: &Ebpf) -> Result<Self, String> {
        let mut object = Object::parse(object).map_err(|e| e.to_string())?;
        let fds: HashMap<&str, RawFd> = loaded
            .maps()
            .filter_map(|(name, map)| Some((name, fd(map)?)))
            .collect();
        let maps = std::mem::take(&mut object.maps);
        let known = maps
            .iter()
            .filter_map(|(name, map)| Some((name.as_str(), *fds.get(name.as_str())?, map)));
        let sections: HashSet<usize> = object
            .functions
            .keys()
            .map(|(section, _)| *section)
            .collect();
        object
            .relocate_maps(known, &sections)
            .map_err(|e| e.to_string())?;
        object
            .relocate_calls(&sections)
            .map_err(|e| e.to_string())?;
        Ok(Self {
            enter: load(&object, "cuda_enter")?,
            back: load(&object, "cuda_return")?,
        })
    }

    /// Attaches both to all places in the file, in all processes. Returns first before beginnings: a
    /// return without its beginning is left out, a beginning without its return would stay open.
    ///
    /// # Errors
    /// One sentence, when the kernel refuses a link.
    pub(super) fn attach(&self, path: &Path, places: &[Place]) -> Result<[OwnedFd; 2], String> {
        Ok([
            link(&self.back, path, places, BPF_F_UPROBE_MULTI_RETURN)?,
            link(&self.enter, path, places, 0)?,
        ])
    }
}

fn fd(map: &Map) -> Option<RawFd> {
    match map {
        Map::Array(map) | Map::PerCpuArray(map) | Map::HashMap(map) | Map::RingBuf(map) => {
            Some(map.fd().as_fd().as_raw_fd())
        }
        _ => None,
    }
}

fn load(object: &Object, name: &str) -> Result<OwnedFd, String> {
    let program = object.programs.get(name);
    let program = program.ok_or_else(|| format!("the object has no program {name}"))?;
    let function = object.functions.get(&program.function_key());
    let function = function.ok_or_else(|| format!("the object has no function {name}"))?;
    let mut attr = empty();
    // SAFETY: the arm of the union that BPF_PROG_LOAD takes; all of it is zero so far.
    let wanted = unsafe { &mut attr.__bindgen_anon_3 };
    wanted.prog_type = BPF_PROG_TYPE_KPROBE as u32;
    wanted.expected_attach_type = BPF_TRACE_UPROBE_MULTI as u32;
    wanted.insns = function.instructions.as_ptr() as u64;
    wanted.insn_cnt = function.instructions.len() as u32;
    wanted.license = object.license.as_ptr() as u64;
    // SAFETY: instructions and licence outlive the call, and the counts are theirs.
    let loaded = unsafe { bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr) };
    loaded.map_err(|error| format!("the kernel refused the eBPF program {name}: {error}"))
}

fn link(program: &OwnedFd, path: &Path, places: &[Place], flags: u32) -> Result<OwnedFd, String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    let offsets: Vec<u64> = places.iter().map(|(offset, _)| *offset).collect();
    let cookies: Vec<u64> = places.iter().map(|(_, cookie)| cookie.0).collect();
    let mut attr = empty();
    // SAFETY: the arm of the union that BPF_LINK_CREATE takes; all of it is zero so far.
    unsafe {
        attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
        attr.link_create.attach_type = BPF_TRACE_UPROBE_MULTI as u32;
        let wanted = &mut attr.link_create.__bindgen_anon_3.uprobe_multi;
        wanted.path = name.as_ptr() as u64;
        wanted.offsets = offsets.as_ptr() as u64;
        wanted.cookies = cookies.as_ptr() as u64;
        wanted.cnt = offsets.len() as u32;
        wanted.flags = flags;
    }
    // SAFETY: the path ends in a zero, the two arrays are as long as the count says, all outlive the call.
    let linked = unsafe { bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr) };
    linked.map_err(|error| format!("probes in {}: {error}", path.display()))
}

fn empty() -> bpf_attr {
    // SAFETY: a union of plain integers.
    unsafe { std::mem::zeroed() }
}

/// # Safety
/// What the attribute points to is there for as long as the call takes.
unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the attribute is as long as it says; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            std::ptr::from_mut(attr),
            size_of::<bpf_attr>(),
        )
    };
    match RawFd::try_from(result) {
        // SAFETY: both commands return a new descriptor that nobody else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
