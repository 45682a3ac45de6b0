//! Workers of a loop that was left are stopped in the `iter()` of a later one.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, STOP_WORKERS, arg, cat, kind};

/// Forty steps of 10 ms in two epochs. The `iter()` of the second one takes 500 ms, of which `stops` go by while the
/// workers of the first one are stopped.
fn report(stops: u64) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let mut at = 100_000;
    for epoch in 0..2 {
        if epoch == 1 {
            let args = [
                (arg::LOADER, V::S("train")),
                (arg::KIND, V::S(kind::TRAIN)),
                (arg::EPOCH, V::N(epoch)),
                (arg::FRAMEWORK, V::S(PYTORCH)),
            ];
            b.slice(
                main,
                cat::EPOCH_START,
                "epoch start",
                (at, at + 500_000),
                &args,
            );
            let stopped = (at + 1_000, at + 1_000 + stops);
            b.slice(main, cat::PYTHON_FUNCTION, STOP_WORKERS, stopped, &[]);
            at += 500_000;
        }
        for step in 0..20 {
            b.step("train", epoch, step, 100, (at, at + 10_000));
            b.wait(main, "train", (epoch, step), None, (at, at + 100));
            at += 10_000;
        }
    }
    diagnose(&b.build(at))
}

#[test]
fn stopping_the_workers_of_an_earlier_loop_is_no_start_of_an_epoch() {
    let report = report(490_000);
    let found = &report.findings[0];
    assert_eq!(found.cause, Cause::DataStartup, "{report}");
    let told = "main spends it stopping the workers of an earlier loop";
    assert!(report.verdict.contains(told), "{report}");
    let of = |what: &str| {
        let links = found.chain.iter().filter(|link| link.what == what);
        links.map(|link| link.ns).sum::<u64>()
    };
    assert_eq!(
        of("stopping the workers of an earlier loop"),
        490_000_000,
        "{report}"
    );
    assert_eq!(of("start of the epoch"), 10_000_000, "{report}");
    assert!(
        found.remedy.contains("set its __traceback__ to None"),
        "{report}"
    );
}

#[test]
fn an_iter_that_hardly_stops_any_is_told_to_start_the_epoch() {
    let report = report(20_000);
    assert!(
        report.verdict.contains("iter(), which starts the epoch"),
        "{report}"
    );
    assert!(
        !report.findings[0].remedy.contains("__traceback__"),
        "{report}"
    );
}
