//! Whose time is charged: threads that train one after another, and threads that train together.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Cause, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};

#[test]
fn a_thread_for_each_epoch_is_charged_only_while_it_exists() {
    let mut b = Builder::new();
    for epoch in 0..20u64 {
        let tid = 101 + epoch as u32;
        let thread = b.thread(tid, &format!("epoch-{epoch}"));
        for step in 0..5 {
            let at = (epoch * 5 + step) * 40_000;
            b.step("train", epoch, step, tid, (at, at + 40_000));
            b.phase(thread, "metrics", (at, at + 30_000));
        }
    }
    let report = diagnose(&b.build(4_000_000));
    assert_eq!(report.device_ns, report.window_ns);
    assert_eq!(report.breakdown["host.metrics"], 0.75);
    assert_eq!(report.devices.len(), 20);
    assert!(report.devices.iter().all(|device| device.compute == 0.25));
    assert_eq!(report.findings[0].cause, Cause::HostMetrics);
    assert_eq!(report.findings[0].predicted_step_ns, Some(10_000_000));
    let verdict = "mlp: 75 % of the window is metrics work; 20 threads epoch-* spend it in";
    assert!(report.verdict.starts_with(verdict), "{}", report.verdict);
}

#[test]
fn the_last_of_threads_that_follow_each_other_goes_to_the_end_of_the_recording() {
    let mut b = Builder::new();
    for epoch in 0..2u64 {
        let tid = 101 + epoch as u32;
        b.thread(tid, &format!("epoch-{epoch}"));
        for step in 0..5 {
            let at = epoch * 70_000 + step * 10_000;
            b.step("train", epoch, step, tid, (at, at + 10_000));
        }
    }
    // No step for 20 ms between the two, and for 30 ms after the second.
    let report = diagnose(&b.build(150_000));
    assert_eq!(report.window_ns, 150_000_000);
    assert_eq!(report.device_ns, 70_000_000 + 80_000_000);
    assert_eq!(report.devices[0].window_ns, 70_000_000);
    assert_eq!(report.charges_ns["compute"], report.device_ns);
}

#[test]
fn ranks_side_by_side_all_go_to_the_end_of_the_recording() {
    let mut b = Builder::new();
    let ranks = [b.thread(101, "rank-0"), b.thread(102, "rank-1")];
    for step in 0..10 {
        let at = step * 10_000;
        b.step("train", 0, step, 101, (at, at + 10_000));
        if step < 5 {
            b.step("train", 0, step, 102, (at + 500, at + 10_500));
        }
    }
    let open = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::EPOCH, V::N(0)),
        (arg::STEP, V::N(5)),
        (arg::UNFINISHED, V::B(true)),
    ];
    b.slice(ranks[1], cat::DATA_WAIT, "wait", (50_500, 2_000_000), &open);
    let report = diagnose(&b.build(2_000_000));
    assert_eq!(report.device_ns, 2_000_000_000 + 1_999_500_000);
    assert_eq!(report.charges_ns["data"], 1_949_500_000);
    assert!(report.verdict.contains("rank-1 had been in next()"));
}

#[test]
fn a_wait_that_never_ended_keeps_the_account_open_though_another_thread_begins() {
    let mut b = Builder::new();
    let first = b.thread(101, "first");
    b.thread(102, "second");
    for step in 0..5 {
        let at = step * 10_000;
        b.step("train", 0, step, 101, (at, at + 10_000));
        b.step("train", 1, step, 102, (at + 60_000, at + 70_000));
    }
    let open = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::UNFINISHED, V::B(true)),
    ];
    b.slice(first, cat::EPOCH_START, "iter", (50_000, 200_000), &open);
    let report = diagnose(&b.build(200_000));
    assert_eq!(report.device_ns, 200_000_000 + 140_000_000);
    assert_eq!(report.charges_ns["data.startup"], 150_000_000);
}

/// Two threads take slices of one loader: the step stands on the one that asked first.
fn slices(waits: [u64; 2]) -> gpustall_trace::Trace {
    let mut b = Builder::new();
    let ranks = [b.thread(101, "rank-0"), b.thread(102, "rank-1")];
    for step in 0..20 {
        let at = step * 10_000;
        b.step("train", 0, step, 101, (at, at + 10_000));
        for (rank, wait) in ranks.into_iter().zip(waits) {
            let start = at + 100 * u64::from(rank == ranks[1]);
            let batch = 2 * step + u64::from(rank == ranks[1]);
            b.wait(
                rank,
                "train",
                (0, step),
                Some((batch, 103)),
                (start, start + wait),
            );
        }
    }
    b.build(200_000)
}

