//! Totals add up, to the wall time, to the intervals, and to what the kernel counts.

use crate::harness::{Job, assert_close, drain_for, turn};
use gpustall_sidecar::{Options, Recorder, Recording};
use gpustall_trace::Nanos;
use procfs::CurrentSI;
use std::time::Duration;

/// On-CPU time and run delay of a thread as the kernel counts them.
fn schedstat(pid: u32, tid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap();
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse().unwrap());
    (fields.next().unwrap(), fields.next().unwrap())
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

/// Time, on all CPUs since the machine started, that the host of a virtual machine gave to others.
fn stolen() -> Nanos {
    let steal = procfs::KernelStats::current().unwrap().total.steal;
    Nanos::new(steal.unwrap_or(0) * 1_000_000_000 / procfs::ticks_per_second())
}

/// The kernel counts a thread that runs at its ticks, and these can be late. So all threads are
/// stopped when its counts are read, and when the recording begins and ends.
#[test]
fn totals_add_up_and_agree_with_the_kernels_own_counts() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("mixed");
    let names = ["spinner", "worker", "yielder", "pong"];
    let tids: Vec<u32> = names.iter().flat_map(|name| job.threads(name)).collect();
    assert_eq!(tids.len(), 5);
    job.pause();
    let mut recorder = Recorder::start(&Options::default()).unwrap();
    recorder.track_process(job.pid()).unwrap();
    let before: Vec<_> = tids.iter().map(|&tid| schedstat(job.pid(), tid)).collect();
    let stolen_before = stolen();
    job.resume();
    drain_for(&mut recorder, Duration::from_secs(3));
    job.pause();
    let after: Vec<_> = tids.iter().map(|&tid| schedstat(job.pid(), tid)).collect();
    let recording = recorder.finish();
    // The kernel takes what the host took from a running thread off its time on CPU. We do not: no
    // other thread of this machine had the CPU.
    let stolen = stolen() - stolen_before;
    assert_adds_up(&recording);
    assert_eq!(recording.lost_by_source(), Default::default());
    for ((tid, before), after) in tids.iter().zip(before).zip(after) {
        let thread = recording.threads.iter().find(|t| t.tid.0 == *tid).unwrap();
        let what = format!("{} {tid}", thread.name);
        let (ran, delayed) = (
            Nanos::new(after.0 - before.0),
            Nanos::new(after.1 - before.1),
        );
        // They take their times at other points of a switch, of which there are thousands.
        let slack = Duration::from_millis(40);
        let on_cpu = thread.totals.on_cpu;
        assert_close(
            &format!("{what} on CPU"),
            on_cpu,
            on_cpu.clamp(ran, ran + stolen),
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
