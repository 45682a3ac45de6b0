//! What a call of the CUDA driver costs its caller when it is recorded, measured with a stand-in for the
//! driver's library whose function does nothing. As root:
//!
//! ```sh
//! cargo bench -p gpustall-sidecar --bench cuda_cost
//! ```

#![allow(unsafe_code, reason = "a library that is loaded at run time is called")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/fake_cuda/mod.rs"]
mod fake_cuda;

use fake_cuda::FakeCuda;
use gpustall_sidecar::{Options, Recorder};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const LIBRARY: &str = "GPUSTALL_BENCH_LIBRARY";
const ROUNDS: usize = 5;
/// Calls of one measurement.
const CALLS: u32 = 2_000;

fn main() {
    if let Some(library) = std::env::var_os(LIBRARY) {
        return calls(Path::new(&library));
    }
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "needs root");
        eprintln!("skipped: recording needs root");
        return;
    }
    let library = FakeCuda::new();
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let mut job = Job::start(&library);
        times[0].push(job.time_of_a_call(|| {}));
        let mut recorder = Recorder::start(&Options::default()).unwrap();
        let other = Job::start(&library);
        recorder.track_process(other.child.id()).unwrap();
        recorder.drain();
        times[1].push(job.time_of_a_call(|| recorder.drain()));
        recorder.track_process(job.child.id()).unwrap();
        times[2].push(job.time_of_a_call(|| recorder.drain()));
        let recording = recorder.finish();
        assert!(recording.lost_by_source().is_empty(), "calls were lost");
        let (kept, notes) = (recording.cuda_calls.len(), &recording.notes);
        assert!(kept > CALLS as usize, "{kept} calls recorded: {notes:?}");
    }
    println!("CPU time of a call that does nothing, medians of {ROUNDS} rounds");
    let names = ["not recorded", "another process recorded", "recorded"];
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_unstable();
        println!("{name:<26} {:>7} ns", times[ROUNDS / 2]);
    }
}

/// A process that makes calls when it is asked to, and says how long one took.
struct Job {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Job {
    fn start(library: &FakeCuda) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(LIBRARY, library.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut job = Self { child, lines };
        // The library is mapped when it answers.
        job.ask();
        job
    }

    /// CPU time of a call, nanoseconds: the best of several measurements, as others on the machine can
    /// only make them longer. `meanwhile` is done between them.
    fn time_of_a_call(&mut self, mut meanwhile: impl FnMut()) -> u64 {
        let times = (0..20).map(|_| {
            meanwhile();
            self.ask()
        });
        times.min().unwrap()
    }

    fn ask(&mut self) -> u64 {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn calls(library: &Path) {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in a zero; the stand-in does nothing when it is loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    // SAFETY: the handle is the open library's, the name ends in a zero.
    let symbol = unsafe { libc::dlsym(handle, c"cuInit".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: that is the function's type.
    let init: extern "C" fn(u32) -> u32 = unsafe { std::mem::transmute(symbol) };
    for _ in std::io::stdin().lines() {
        let begun = cpu_time();
        for flags in 0..CALLS {
            init(flags);
        }
        println!("{}", (cpu_time() - begun).as_nanos() / u128::from(CALLS));
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
