//! Totals add up, to the wall time, to the intervals, and to what the kernel counts.

use crate::harness::{Job, assert_close, drain_for, turn};
use gpustall_sidecar::{Options, Recorder, Recording};
use gpustall_trace::{MonoTime, MonotonicClock, Nanos};
use std::time::Duration;

/// On-CPU time and run delay of a thread as the kernel counts them.
fn schedstat(pid: u32, tid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap();
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse().unwrap());
    (fields.next().unwrap(), fields.next().unwrap())
}

fn length(from: MonoTime, to: MonoTime) -> Duration {
    Duration::from_nanos(to.as_nanos() - from.as_nanos())
}

/// Every thread's measured time is its wall time, and its time off CPU is that of its intervals,
/// the short ones and the lost ones: to the nanosecond, for both are the same measurements.
pub(crate) fn assert_adds_up(recording: &Recording) {
    for (index, thread) in recording.threads.iter().enumerate() {
        let totals = &thread.totals;
        let wall = thread.last.since(thread.first);
        let what = format!("{} {}", thread.name, thread.tid);
        assert_close(
            &what,
            totals.measured(),
            wall,
            0.01,
            Duration::from_micros(200),
        );
        let of_thread = recording.intervals.iter();
        let of_thread = of_thread.filter(|i| i.thread as usize == index);
        let listed: Nanos = of_thread.clone().map(|i| i.len()).sum();
        let off = totals.runnable() + totals.blocked();
        let unlisted = off - (listed + totals.short + totals.lost);
        // An interval that is open at the end has no record when it is short.
        assert!(
            unlisted < Options::DEFAULT_THRESHOLD,
            "{what}: {off} off, {listed} listed"
        );
        assert!(listed + totals.short + totals.lost <= off, "{what}");
        let runnable: Nanos = of_thread.map(|i| i.runnable()).sum();
        assert!(runnable <= totals.runnable(), "{what}");
    }
}

#[test]
fn totals_add_up_and_agree_with_the_kernels_own_counts() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("mixed");
    let names = ["spinner", "worker", "yielder", "pong"];
    let tids: Vec<u32> = names.iter().flat_map(|name| job.threads(name)).collect();
    assert_eq!(tids.len(), 5);
    let mut recorder = Recorder::start(&Options::default()).unwrap();
    let begun = MonotonicClock::read();
    recorder.track_process(job.pid()).unwrap();
    let before: Vec<_> = tids.iter().map(|&tid| schedstat(job.pid(), tid)).collect();
    // On a loaded machine the test itself waits for a CPU between one look and the other.
    let mut apart = length(begun, MonotonicClock::read());
    drain_for(&mut recorder, Duration::from_secs(3));
    let looked = MonotonicClock::read();
    let after: Vec<_> = tids.iter().map(|&tid| schedstat(job.pid(), tid)).collect();
    let recording = recorder.finish();
    apart += length(looked, MonotonicClock::read());
    assert_adds_up(&recording);
    assert_eq!(recording.lost_by_source(), Default::default());
    for ((tid, before), after) in tids.iter().zip(before).zip(after) {
        let thread = recording.threads.iter().find(|t| t.tid.0 == *tid).unwrap();
        // The kernel counts a running thread at its ticks only, and the two looks at its counts do
        // not coincide with the ends of the recording: some milliseconds each.
        let slack = Duration::from_millis(40) + apart;
        let what = format!("{} {tid}", thread.name);
        let (ran, delayed) = (
            Nanos::new(after.0 - before.0),
            Nanos::new(after.1 - before.1),
        );
        assert_close(
            &format!("{what} on CPU"),
            thread.totals.on_cpu,
            ran,
            0.01,
            slack,
        );
        assert_close(
            &format!("{what} runnable"),
            thread.totals.runnable(),
            delayed,
            0.01,
            slack,
        );
    }
}
