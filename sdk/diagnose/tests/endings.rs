//! How a run ends is no cause of what it waited for: an interrupt, an exception, a wait that was cut off.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{MAX_LISTED, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat, kind};
use gpustall_trace::{Trace, TrackId, Value};

/// Twenty steps of 10 ms with `wait` of it; then one more call of `next()` of `last`, which gives an error.
fn interrupted(wait: u64, last: u64, more: impl FnOnce(&mut Builder, TrackId, u64)) -> Report {
    diagnose(&interrupted_trace(wait, last, more))
}

fn interrupted_trace(wait: u64, last: u64, more: impl FnOnce(&mut Builder, TrackId, u64)) -> Trace {
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
    b.build(end + 50_000)
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

#[test]
fn the_window_ends_when_a_wait_is_in_vain() {
    // Its worker ended 5 s before PyTorch looked.
    let hooked = |mut trace: Trace| {
        for word in [arg::FRAMEWORK, PYTORCH] {
            trace.strings.intern(word);
        }
        diagnose(&trace)
    };
    let gone = hooked(interrupted_trace(5_000, 5_040_000, |b, main, _| {
        b.fault(main, 340_000, "worker-0 exited with code 0");
    }));
    let seen = hooked(interrupted_trace(5_000, 40_000, |_, _, _| {}));
    assert_eq!(gone.window_ns, seen.window_ns, "{gone}");
    assert_eq!(gone.charges_ns, seen.charges_ns, "{gone}");
}

#[test]
fn a_call_that_the_run_went_on_after_is_no_part_of_the_data_wait_that_the_verdict_tells() {
    let report = interrupted(5_000, 900_000, |b, main, end| {
        for step in 0..10 {
            let at = end + step * 10_000;
            b.step("train", 1, step, 100, (at, at + 10_000));
            b.wait(main, "train", (1, step), None, (at, at + 5_000));
        }
    });
    // 115 ms of 1.15 s.
    let verdict =
        "10 % of the window is data wait, beside calls that failed (78 %); main waits in next()";
    assert!(report.verdict.contains(verdict), "{report}");
}

/// Twenty steps that wait for a worker, which takes 9 ms to get a batch and is cut off, as `how` says, in one more get
/// of 900 ms; whether the trainer waits for that batch as the recording ends.
fn in_a_get(how: (&str, V<'_>), waits: bool) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "worker-0");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 101)),
            (at, at + 9_000),
        );
        b.stage(worker, cat::DATA_GET, step, None, (at, at + 9_000));
    }
    let end = 1_200_000;
    let args = [(arg::BATCH, V::N(20)), (arg::ITEMS, V::N(64)), how];
    b.slice(worker, cat::DATA_GET, "get", (299_000, end), &args);
    if waits {
        let args = [
            (arg::LOADER, V::S("train")),
            (arg::STEP, V::N(20)),
            (arg::UNFINISHED, V::B(true)),
        ];
        b.slice(main, cat::DATA_WAIT, "data wait", (300_000, end), &args);
    }
    diagnose(&b.build(end))
}

#[test]
fn a_stage_that_was_cut_off_is_no_whole_get_and_its_batch_was_not_made() {
    for how in [
        (arg::ERROR, V::S("its process was killed by SIGKILL")),
        (arg::UNFINISHED, V::B(true)),
        (arg::PANICKED, V::B(true)),
    ] {
        let report = in_a_get(how, false);
        let worker = &report.workers[0];
        assert_eq!(worker.batches, 20, "{report}");
        assert_eq!(worker.get_mean_ns, Some(9_000_000), "{report}");
    }
}

#[test]
fn a_worker_is_still_in_a_stage_only_while_somebody_waits_for_it() {
    let open = |waits: bool| {
        let report = in_a_get((arg::UNFINISHED, V::B(true)), waits);
        report
            .to_string()
            .contains("worker-0 was still in get after")
    };
    assert!(open(true));
    assert!(!open(false));
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
