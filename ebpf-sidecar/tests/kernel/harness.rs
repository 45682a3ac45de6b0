//! Starting workloads, recording them, and looking things up in the recording.

use gpustall_sidecar::{OffCpuInterval, Options, Recorder, Recording, ThreadRecord, Waker};
use gpustall_trace::Nanos;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// After this a condition that did not come true fails the test: generous, for loaded machines.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Held while a test uses the kernel: within this process, and against other test processes.
pub(crate) struct Turn {
    _process: MutexGuard<'static, ()>,
    _machine: File,
}

/// Waits for this test's turn. `None`, with a message, where eBPF cannot be used.
pub(crate) fn turn() -> Option<Turn> {
    static PROCESS: Mutex<()> = Mutex::new(());
    if !rustix::process::geteuid().is_root() {
        let message = "skipped: recording needs root";
        assert!(
            std::env::var_os("CI").is_none(),
            "{message}, and CI must not skip"
        );
        eprintln!("{message}");
        return None;
    }
    let process = PROCESS.lock().unwrap_or_else(|broken| broken.into_inner());
    let path = std::env::temp_dir().join("gpustall-kernel-tests.lock");
    let machine = File::create(path).unwrap();
    machine.lock().unwrap();
    Some(Turn {
        _process: process,
        _machine: machine,
    })
}

/// A workload of `workload.rs` in a process of its own. It runs until this value is dropped.
pub(crate) struct Job {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Job {
    /// Starts it and waits until it says that it runs.
    pub(crate) fn start(workload: &str) -> Self {
        let program = Command::new(std::env::current_exe().unwrap());
        Self::start_as(program, workload)
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_on<S: AsRef<OsStr>>(workload: &str, variables: &[(&str, S)]) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.envs(variables.iter().map(|(name, value)| (name, value.as_ref())));
        Self::start_as(program, workload)
    }

    /// Starts it by a command to which the arguments of this test binary can be added.
    pub(crate) fn start_as(mut program: Command, workload: &str) -> Self {
        let mut child = program
            .args(["--exact", "workload::entry", "--nocapture"])
            .env(crate::workload::NAME, workload)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut job = Self { child, lines };
        job.expect("ready");
        job
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops every thread of it where it is, and waits until none runs.
    pub(crate) fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        let stopped = |task: procfs::process::Task| task.stat().unwrap().state == 'T';
        let begun = Instant::now();
        let process = procfs::process::Process::new(self.pid() as i32).unwrap();
        while !process.tasks().unwrap().flatten().all(stopped) {
            assert!(
                begun.elapsed() < DEADLINE,
                "the workload was not stopped in time"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        // A thread says that it is stopped just before it leaves its CPU.
        std::thread::sleep(Duration::from_millis(10));
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Tells it to go on to what comes next.
    pub(crate) fn go(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"go\n").unwrap();
    }

    /// Waits for a line that begins with `word`; returns the rest of it.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            // What the test harness prints itself may stand before it on the line.
            if let Some((_, rest)) = line.split_once(&format!("@{word}")) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the workload ended without saying {word}");
    }

    /// Thread ids of its threads with this name.
    pub(crate) fn threads(&self, name: &str) -> Vec<u32> {
        let folder = format!("/proc/{}/task", self.pid());
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let named = |path: &std::path::Path| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let mut tids: Vec<u32> = entries
            .filter(|entry| named(&entry.path()))
            .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
            .collect();
        tids.sort_unstable();
        tids
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts recording a process.
pub(crate) fn record(pid: u32, options: &Options) -> Recorder {
    let mut recorder = Recorder::start(options).unwrap();
    recorder.track_process(pid).unwrap();
    recorder
}

/// Drains the recorder until `done` says so.
pub(crate) fn drain_until(recorder: &mut Recorder, mut done: impl FnMut(&Recorder) -> bool) {
    let begun = Instant::now();
    while !done(recorder) {
        assert!(begun.elapsed() < DEADLINE, "nothing came of it in time");
        std::thread::sleep(Options::DRAIN_EVERY);
        recorder.drain();
    }
}

/// Drains the recorder for so long.
pub(crate) fn drain_for(recorder: &mut Recorder, length: Duration) {
    let until = Instant::now() + length;
    drain_until(recorder, |_| Instant::now() >= until);
}

/// The one thread with this id.
pub(crate) fn thread(recording: &Recording, tid: u32) -> &ThreadRecord {
    let mut found = recording.threads.iter().filter(|t| t.tid.0 == tid);
    let thread = found.next().unwrap_or_else(|| panic!("no thread {tid}"));
    assert!(found.next().is_none(), "two threads {tid}");
    thread
}

/// The intervals of one thread.
pub(crate) fn intervals(recording: &Recording, tid: u32) -> Vec<&OffCpuInterval> {
    let of = |i: &OffCpuInterval| recording.threads[i.thread as usize].tid.0 == tid;
    recording.intervals.iter().filter(|i| of(i)).collect()
}

/// The thread that woke, when a thread did.
pub(crate) fn woken_by(recording: &Recording, interval: &OffCpuInterval) -> Option<u32> {
    match interval.waker {
        Waker::Thread(id) => Some(recording.other(id).tid.0),
        _ => None,
    }
}

/// Share (0..1) of `all` for which `what` holds.
pub(crate) fn share<T>(all: &[T], what: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| what(one)).count() as f64 / all.len().max(1) as f64
}

/// Fails unless the length is `wanted` within a share and an absolute slack.
pub(crate) fn assert_close(what: &str, found: Nanos, wanted: Nanos, share: f64, slack: Duration) {
    let off = found.get().abs_diff(wanted.get()) as f64;
    let allowed = wanted.get() as f64 * share + slack.as_nanos() as f64;
    assert!(off <= allowed, "{what}: {found}, and {wanted} was expected");
}
