//! A run with something planted in its worker, and a healthy one; all threads are watched.

use super::Builder;
use super::kernel::blocked;
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, TrackId};

pub const START: u64 = 100_000;
pub const STEPS: u64 = 40;
pub const STEP: u64 = 20_000;
/// Of a step: the wait, and the part of it that the plant takes.
pub const WAIT: u64 = 12_000;
pub const PLANT: u64 = 8_000;
pub const END: u64 = START + STEPS * STEP;
/// The track of the worker of [`trace`].
pub const WORKER_TRACK: TrackId = TrackId(2);

/// Forty steps of 20 ms, of which the trainer waits 12 ms for the worker; `plant` says what that
/// one does in 8 ms of its get, the rest of which it runs. All are watched.
pub fn run(cpus: u32, plant: impl FnMut(&mut Builder, (u64, u64))) -> Report {
    diagnose(&trace(cpus, plant))
}

/// The trace of such a run.
pub fn trace(cpus: u32, mut plant: impl FnMut(&mut Builder, (u64, u64))) -> Trace {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..STEPS {
        let at = START + step * STEP;
        one_step(&mut b, (main, worker), step, (at, at + WAIT));
        plant(&mut b, (at + 2_000, at + 2_000 + PLANT));
    }
    for tid in [100, 101] {
        b.watch(tid, (0, END), &[]);
    }
    b.build(END)
}

/// The trainer waits in `wait`, and the worker is in get all the time.
pub fn one_step(b: &mut Builder, (main, worker): (TrackId, TrackId), step: u64, wait: (u64, u64)) {
    let at = wait.0;
    b.step("train", 0, step + 1, 100, (at, at + STEP));
    b.wait(main, "train", (0, step + 1), Some((step, 101)), wait);
    b.stage(worker, cat::DATA_GET, step, None, (at - 8_000, wait.1));
    b.off(100, blocked("futex", "futex_wait"), wait);
}

/// Share of the window that is charged to a cause.
pub fn share(report: &Report, cause: Cause) -> f64 {
    report.breakdown.get(cause.id()).copied().unwrap_or(0.0)
}

pub fn assert_planted(report: &Report, cause: Cause) {
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let lost = report.charges_ns.get(cause.id()).copied().unwrap_or(0);
    assert_eq!(lost, STEPS * PLANT * 1000, "{report}");
    assert_eq!(report.findings[0].cause, cause, "{report}");
}

/// A healthy run: two workers, waits of 0.2 ms, a full queue.
pub fn healthy(mut more: impl FnMut(&mut Builder, u64)) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let workers = [b.thread(101, "dataloader-0"), b.thread(102, "dataloader-1")];
    for step in 0..STEPS {
        let at = START + step * STEP;
        let (track, tid) = (workers[(step % 2) as usize], 101 + (step % 2) as u32);
        b.step("train", 0, step + 1, 100, (at, at + STEP));
        b.wait(
            main,
            "train",
            (0, step + 1),
            Some((step, tid)),
            (at, at + 200),
        );
        b.off(100, blocked("futex", "futex_wait_queue"), (at, at + 200));
        // Made two steps ahead; then the worker waits for room in the queue.
        let made = at - 2 * STEP;
        b.stage(track, cat::DATA_GET, step, None, (made - 5_000, made));
        b.off(
            tid,
            blocked("futex", "futex_wait_queue"),
            (made, made + 2 * STEP - 5_000),
        );
        more(&mut b, at);
    }
    for tid in [100, 101, 102] {
        b.watch(tid, (0, END), &[]);
    }
    diagnose(&b.build(END))
}
