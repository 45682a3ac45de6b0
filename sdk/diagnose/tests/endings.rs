//! How a run ends is no cause of what it waited for: an interrupt, an exception, a wait that was cut off.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{MAX_LISTED, Report, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};
use gpustall_trace::{TrackId, Value};

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
    let second = text
        .lines()
        .skip(1)
        .find(|line| line.starts_with("the run"));
    let ended = "the run ended with an error, main at 340 ms: next() raised an exception";
    assert_eq!(second, Some(ended), "{text}");
    assert_eq!(report.ended, ended);
    assert_eq!(text.matches("raised an exception").count(), 1, "{text}");
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

/// Twenty steps, after half of which a thread that takes no batches fails. `ends` says whether the run ended so.
fn failed(ends: bool) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), None, (at, at + 5_000));
    }
    let thread = b.thread(105, "backward");
    b.fault(thread, 200_000, "RuntimeError: out of memory");
    b.trace.meta.exit_code = Some(u8::from(ends));
    if ends {
        ended_run(&mut b);
    }
    diagnose(&b.build(300_000))
}

/// The run ended with the last fault.
fn ended_run(b: &mut Builder) {
    let key = b.trace.strings.intern(arg::ENDED_RUN);
    let instant = b.trace.instants.last_mut().expect("the fault");
    let mut args = instant.args.to_vec();
    args.push((key, Value::Bool(true)));
    instant.args = args.into();
}

#[test]
fn what_is_known_to_have_ended_the_run_is_told_below_the_verdict_and_costs_nothing() {
    let (goes_on, ended) = (failed(false), failed(true));
    let fault = "mlp: backward: RuntimeError: out of memory; ";
    assert!(goes_on.verdict.starts_with(fault), "{goes_on}");
    assert_eq!(goes_on.ended, "", "{goes_on}");
    let verdict = goes_on
        .verdict
        .replace("backward: RuntimeError: out of memory; ", "");
    assert_eq!(ended.verdict, verdict, "{ended}");
    assert_eq!(ended.charges_ns, goes_on.charges_ns);
    let told =
        "the run ended with an error, backward at 200 ms: RuntimeError: out of memory; exit code 1";
    assert_eq!(ended.ended, told, "{ended}");
}

#[test]
fn of_many_faults_the_one_that_ended_the_run_and_the_last_one_are_listed() {
    for ends in [true, false] {
        let report = interrupted(50, 2_000, |b, main, end| {
            let other = b.thread(105, "other");
            for i in 0..30 {
                b.fault(other, 200_000 + i, "ValueError: no");
            }
            b.fault(main, end + 10, "KeyError: 3");
            if ends {
                ended_run(b);
            }
            b.fault(other, end + 20, "ValueError: last");
        });
        assert_eq!(report.faults.len(), MAX_LISTED);
        let times: Vec<u64> = report.faults.iter().map(|fault| fault.at_ns).collect();
        assert!(times.is_sorted(), "{times:?}");
        let last = report.faults.last().map(|fault| fault.message.as_str());
        assert_eq!(last, Some("ValueError: last"));
        // Where it is recorded what ended the process, an exception in its last call did not.
        let told = match ends {
            true => "the run ended with an error, main at 302 ms: KeyError: 3",
            false => "the run ended with an error, main at 302 ms: next() raised an exception",
        };
        assert_eq!(report.ended, told);
    }
}

#[test]
fn an_exception_in_the_last_next_of_a_run_without_an_error_is_in_the_verdict() {
    let report = interrupted(50, 2_000, |b, _, _| b.trace.meta.exit_code = Some(0));
    assert_eq!(report.ended, "");
    let verdict = "mlp: main: next() raised an exception; ";
    assert!(report.verdict.starts_with(verdict), "{report}");
    assert!(!report.faults[0].ended_run);
    assert_eq!(report.faults[0].consequence, "");
}

#[test]
fn of_two_faults_alike_the_one_that_stands_below_the_verdict_is_no_note() {
    let report = interrupted(50, 2_000, |b, main, end| {
        b.fault(main, end + 10, "KeyError");
        ended_run(b);
        b.fault(main, end + 20, "KeyError");
        ended_run(b);
    });
    let text = report.to_string();
    assert_eq!(text.matches("KeyError").count(), 2, "{text}");
}

#[test]
fn the_call_in_which_the_run_ended_is_no_part_of_the_waits_in_the_verdict() {
    let report = interrupted(5_000, 200_000, |_, _, _| {});
    let verdict = "mlp: 21 % of the window is data wait, beside the call in which the run ended (44 %); main waits";
    assert!(report.verdict.starts_with(verdict), "{report}");
}
