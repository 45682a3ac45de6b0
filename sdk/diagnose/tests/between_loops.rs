//! Between the loops over a loader, in an evaluation say, its workers have nothing to do: whether they are busy is
//! asked of its loops.

mod common;

use common::Builder;
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::vocab::cat;

const STEP: u64 = 10_000;
const STEPS: u64 = 10;

/// Five epochs of one worker that is in get for so much of each step, with `between` after each of them; of a
/// machine with `cpus`.
fn run(get: u64, between: u64, cpus: u32) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    let worker = b.thread(101, "worker-0");
    let mut at = STEP;
    for epoch in 0..5 {
        for step in 0..STEPS {
            let (batch, there) = (epoch * STEPS + step, at + get);
            b.step("train", epoch, step, 100, (at, at + STEP));
            b.wait(
                main,
                "train",
                (epoch, step),
                Some((batch, 101)),
                (at, there),
            );
            b.stage(worker, cat::DATA_GET, batch, Some(get), (at, there));
            at += STEP;
        }
        at += between;
    }
    b.watch(100, (0, at), &[]);
    b.watch(101, (0, at), &[]);
    diagnose(&b.build(at))
}

fn causes(report: &Report) -> Vec<Cause> {
    let found = report.findings.iter().map(|finding| finding.cause);
    found.filter(|cause| *cause != Cause::DataStartup).collect()
}

#[test]
fn a_worker_that_is_busy_in_each_loop_is_the_limit_whatever_is_between_them() {
    for between in [0, 20 * STEP] {
        let report = run(8_000, between, 4);
        assert_eq!(causes(&report), [Cause::DataWorkerLimit], "{report}");
        let report = run(6_000, between, 4);
        assert_eq!(causes(&report), [Cause::DataCompute], "{report}");
    }
}

#[test]
fn the_reason_why_no_more_are_advised_is_of_the_loops() {
    // One CPU, and no other to be had.
    let report = run(8_000, 20 * STEP, 1);
    assert_eq!(causes(&report), [Cause::DataCompute], "{report}");
    assert!(!report.to_string().contains("not all busy"), "{report}");
}
