//! Each cause that the scheduler names, planted in a timeline, and healthy runs beside them.

mod common;

use common::kernel::{Off, blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat, totals};

const START: u64 = 100_000;
const STEPS: u64 = 40;
const STEP: u64 = 20_000;
/// Of a step: the wait, and the part of it that the plant takes.
const WAIT: u64 = 12_000;
const PLANT: u64 = 8_000;
const END: u64 = START + STEPS * STEP;

/// Forty steps of 20 ms, of which the trainer waits 12 ms for the worker; `plant` says what that
/// one does in 8 ms of its get, the rest of which it runs. All are watched.
fn run(cpus: u32, mut plant: impl FnMut(&mut Builder, (u64, u64))) -> Report {
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
    diagnose(&b.build(END))
}

/// The trainer waits in `wait`, and the worker is in get all the time.
fn one_step(b: &mut Builder, (main, worker): (TrackId, TrackId), step: u64, wait: (u64, u64)) {
    let at = wait.0;
    b.step("train", 0, step + 1, 100, (at, at + STEP));
    b.wait(main, "train", (0, step + 1), Some((step, 101)), wait);
    b.stage(worker, cat::DATA_GET, step, None, (at - 8_000, wait.1));
    b.off(100, blocked("futex", "futex_wait"), wait);
}

/// Share of the window that is charged to a cause.
fn share(report: &Report, cause: Cause) -> f64 {
    report.breakdown.get(cause.id()).copied().unwrap_or(0.0)
}

fn assert_planted(report: &Report, cause: Cause) {
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let lost = report.charges_ns.get(cause.id()).copied().unwrap_or(0);
    assert_eq!(lost, STEPS * PLANT * 1000, "{report}");
    assert_eq!(report.findings[0].cause, cause, "{report}");
}

#[test]
fn a_worker_without_a_cpu_is_contended_and_who_had_it_is_named() {
    let report = run(2, |b, span| b.off(101, preempted("spinner", 900), span));
    assert_planted(&report, Cause::DataContended);
    let text = report.to_string();
    println!("{text}");
    assert!(text.contains("CPU 0 held by spinner 100 %"), "{text}");
}

#[test]
fn print_them() {
    let report = run(2, |b, span| {
        b.request(101, 1 << 20, (span.0, span.1 - 10));
        b.off(101, blocked("file read", "folio_wait_bit_common"), span);
    });
    println!("{report}");
    let report = run(2, |b, span| {
        b.off(
            101,
            blocked("futex", "futex_wait").woken_by("dataloader-1", 102),
            span,
        )
    });
    println!("{report}");
    let report = run(2, |b, span| {
        for at in (span.0 + 5_000..=span.1).step_by(5_000) {
            b.sample(101, "page fault", "exc_page_fault", at);
        }
    });
    println!("{report}");
    let report = run(2, |b, span| {
        b.off(
            100,
            preempted("spinner", 900),
            (span.0 + 11_000, span.0 + 16_000),
        )
    });
    println!("{report}");
}
