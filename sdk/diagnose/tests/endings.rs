//! How a run ends is no cause of what it waited for: an interrupt, an exception, a wait that was cut off.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat, kind};

/// Twenty steps of 10 ms with `wait` of it; then one more call of `next()` of `last`, which gives an error.
fn interrupted(wait: u64, last: u64, more: impl FnOnce(&mut Builder, TrackId, u64)) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), None, (at, at + wait));
    }
    let args = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::EPOCH, V::N(0)),
        (arg::STEP, V::N(20)),
        (arg::ERROR, V::S("next() raised an exception")),
    ];
    let end = 300_000 + last;
    b.slice(main, cat::DATA_WAIT, "data wait", (300_000, end), &args);
    b.fault(main, end, "next() raised an exception");
    more(&mut b, main, end);
    diagnose(&b.build(end + 50_000))
}

#[test]
fn an_interrupt_in_the_last_next_is_told_and_no_verdict() {
    let report = interrupted(50, 40_000, |_, _, _| {});
    assert!(report.findings.is_empty(), "{report}");
    let verdict = "mlp: healthy: 86 % of the window is compute, no cause takes 5 %, but for the call in which \
                   the run ended";
    assert_eq!(report.verdict, verdict);
    let text = report.to_string().replace("\n        ", " ");
    let note = "note    main at 340 ms: next() raised an exception (the run ended with it)";
    assert!(text.contains(note), "{text}");
    assert_eq!(report.loaders[0].batches, 20);
    // What it waited for stays charged.
    assert!(report.charges_ns["data"] >= 40_000_000);
}

#[test]
fn an_exception_after_which_the_run_goes_on_is_in_the_verdict() {
    let report = interrupted(50, 2_000, |b, main, end| {
        b.step("train", 0, 21, 100, (end + 10, end + 10_000));
        b.wait(main, "train", (0, 21), None, (end + 10, end + 60));
    });
    let verdict = "mlp: main: next() raised an exception; healthy";
    assert!(report.verdict.starts_with(verdict), "{report}");
}

#[test]
fn starvation_before_an_interrupt_is_still_found() {
    let report = interrupted(5_000, 2_000, |_, _, _| {});
    let verdict = "mlp: 38 % of the window is data wait; main waits in next()";
    assert!(report.verdict.starts_with(verdict), "{report}");
}
