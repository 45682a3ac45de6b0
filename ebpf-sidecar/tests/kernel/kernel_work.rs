//! Planted workloads for which the kernel works on memory or reads from a disk. Each thread waits for
//! its turn, does its work, says what the kernel counted for it, and stays.

#![allow(unsafe_code, reason = "maps a file into memory")]

use crate::workload::{forever, ready, say, spawn, wait_for_go};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::mm::{MapFlags, ProtFlags, madvise, mmap};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

/// Environment variable that names the file or folder that a workload works on.
pub(crate) const PATH: &str = "GPUSTALL_TEST_PATH";

const PAGE: usize = 4096;
/// Of one read past the page cache, bytes.
pub(crate) const DIRECT_READ: usize = 64 << 10;
/// How much a workload touches in one go, bytes: more than an allocator keeps for later.
const CHURN: usize = 48 << 20;
/// How often it does.
const CHURNS: usize = 6;

/// Runs the workload `name`; returns when it is not one of these.
pub(crate) fn run(name: &str) {
    match name {
        "direct reads" => plant("reader", read_past_the_cache),
        "cold reads" => plant("reader", read_through_the_cache),
        "churn" => plant("churner", churn),
        "mapped file" => plant("mapper", touch_a_mapped_file),
        "out of memory" => plant("parent", run_out_of_memory),
        "hog" => hog(),
        "copies" => copies(),
        "compaction" => plant("compactor", compact),
        _ => {}
    }
}

fn plant(name: &str, work: fn() -> String) {
    ready();
    wait_for_go();
    spawn(name, move || {
        let counted = work();
        say(&format!("done {counted}"));
        forever();
    });
    forever();
}

fn path() -> PathBuf {
    std::env::var_os(PATH).unwrap().into()
}

/// The whole file, each piece by one request. Says how many bytes.
fn read_past_the_cache() -> String {
    let direct = OFlags::DIRECT.bits() as i32;
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(direct)
        .open(path())
        .unwrap();
    let mut memory = vec![0; DIRECT_READ + PAGE];
    let aligned = memory.as_ptr().align_offset(PAGE);
    let buffer = &mut memory[aligned..][..DIRECT_READ];
    let mut at = 0;
    while let read @ 1.. = file.read_at(buffer, at).unwrap() {
        at += read as u64;
    }
    at.to_string()
}

/// The whole file, of which nothing is in the page cache. Says how many bytes.
fn read_through_the_cache() -> String {
    let mut file = File::open(path()).unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut buffer = vec![0; DIRECT_READ];
    let mut bytes = 0;
    while let read @ 1.. = file.read(&mut buffer).unwrap() {
        bytes += read;
    }
    bytes.to_string()
}

/// Minor and major page faults of this thread.
fn faults() -> (i64, i64) {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    (usage.minor_page_faults(), usage.major_page_faults())
}

/// Touches fresh memory again and again. Says how many minor page faults the thread has taken.
fn churn() -> String {
    for _ in 0..CHURNS {
        let mut fresh = vec![0_u8; CHURN];
        for page in fresh.chunks_mut(PAGE) {
            page[0] = 1;
        }
        std::hint::black_box(&fresh);
    }
    let pages = CHURNS * CHURN / PAGE;
    format!("{} {pages}", faults().0)
}

/// Touches each page of a mapped file of which nothing is in the page cache. Says how many major page
/// faults the thread has taken.
fn touch_a_mapped_file() -> String {
    let file = File::open(path()).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let start = std::ptr::null_mut();
    // SAFETY: a fresh mapping of a file that nobody changes, at an address that the kernel chooses.
    let memory = unsafe { mmap(start, length, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
    let memory = memory.unwrap();
    // Nothing is read ahead: each page is a fault of its own.
    // SAFETY: the mapping that was just made; the advice changes no contents.
    unsafe { madvise(memory, length, rustix::mm::Advice::Random) }.unwrap();
    let memory = memory.cast::<u8>();
    let mut sum = 0_u64;
    for page in (0..length).step_by(PAGE) {
        // SAFETY: inside the mapping, which stays.
        sum += u64::from(unsafe { memory.add(page).read_volatile() });
    }
    std::hint::black_box(sum);
    faults().1.to_string()
}

/// Makes a process that takes more memory than there is. Says which.
fn run_out_of_memory() -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workload::entry", "--nocapture"])
        .env(crate::workload::NAME, "hog")
        .spawn()
        .unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success());
    child.id().to_string()
}

fn hog() {
    let mut all = Vec::new();
    loop {
        let mut fresh = vec![0_u8; 1 << 20];
        for page in fresh.chunks_mut(PAGE) {
            page[0] = 1;
        }
        all.push(fresh);
    }
}

/// Has the kernel copy a file that is in the page cache, again and again.
fn copies() {
    spawn("copier", || {
        let file = File::open(path()).unwrap();
        let mut buffer = vec![0; 1 << 20];
        loop {
            file.read_at(&mut buffer, 0).unwrap();
        }
    });
    ready();
    forever();
}

/// Has the kernel move all pages of the machine together.
fn compact() -> String {
    std::fs::write("/proc/sys/vm/compact_memory", "1").unwrap();
    String::new()
}
