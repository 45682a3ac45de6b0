//! Whom a report speaks to, and what it calls things: advice fits the program that was recorded.

mod common;

use common::kernel::{blocked, preempted};
use common::planted::{self, END, START, STEP, STEPS, WAIT};
use common::{Builder, V};
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{self, arg, cat, kind};
use gpustall_trace::{Trace, TrackId};

/// A trainer that sleeps in each step; nothing marks where.
fn sleeps() -> Trace {
    planted::trace(2, |b, (start, _)| {
        let compute = start + WAIT;
        let off = blocked("sleep", "hrtimer_nanosleep");
        b.off(100, off, (compute, compute + 5_000));
    })
}

fn finding(report: &Report, cause: Cause) -> &Finding {
    let mut findings = report.findings.iter();
    findings.find(|of| of.cause == cause).expect("it is one")
}

fn as_pytorch(mut trace: Trace) -> Trace {
    trace.strings.intern(arg::FRAMEWORK);
    trace.strings.intern(vocab::PYTORCH);
    trace
}

#[test]
fn only_programs_that_use_the_sdk_are_told_to_mark_with_it() {
    for recorder in ["0.1.0", "0.1.0 + gpustall-sidecar 0.1.0"] {
        let mut trace = sleeps();
        trace.meta.recorder = recorder.into();
        let report = diagnose(&trace);
        let remedy = &finding(&report, Cause::HostBlocked).remedy;
        assert!(remedy.contains("instrument::phase"), "{recorder}: {remedy}");
        let mut missing = report.evidence.missing.iter();
        assert!(missing.any(|of| of.how.contains("instrument::phase")));
    }
    for recorder in ["gpustall run 0.1.0", "gpustall-sidecar 0.1.0"] {
        for hooked in [false, true] {
            let mut trace = sleeps();
            trace.meta.recorder = recorder.into();
            if hooked {
                trace = as_pytorch(trace);
            }
            let report = diagnose(&trace);
            let remedy = &finding(&report, Cause::HostBlocked).remedy;
            let call = match hooked {
                true => "find the call in which it sleeps (time.sleep,",
                false => "find the call in which it sleeps (",
            };
            assert!(remedy.starts_with(call), "{remedy}");
            assert!(!report.to_string().contains("instrument::"), "{report}");
        }
    }
}

/// Batches that are made in process or on a worker, `collate` microseconds of ten thousand in collate.
fn makes(collate: u64, worker: bool) -> Trace {
    let mut b = Builder::new();
    b.trace.meta.cpus = 1;
    let main = b.thread(100, "main");
    let maker = match worker {
        true => (b.thread(101, "dataloader-0"), 101),
        false => (main, 100),
    };
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, maker.1)),
            (at, at + 10_000),
        );
        let middle = at + 10_000 - collate;
        b.stage(
            maker.0,
            cat::DATA_GET,
            step,
            Some(middle - at),
            (at, middle),
        );
        let end = (middle, at + 10_000);
        b.stage(maker.0, cat::DATA_COLLATE, step, Some(collate), end);
    }
    b.build(END)
}

/// Batches of 10 ms that are made in process, of which the thread has no CPU for `without` in the `nth`
/// ones, and the end of the epoch.
fn without_a_cpu(without: u64, nth: u64) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 2;
    let main = b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        let wait = (at, at + 10_000);
        b.wait(main, "train", (0, step), Some((step, 100)), wait);
        b.stage(main, cat::DATA_GET, step, None, wait);
        if step % nth == 0 {
            b.off(
                100,
                preempted("spinner", 900),
                (at + 2_000, at + 2_000 + without),
            );
        }
    }
    let args = [(arg::LOADER, V::S("train")), (arg::EPOCH, V::N(0))];
    b.slice(main, cat::EPOCH_END, "end", (END, END + 1_000), &args);
    b.step("train", 0, STEPS, 100, (END, END + 1_000));
    b.watch(100, (0, END + 1_000), &[]);
    diagnose(&b.build(END + 1_000))
}

/// The finding's first link, and its first one in get.
fn proofs(report: &Report, cause: Cause) -> (&str, &str) {
    let chain = &finding(report, cause).chain;
    let get = chain.iter().find(|link| link.what == "get");
    (&chain[0].evidence, &get.expect("it is in get").evidence)
}

