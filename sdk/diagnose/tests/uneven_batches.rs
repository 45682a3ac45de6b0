//! Batches of which some take much longer than most: with a queue of two for each worker the others wait.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat, kind};

const BATCHES: u64 = 60;
const WORKERS: u64 = 2;
/// Times in microseconds.
const REST: u64 = 20_000;
const MADE: u64 = 5_000;

/// A loop over a PyTorch loader; every tenth batch takes `slow`.
fn report(slow: u64, prefetch: Option<u64>) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 16;
    let main = b.thread(100, "main");
    let workers: Vec<_> = (0..WORKERS as u32)
        .map(|i| b.thread(101 + i, &format!("worker-{i}")))
        .collect();
    let mut free = [0; WORKERS as usize];
    let (mut at, mut taken) = (0, Vec::new());
    for batch in 0..BATCHES {
        let worker = (batch % WORKERS) as usize;
        // A worker begins a batch as soon as one of its two places is free.
        let place = batch.checked_sub(2 * WORKERS);
        let place = place.map_or(0, |before| taken[before as usize]);
        let begin = std::cmp::max(free[worker], place);
        let took = if batch % 10 == 9 { slow } else { MADE };
        free[worker] = begin + took;
        b.stage(
            workers[worker],
            cat::DATA_GET,
            batch,
            Some(100),
            (begin, begin + took),
        );
        let there = at.max(begin + took);
        b.step("train", 0, batch, 100, (at, there + REST));
        let mut args = vec![
            (arg::LOADER, V::S("train")),
            (arg::KIND, V::S(kind::TRAIN)),
            (arg::FRAMEWORK, V::S(PYTORCH)),
            (arg::EPOCH, V::N(0)),
            (arg::STEP, V::N(batch)),
            (arg::BATCH, V::N(batch)),
            (arg::WORKER, V::N(101 + worker as u64)),
        ];
        args.extend(prefetch.map(|batches| (arg::PREFETCH, V::N(batches))));
        b.slice(main, cat::DATA_WAIT, "data wait", (at, there), &args);
        taken.push(there);
        at = there + REST;
    }
    for tid in 100..=100 + WORKERS as u32 {
        b.watch(tid, (0, at), &[]);
    }
    diagnose(&b.build(at))
}

#[test]
fn workers_that_could_run_further_ahead_are_told_to() {
    for (prefetch, words) in [
        (None, "prefetch_factor=8 instead of 2"),
        (Some(1), "prefetch_factor=8 instead of 1"),
        (Some(6), "prefetch_factor=12 instead of 6"),
    ] {
        let report = report(300_000, prefetch);
        let finding = report.findings.first().expect("batches are waited for");
        assert!(finding.cause.to_string().starts_with("data"), "{report}");
        assert!(finding.remedy.contains(words), "{report}");
    }
}

#[test]
fn nothing_of_that_is_said_where_batches_take_alike() {
    let report = report(MADE, None);
    assert!(!report.to_string().contains("unequally"), "{report}");
    let mut findings = report.findings.iter();
    assert!(findings.all(|finding| !finding.remedy.contains("prefetch_factor=")));
}
