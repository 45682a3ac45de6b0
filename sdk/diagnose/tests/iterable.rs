//! Advice for a PyTorch loader whose data set is iterated, not indexed.

mod common;

use common::{Builder, in_process, with_workers};
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat};
use gpustall_trace::{Trace, Value};

/// The remedies for a trace whose loader is PyTorch's.
fn remedies(trace: Trace, iterable: bool) -> Vec<String> {
    let findings = report(trace, iterable).findings;
    findings.into_iter().map(|of| of.remedy).collect()
}

/// The report of a trace whose loader is PyTorch's.
fn report(mut trace: Trace, iterable: bool) -> Report {
    let wait = trace.strings.find(cat::DATA_WAIT);
    let framework = trace.strings.intern(arg::FRAMEWORK);
    let pytorch = Value::Str(trace.strings.intern(PYTORCH));
    let iterates = trace.strings.intern(arg::ITERABLE);
    for slice in trace.slices.iter_mut().filter(|of| Some(of.cat) == wait) {
        let own = [(framework, pytorch), (iterates, Value::Bool(iterable))];
        slice.args = slice.args.iter().copied().chain(own).collect();
    }
    diagnose(&trace)
}

#[test]
fn workers_share_out_what_they_iterate_and_nothing_is_indexed() {
    for trace in [in_process(60, 7_000, 1), with_workers(60, 7_000, 15_000)] {
        let indexed = remedies(trace.clone(), false);
        assert!(indexed[0].contains("num_workers"), "{indexed:?}");
        assert!(indexed[0].contains("__getitems__"), "{indexed:?}");
        let of_workers = |of: &String| of.contains("get_worker_info");
        assert!(!indexed.iter().any(of_workers), "{indexed:?}");

        let iterated = remedies(trace, true);
        assert!(iterated[0].contains("num_workers"), "{iterated:?}");
        assert!(of_workers(&iterated[0]), "{iterated:?}");
        assert!(iterated[0].contains("batch_size=None"), "{iterated:?}");
        let indexes = |of: &String| of.contains("__getitems__") || of.contains("index tensors");
        assert!(!iterated.iter().any(indexes), "{iterated:?}");
    }
}

/// Three workers whose batches are taken in turn: the last one takes `slow` microseconds for each, the others
/// 6 ms, and the rest of a step 5 ms.
fn of_three(slow: u64) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let workers: Vec<_> = (0..3)
        .map(|n| b.thread(101 + n, &format!("worker-{n}")))
        .collect();
    let round = (slow + 2_000).max(16_000);
    for batch in 0..90 {
        let (n, start) = (batch % 3, 100_000 + batch / 3 * round);
        let get = if n == 2 { slow } else { 6_000 };
        // Those of the others lie ready when they are asked for.
        let made = if n == 2 { start + slow } else { start - 1_000 };
        b.stage(
            workers[n as usize],
            cat::DATA_GET,
            batch,
            None,
            (made - get, made),
        );
        let asked = start + n * 5_100;
        let taken = made.max(asked) + 100;
        let wait = (asked, taken);
        b.wait(
            main,
            "train",
            (0, batch),
            Some((batch, 101 + n as u32)),
            wait,
        );
        let next = if n == 2 { start + round } else { asked + 5_100 };
        b.step("train", 0, batch, 100, (asked, next));
    }
    b.build(100_000 + 30 * round)
}

#[test]
fn one_slow_shard_is_named_and_no_workers_are_advised() {
    let report = report(of_three(60_000), true);
    let found = &report.findings[0];
    assert_eq!(found.cause, Cause::Data, "{report}");
    let told = &found.remedy;
    assert!(told.contains("evenly"), "{report}");
    let numbers = "worker-2 takes 60.0 ms for a batch and each of the others 6.00 ms at most";
    assert!(told.contains(numbers), "{report}");
    assert!(!told.contains("num_workers"), "{report}");
    assert!(found.worker_counts.is_empty(), "{report}");
    // The three batches of a round take 72 ms to make, which three workers can share.
    let then = found.predicted_step_ns.unwrap_or_default();
    assert!((7_900_000..8_200_000).contains(&then), "{report}");
    assert!(found.assumption.contains("each worker"), "{report}");
}

#[test]
fn workers_that_take_equally_long_or_get_their_items_by_index_are_not_uneven() {
    for (slow, iterable) in [(11_000, true), (60_000, false)] {
        let report = report(of_three(slow), iterable);
        assert!(!report.to_string().contains("evenly"), "{report}");
    }
}
