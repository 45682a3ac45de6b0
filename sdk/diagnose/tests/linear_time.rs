//! What a diagnosis takes grows with the number of events, however long their slices are and however
//! many lie in one another.

mod common;

use common::kernel::{blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::vocab::{arg, cat};

#[test]
fn a_long_slice_under_many_waits_does_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    b.stage(worker, cat::DATA_GET, 1, None, (0, 1_000_000));
    for step in 0..100_000 {
        let at = step * 10;
        b.step("train", 0, step, 100, (at, at + 10));
        b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 5));
        b.stage(worker, cat::DATA_GET, step, None, (at, at + 2));
        b.slice(
            main,
            cat::PAUSE,
            "paused",
            (at + 7, at + 8),
            &[(arg::STEP, V::N(1))],
        );
    }
    let trace = b.build(1_000_000);
    let begun = std::time::Instant::now();
    diagnose(&trace);
    // Takes a fraction of a second; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn long_copies_under_many_kernels_do_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let (compute, copies) = (b.stream(0, 7), b.stream(0, 8));
    b.profiler_step(main, 0, (0, 200_000));
    for i in 0..100_000u64 {
        b.copy(copies, common::device::PINNED, 0, 1, (i, 200_000 + i));
        b.launch(main, compute, i + 1, (2 * i, 2 * i + 1), (2 * i, 2 * i + 1));
    }
    let begun = std::time::Instant::now();
    let report = diagnose(&b.build(400_000));
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    // Seconds without optimization, on a machine that does nothing else.
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
}

#[test]
fn many_intervals_under_long_waits_do_not_make_it_slow() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    b.off(101, blocked("futex", "futex_wait"), (0, 200_000));
    for step in 0..20_000u64 {
        let at = step * 10;
        b.off(101, preempted("x", 9), (at, at + 2));
        b.off(
            100,
            blocked("futex", "futex_wait").woken_by("y", 101),
            (at + 1, at + 4),
        );
        b.sample(101, "page fault", "f", at + 3);
        b.request(101, 4096, (at, 200_000 - step));
        b.slice(worker, cat::RECLAIM, "direct reclaim", (at, 200_000), &[]);
        if step % 50 == 0 {
            b.step("train", 0, step, 100, (at, at + 500));
            b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 400));
            b.stage(worker, cat::DATA_GET, step, None, (at, at + 400));
        }
    }
    b.watch(101, (0, 200_000), &[]);
    let mut trace = b.build(200_000);
    let begun = std::time::Instant::now();
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    // Takes a second or two without optimization; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn many_programs_that_take_a_cpu_do_not_make_it_slow() {
    let mut b = Builder::new();
    b.thread(100, "main");
    const STEPS: u64 = 100_000;
    for step in 0..STEPS {
        let (at, pid) = (step * 20, 1_000 + step as u32);
        b.step("train", 0, step, 100, (at, at + 20));
        let program = format!("program {pid}");
        let off = preempted(&program, pid).of_process(pid);
        b.off(100, off, (at + 5, at + 15));
    }
    b.watch(100, (0, STEPS * 20), &[]);
    let trace = b.build(STEPS * 20);
    let begun = std::time::Instant::now();
    let report = diagnose(&trace);
    assert_eq!(report.charges_ns["host.preempted"], STEPS * 10_000);
    // Takes a second or two without optimization; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn many_threads_that_train_do_not_make_it_slow() {
    let mut b = Builder::new();
    for thread in 0..20_000 {
        let tid = 100 + thread;
        let track = b.thread(tid, "main");
        for step in 0..5 {
            let at = step * 1_000;
            b.step("train", 0, step, tid, (at, at + 1_000));
            let batch = step * 20_000 + u64::from(thread);
            b.wait(
                track,
                "train",
                (0, step),
                Some((batch, tid)),
                (at, at + 500),
            );
        }
    }
    let trace = b.build(5_000);
    let begun = std::time::Instant::now();
    let report = diagnose(&trace);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    // Takes seconds without optimization; a quadratic one would take minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
