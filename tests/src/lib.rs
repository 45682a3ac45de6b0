//! What the end-to-end tests share: a small data set and batcher without tensors, a session in a
//! directory of its own, and questions to ask of a trace.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

pub mod child;
pub mod numbers;
pub mod plant;
pub mod sidecar;
pub mod tiny_training;
pub mod view;

pub use numbers::{Collect, Numbers, numbers_loader};
pub use view::*;

use gpustall::Summary;
use gpustall_trace::Trace;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a condition may take to come true before a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Holds back the other tests of this process that also need the one session it can have.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Runs `job` in a session and returns the trace it wrote, and the summary.
pub fn record<T>(name: &str, job: impl FnOnce() -> T) -> (Trace, Summary, T) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    // Whether this machine has a sidecar must not show in what the tests compare.
    let session = gpustall::session(name)
        .sidecar(gpustall::Sidecar::Off)
        .output(&output)
        .start()
        .unwrap();
    let result = job();
    let summary = session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap();
    assert_eq!(
        trace.warnings, [""; 0],
        "a finished trace reads without warnings"
    );
    let partial = gpustall_trace::partial_path(&output);
    assert!(!partial.exists(), "a finished trace leaves no partial file");
    (trace.trace, summary, result)
}

/// Asks again and again until there is an answer.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            begun.elapsed() < DEADLINE,
            "gave up waiting until {what} after {DEADLINE:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does `work` until it panics; what the panic says.
///
/// A worker of Burn that panicked is known to be gone only when its thread has unwound: until
/// then another epoch begins, and ends at once.
pub fn first_panic<T>(mut work: impl FnMut() -> T) -> String {
    eventually("it panics", || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut work));
        let panic = outcome.err()?;
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
    })
}

/// OS thread id of the caller, asked from the kernel and not from gpustall.
pub fn os_tid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Says on the terminal, past the test harness, that a test could not be run here.
pub fn skip(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