#[test]
fn a_starved_thread_that_shares_the_steps_of_another_one_is_seen() {
    let report = diagnose(&slices([100, 8000]));
    let names: Vec<&str> = report.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["rank-0", "rank-1"]);
    assert_eq!(report.device_ns, 200_000_000 + 199_900_000);
    assert!(report.devices[1].idle > 0.79, "{report}");
    assert_eq!(report.steps.count + report.first_steps.length.count, 20);
    let finding = &report.findings[0];
    assert_eq!(finding.cause, Cause::Data);
    assert_eq!(finding.worst[0].thread, "rank-1");
    // Half of 8.1 ms, for the two threads together, of 10 ms.
    assert_eq!(finding.step_ns, Some(10_000_000));
    assert_eq!(finding.predicted_step_ns, Some(5_950_000));
    assert!(diagnose(&slices([100, 100])).findings.is_empty());
}

#[test]
fn a_thread_that_only_validates_is_no_trainer() {
    let mut b = Builder::new();
    b.thread(101, "main");
    let valid = b.thread(102, "valid");
    for step in 0..10 {
        let at = step * 10_000;
        b.step("train", 0, step, 101, (at, at + 10_000));
        let args = [(arg::LOADER, V::S("valid")), (arg::KIND, V::S(kind::VALID))];
        b.slice(valid, cat::DATA_WAIT, "wait", (at, at + 9000), &args);
    }
    let report = diagnose(&b.build(100_000));
    assert_eq!(report.devices.len(), 1);
    assert_eq!(report.breakdown["compute"], 1.0);
}

#[test]
fn several_threads_make_their_batches_themselves() {
    let mut b = Builder::new();
    for rank in 0..8u32 {
        let thread = b.thread(101 + rank, &format!("rank-{rank}"));
        for step in 0..10 {
            let at = step * 10_000;
            let (batch, tid) = (step * 8 + u64::from(rank), 101 + rank);
            b.step("train", 0, step, tid, (at, at + 10_000));
            b.wait(
                thread,
                "train",
                (0, step),
                Some((batch, tid)),
                (at, at + 9000),
            );
            b.stage(
                thread,
                cat::DATA_GET,
                batch,
                Some(8990),
                (at + 1, at + 8999),
            );
        }
    }
    let report = diagnose(&b.build(100_000));
    let verdict = "8 threads rank-* make the batches themselves in next(), mostly in get";
    assert!(report.verdict.ends_with(verdict), "{}", report.verdict);
}

#[test]
fn what_a_thread_does_between_its_last_step_and_its_successor_is_charged() {
    let mut b = Builder::new();
    for epoch in 0..3u64 {
        let tid = 101 + epoch as u32;
        let thread = b.thread(tid, &format!("epoch-{epoch}"));
        for step in 0..5 {
            let at = epoch * 100_000 + step * 10_000;
            b.step("train", epoch, step, tid, (at, at + 10_000));
        }
        let end = epoch * 100_000 + 50_000;
        b.phase(thread, "checkpoint", (end, end + 40_000));
    }
    let report = diagnose(&b.build(300_000));
    assert_eq!(report.device_ns, report.window_ns);
    assert_eq!(report.charges_ns["host.checkpoint"], 3 * 40_000_000);
}

/// A program of PyTorch whose main thread takes the batches of a loader and hands them to a thread on which the
/// optimizer steps.
fn handed_on(watched: bool) -> gpustall_diagnose::Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.thread(101, "trainer");
    for step in 0..20 {
        let at = 10_000 + step * 10_000;
        b.step("Optimizer.step", 0, step, 101, (at, at + 10_000));
        b.wait(main, "train", (0, step), None, (at, at + 9_000));
        if watched {
            let waits = common::kernel::blocked("futex", "futex_wait");
            b.off(101, waits.woken_by("main", 100), (at, at + 8_000));
        }
    }
    if watched {
        b.watch(100, (0, 220_000), &[]);
        b.watch(101, (0, 220_000), &[]);
    }
    diagnose(&b.build(210_000))
}

#[test]
fn a_thread_that_hands_batches_on_to_the_one_that_trains_has_no_account() {
    let report = handed_on(false);
    let names: Vec<&str> = report.devices.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["trainer"], "{report}");
    assert!(report.findings.is_empty(), "{report}");
    let verdict = "mlp: 100 % of the window is compute, or waiting for the batches that main hands on; it \
                   was in next() for 90 % of the window";
    assert_eq!(report.verdict, verdict);
    assert!(
        report.notes[0].contains("hands them on to trainer"),
        "{report}"
    );
    let report = handed_on(true);
    assert_eq!(report.findings[0].cause, Cause::HostBlocked, "{report}");
    assert!(
        report.verdict.contains("the trainer being blocked"),
        "{report}"
    );
}
