//! What the probes must know of the running kernel.

use crate::btf::KernelTypes;
use crate::error::SetupError;
use crate::tracepoints;
use std::path::Path;

/// Where the kernel shows its types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Offsets of the running kernel, as the probes' globals take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// `task_struct.pid`, bytes.
    pub(crate) pid: u32,
    /// `task_struct.tgid`, bytes.
    pub(crate) tgid: u32,
    /// `task_struct.comm`, bytes.
    pub(crate) comm: u32,
    /// `task_struct.__state`, bytes.
    pub(crate) state: u32,
    /// `task_struct.se.sum_exec_runtime`, bytes.
    pub(crate) exec: u32,
    /// The byte of `task_struct.in_iowait`.
    pub(crate) iowait: u32,
    /// The bit in that byte.
    pub(crate) iowait_mask: u32,
    /// `task_struct.flags`, bytes.
    pub(crate) flags: u32,
    /// `task_struct.min_flt`, bytes.
    pub(crate) minor_faults: u32,
    /// `task_struct.maj_flt`, bytes.
    pub(crate) major_faults: u32,
    /// 1 where `mark_victim` is given the task, 0 where it is given the id only.
    pub(crate) victim_is_task: u32,
}

impl Offsets {
    /// Looks them up in the kernel's types.
    ///
    /// # Errors
    /// [`SetupError::Member`] names the first member that this kernel does not have.
    pub(crate) fn of(types: &KernelTypes) -> Result<Self, SetupError> {
        let member = |structure, name| {
            let found = types.member(structure, name);
            found.ok_or(SetupError::Member { structure, name })
        };
        let bytes = |name| member("task_struct", name).map(|m| m.bit_offset / 8);
        let iowait = member("task_struct", "in_iowait")?.bit_offset;
        let exec = member("sched_entity", "sum_exec_runtime")?.bit_offset / 8;
        Ok(Self {
            pid: bytes("pid")?,
            tgid: bytes("tgid")?,
            comm: bytes("comm")?,
            state: bytes("__state")?,
            exec: bytes("se")? + exec,
            iowait: iowait / 8,
            iowait_mask: 1 << (iowait % 8),
            flags: bytes("flags")?,
            minor_faults: bytes("min_flt")?,
            major_faults: bytes("maj_flt")?,
            victim_is_task: types.tracepoint_takes_pointer("mark_victim").into(),
        })
    }

    /// The names of the probes' globals, with their values.
    pub(crate) fn globals(&self) -> [(&'static str, &u32); 11] {
        [
            ("TASK_PID", &self.pid),
            ("TASK_TGID", &self.tgid),
            ("TASK_COMM", &self.comm),
            ("TASK_STATE", &self.state),
            ("TASK_EXEC", &self.exec),
            ("TASK_IOWAIT", &self.iowait),
            ("TASK_IOWAIT_MASK", &self.iowait_mask),
            ("TASK_FLAGS", &self.flags),
            ("TASK_MINOR_FAULTS", &self.minor_faults),
            ("TASK_MAJOR_FAULTS", &self.major_faults),
            ("VICTIM_IS_TASK", &self.victim_is_task),
        ]
    }
}

/// Where the members of the block layer's structures lie that the probes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestOffsets {
    queue: u32,
    flags: u32,
    bytes: u32,
    disk: u32,
    major: u32,
    minor: u32,
    by_issue: u32,
}

impl RequestOffsets {
    /// Looks them up in the kernel's types.
    ///
    /// # Errors
    /// [`SetupError::Member`] names the first member that this kernel does not have: no request to a
    /// disk can be recorded then.
    pub(crate) fn of(types: &KernelTypes) -> Result<Self, SetupError> {
        let bytes = |structure, name| {
            let found = types.member(structure, name);
            let found = found.ok_or(SetupError::Member { structure, name })?;
            Ok::<u32, SetupError>(found.bit_offset / 8)
        };
        Ok(Self {
            queue: bytes("request", "q")?,
            flags: bytes("request", "cmd_flags")?,
            bytes: bytes("request", "__data_len")?,
            disk: bytes("request_queue", "disk")?,
            major: bytes("gendisk", "major")?,
            minor: bytes("gendisk", "first_minor")?,
            by_issue: tracepoints::requests_by_issue(types).into(),
        })
    }

    /// The names of the probes' globals, with their values.
    pub(crate) fn globals(&self) -> [(&'static str, &u32); 7] {
        [
            ("REQUEST_QUEUE", &self.queue),
            ("REQUEST_FLAGS", &self.flags),
            ("REQUEST_BYTES", &self.bytes),
            ("QUEUE_DISK", &self.disk),
            ("DISK_MAJOR", &self.major),
            ("DISK_MINOR", &self.minor),
            ("REQUESTS_BY_ISSUE", &self.by_issue),
        ]
    }
}

/// Reads the types of the running kernel.
///
/// # Errors
/// [`SetupError::Btf`] when the kernel shows none.
pub(crate) fn types() -> Result<KernelTypes, SetupError> {
    let bytes = std::fs::read(Path::new(KERNEL_BTF)).map_err(SetupError::Btf)?;
    Ok(KernelTypes::parse(bytes)?)
}
