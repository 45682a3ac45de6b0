//! Requests to disks are those that a program made and the disk counted.

use crate::harness::{Job, drain_until, intervals, record, share, turn};
use crate::kernel_work::{DIRECT_READ, PATH};
use gpustall_sidecar::{BlockIo, Options, Recording, RequestKind, ThreadRecord};
use gpustall_trace::Nanos;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of the file that is read, bytes.
const FILE: usize = 32 << 20;

/// A file on the disk that the tests are built on.
pub(crate) fn file(bytes: usize) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // No two pages alike, and no holes.
    let words = (0..bytes as u64 / 8).flat_map(|n| (n * n + 1).to_ne_bytes());
    file.write_all(&words.collect::<Vec<u8>>()).unwrap();
    file.as_file().sync_all().unwrap();
    file
}

/// A block device that nobody else uses: its content is a file.
struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    /// `direct` says whether it reads its file past the page cache.
    fn new(direct: bool) -> Self {
        let file = file(FILE);
        let direct = format!("--direct-io={}", if direct { "on" } else { "off" });
        let run = Command::new("losetup")
            .args(["--find", "--show", &direct])
            .arg(file.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "losetup: {said}");
        let path = String::from_utf8(run.stdout).unwrap().trim().into();
        Self { path, _file: file }
    }

    fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// Reads that it has completed, and their bytes.
    fn reads(&self) -> (u64, u64) {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        let fields: Vec<u64> = text
            .split_ascii_whitespace()
            .map(|f| f.parse().unwrap())
            .collect();
        const SECTOR: u64 = 512;
        (fields[0], fields[2] * SECTOR)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// Runs a workload on a path and records it from when it goes until it is done. Returns what it said
/// then, too.
pub(crate) fn run(workload: &str, path: &Path, options: &Options) -> (Recording, String, Job) {
    let mut job = Job::start_on(workload, &[(PATH, path)]);
    let mut recorder = record(job.pid(), options);
    job.go();
    let done = std::thread::spawn(move || {
        let said = job.expect("done");
        (said, job)
    });
    drain_until(&mut recorder, |_| done.is_finished());
    let (said, job) = done.join().unwrap();
    recorder.drain();
    (recorder.finish(), said, job)
}

/// The one thread with this name.
pub(crate) fn named<'a>(recording: &'a Recording, name: &str) -> (u32, &'a ThreadRecord) {
    let threads = recording.threads.iter().enumerate();
    let found: Vec<_> = threads.filter(|(_, t)| t.name == name).collect();
    let [(index, thread)] = found[..] else {
        panic!("{} threads {name}", found.len());
    };
    (index as u32, thread)
}

fn all_waits() -> Options {
    Options {
        threshold: Nanos::ZERO,
        ..Options::default()
    }
}

fn bytes(requests: &[&BlockIo]) -> u64 {
    requests.iter().map(|request| request.bytes).sum()
}

/// Fails unless the device counted the same, or hardly more: others may have looked at it.
fn assert_counted(counted: u64, recorded: u64) {
    assert!(
        (recorded..=recorded + recorded / 10 + 2).contains(&counted),
        "{recorded} recorded, and the disk counted {counted}"
    );
}

#[test]
fn each_read_past_the_page_cache_is_a_request_that_its_thread_waited_for() {
    let Some(_turn) = turn() else { return };
    let device = LoopDevice::new(false);
    let before = device.reads();
    let (recording, said, _job) = run("direct reads", &device.path, &all_waits());
    let after = device.reads();
    assert_eq!(recording.lost_by_source(), Default::default());
    assert_eq!(said, FILE.to_string());

    let (reader, thread) = named(&recording, "reader");
    let requests = recording.block_io.iter();
    let requests: Vec<_> = requests.filter(|r| &*r.disk == device.name()).collect();
    assert_eq!(requests.len(), FILE / DIRECT_READ);
    assert_eq!(bytes(&requests), FILE as u64);
    assert_counted(after.0 - before.0, requests.len() as u64);
    assert_counted(after.1 - before.1, FILE as u64);
    for request in &requests {
        assert_eq!((request.thread, request.submitter), (reader, None));
        assert_eq!(
            (request.kind, request.unfinished),
            (RequestKind::Read, false)
        );
        assert!(request.start < request.done);
    }
    // It waited while they were in flight.
    let waits = intervals(&recording, thread.tid.0);
    let waited = |r: &&BlockIo| waits.iter().any(|w| w.out < r.done && r.start < w.back);
    assert!(share(&requests, waited) > 0.9);
}

#[test]
fn requests_that_the_kernel_makes_for_a_waiting_thread_are_charged_to_it() {
    let Some(_turn) = turn() else { return };
    let device = LoopDevice::new(true);
    let (recording, ..) = run("direct reads", &device.path, &all_waits());
    let (reader, _) = named(&recording, "reader");
    // The loop device's own thread reads the file.
    let requests = recording.block_io.iter();
    let below = requests.filter(|r| &*r.disk != device.name() && r.kind == RequestKind::Read);
    let below: Vec<_> = below.filter(|r| r.thread == reader).collect();
    assert!(
        bytes(&below) as f64 > 0.9 * FILE as f64,
        "{} bytes",
        bytes(&below)
    );
    let by_kernel = |r: &&BlockIo| r.submitter.is_some_and(|id| recording.other(id).tid.0 > 0);
    assert!(share(&below, by_kernel) > 0.9);
}

#[test]
fn reads_through_a_cold_page_cache_are_the_bytes_that_the_disk_counted() {
    let Some(_turn) = turn() else { return };
    let device = LoopDevice::new(false);
    let before = device.reads();
    let (recording, said, _job) = run("cold reads", &device.path, &all_waits());
    let after = device.reads();
    assert_eq!(said, FILE.to_string());
    let (reader, thread) = named(&recording, "reader");
    let requests = recording.block_io.iter();
    let requests: Vec<_> = requests.filter(|r| &*r.disk == device.name()).collect();
    assert_counted(after.0 - before.0, requests.len() as u64);
    assert_counted(after.1 - before.1, bytes(&requests));
    assert!(bytes(&requests) >= FILE as u64);
    assert!(requests.iter().all(|r| r.thread == reader));
    assert!(thread.totals.iowait > Nanos::ZERO);
}

#[test]
fn requests_that_do_not_fit_into_the_ring_are_counted() {
    let Some(_turn) = turn() else { return };
    let device = LoopDevice::new(false);
    let mut job = Job::start_on("direct reads", &[(PATH, &device.path)]);
    let small = Options {
        ring_bytes: 16 << 10,
        ..all_waits()
    };
    let recorder = record(job.pid(), &small);
    job.go();
    // Nobody drains.
    job.expect("done");
    let recording = recorder.finish();
    let lost = recording.lost_by_source()["disk requests"];
    let kept = recording.block_io.len() as u64;
    assert!(lost > 100, "only {lost} lost");
    // Others are those of the kernel's own threads.
    assert!(
        kept + lost >= (FILE / DIRECT_READ) as u64,
        "{kept} and {lost}"
    );
}