#[test]
fn a_mean_that_is_more_than_what_was_lost_says_so_and_one_of_some_batches_which() {
    // A fourth part of each batch is another finding's.
    let report = without_a_cpu(2_500, 1);
    let (times, get) = proofs(&report, Cause::DataCompute);
    assert_eq!(
        get, "mean 10.0 ms a batch in full, 156 us an item",
        "{report}"
    );
    assert!(times.starts_with("40 times, p50 7.50 ms"), "{report}");
    // Each second one of them.
    let report = without_a_cpu(5_000, 2);
    let (_, get) = proofs(&report, Cause::HostPreempted);
    let half = "mean 10.0 ms a batch in full (20 of 40 batches), 156 us an item";
    assert_eq!(get, half, "{report}");
    // All of each of them.
    let report = without_a_cpu(0, 1);
    let (_, get) = proofs(&report, Cause::DataCompute);
    assert_eq!(get, "mean 10.0 ms a batch, 156 us an item", "{report}");
}

#[test]
fn where_collate_is_most_of_a_batch_it_is_what_is_to_be_cheaper() {
    for worker in [false, true] {
        for (collate, of_collate) in [(9_000, true), (1_000, false)] {
            let report = diagnose(&makes(collate, worker));
            let remedy = &report.findings[0].remedy;
            assert_eq!(
                remedy.contains("the Batcher's batch()"),
                of_collate,
                "{report}"
            );
            assert_eq!(remedy.contains("index the data directly"), !of_collate);
            let report = diagnose(&as_pytorch(makes(collate, worker)));
            let remedy = &report.findings[0].remedy;
            assert_eq!(remedy.contains("it is collate_fn"), of_collate, "{report}");
            assert_eq!(remedy.contains("__getitems__"), !of_collate, "{report}");
        }
    }
}

const NAMED: &str = "DataLoader (sleepget.py:12)";

/// Steps without a wait to speak of, and waits for another loader between them.
fn validates(name: &str, worker: bool) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..20 {
        let at = step * 10_000;
        b.step(NAMED, 0, step, 100, (at, at + 10_000));
        b.wait(main, NAMED, (0, step), None, (at, at + 10));
    }
    for step in 0..10 {
        let at = 200_000 + step * 10_000;
        let mut args = vec![
            (arg::LOADER, V::S(name)),
            (arg::KIND, V::S(kind::VALID)),
            (arg::EPOCH, V::N(0)),
            (arg::STEP, V::N(step)),
        ];
        if !worker {
            args.extend([(arg::BATCH, V::N(step)), (arg::WORKER, V::N(100))]);
        }
        let wait = (at, at + 9_000);
        b.slice(main, cat::DATA_WAIT, "data wait", wait, &args);
    }
    diagnose(&b.build(300_000))
}

#[test]
fn a_report_says_when_it_is_about_a_validation_loader() {
    let report = validates("DataLoader (valslow.py:12)", true);
    let of = "at the validation loader `DataLoader (valslow.py:12)`";
    assert!(report.verdict.contains(of), "{report}");
    let text = report.to_string().replace("\n   ", " ");
    assert!(text.contains(&format!("1. HIGH data {of}")), "{text}");
    // A name that says it is enough.
    let report = validates("valid", true);
    assert!(
        !report.to_string().contains("validation loader"),
        "{report}"
    );
}

#[test]
fn the_table_keeps_the_kind_of_a_loader_with_a_long_name() {
    for worker in [false, true] {
        let text = validates("DataLoader (valslow.py:12) #2", worker).to_string();
        assert!(text.contains("(sleepget.py:12) (train) "), "{text}");
        assert!(text.contains("slow.py:12) #2 (valid) "), "{text}");
        assert_eq!(text.contains("  in process"), !worker, "{text}");
    }
}

#[test]
fn a_blank_line_stands_before_the_first_table_whichever_that_is() {
    let mut b = Builder::new();
    b.thread(100, "main");
    for step in 0..STEPS {
        let at = START + step * STEP;
        b.step("train", 0, step, 100, (at, at + STEP));
        b.off(100, blocked("", ""), (at, at + 9_000));
    }
    b.phase(TrackId(1), "forward", (START, START + 1_000));
    b.watch(100, (0, END), &[]);
    let text = diagnose(&b.build(END)).to_string();
    assert!(text.contains("\n\nthread "), "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
    // A wait without a class has no name that is like the one of a class.
    assert!(
        text.contains("blocked in something that was not recorded"),
        "{text}"
    );
    assert!(!text.contains("blocked in sleeping"), "{text}");
}
