//! Batches of which some take much longer than most: with a queue of two for each worker the others wait.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat, kind};

const BATCHES: u64 = 60;
const WORKERS: u32 = 2;
/// Times in microseconds.
const REST: u64 = 20_000;
const MADE: u64 = 5_000;

/// A loop over a PyTorch loader with so many workers, and how long an epoch takes after the wait for its
/// first batch.
fn run(made: impl Fn(u64) -> u64, workers: u32, prefetch: Option<u64>) -> (Report, u64) {
    run_ahead(made, workers, prefetch, 2)
}

/// The same with so many places for each worker.
fn run_ahead(
    made: impl Fn(u64) -> u64,
    workers: u32,
    prefetch: Option<u64>,
    ahead: u64,
) -> (Report, u64) {
    let mut b = Builder::new();
    b.trace.meta.cpus = 16;
    let main = b.thread(100, "main");
    let of = u64::from(workers);
    let workers: Vec<_> = (0..workers)
        .map(|i| b.thread(101 + i, &format!("worker-{i}")))
        .collect();
    let mut free = vec![0; workers.len()];
    let (mut at, mut taken) = (0, Vec::new());
    for batch in 0..BATCHES {
        let worker = (batch % of) as usize;
        // A worker begins a batch as soon as one of its places is free.
        let place = batch.checked_sub(ahead * of);
        let place = place.map_or(0, |before| taken[before as usize]);
        let begin = std::cmp::max(free[worker], place);
        let took = made(batch);
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
    for tid in (100..).take(workers.len() + 1) {
        b.watch(tid, (0, at), &[]);
    }
    let first = taken.first().copied().unwrap_or_default();
    (diagnose(&b.build(at)), at - first)
}

/// Of it the report, where every tenth batch takes `slow`.
fn report(slow: u64, prefetch: Option<u64>) -> Report {
    let made = |batch| if batch % 10 == 9 { slow } else { MADE };
    run(made, WORKERS, prefetch).0
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

/// Of the remedy the milliseconds that are predicted of more batches ahead.
fn told_ms(remedy: &str) -> f64 {
    let (_, told) = remedy.split_once("unequally long: ").expect("it is said");
    let (_, told) = told.split_once("a step of ").expect("it has a number");
    let number = told.split(' ').next().expect("there is a word");
    number.parse().expect("it is a number")
}

#[test]
fn what_more_batches_ahead_are_worth_is_what_they_are_worth() {
    // Each slow one is of the second worker. With a few times the time of the others they are no more than it
    // can make; with more, somebody else is to have some of them.
    for (slow, words, workers, ahead) in [
        (300_000, "with prefetch_factor=8 instead of 2 alone", 2, 8),
        (
            4_000_000,
            "with num_workers=3 and prefetch_factor=8 instead of 2",
            3,
            8,
        ),
    ] {
        let made = |batch| if batch % 10 == 9 { slow } else { MADE };
        let report = run(made, 2, None).0;
        let remedy = &report.findings[0].remedy;
        assert!(remedy.contains(words), "{report}");
        assert!(remedy.contains("Most slow ones are worker-1's"), "{report}");
        let (_, epoch) = run_ahead(made, workers, None, ahead);
        let measured = epoch as f64 / BATCHES as f64 / 1_000.0;
        let error = told_ms(remedy) / measured - 1.0;
        assert!(error.abs() < 0.06, "{measured} ms: {report}");
    }
}

#[test]
fn where_slow_ones_are_on_all_workers_none_is_named() {
    let made = |batch| if batch % 7 == 6 { 300_000 } else { MADE };
    let report = run(made, 2, None).0;
    assert!(
        report.findings[0].remedy.contains("unequally long"),
        "{report}"
    );
    assert!(!report.to_string().contains("Most slow ones"), "{report}");
}

#[test]
fn nothing_of_that_is_said_where_batches_take_alike() {
    let report = report(MADE, None);
    assert!(!report.to_string().contains("unequally"), "{report}");
    let mut findings = report.findings.iter();
    assert!(findings.all(|finding| !finding.remedy.contains("prefetch_factor=")));
}

/// Of a run with one worker, and of those with more, how long a step takes.
fn predicted_and_measured(made: impl Fn(u64) -> u64) {
    let (report, _) = run(&made, 1, None);
    let counts = report
        .findings
        .iter()
        .find(|of| !of.worker_counts.is_empty());
    let counts = &counts.expect("the workers are slow").worker_counts;
    for workers in 2..=6 {
        let (_, epoch) = run(&made, workers, None);
        let measured = (epoch * 1_000 / BATCHES) as f64;
        let predicted = counts[workers as usize - 1].predicted_step_ns as f64;
        let error = predicted / measured - 1.0;
        assert!(
            error.abs() < 0.06,
            "{workers} workers: {predicted} ns instead of {measured}\n{report}"
        );
    }
}

#[test]
fn from_one_worker_the_steps_with_more_of_them_are_predicted() {
    // A slow one of ten, the slow half of an epoch, one that takes longer and longer, and all alike.
    predicted_and_measured(|batch| if batch % 10 == 9 { 300_000 } else { MADE });
    predicted_and_measured(|batch| if batch < BATCHES / 2 { 80_000 } else { MADE });
    predicted_and_measured(|batch| MADE + batch * 1_500);
    predicted_and_measured(|_| 70_000);
}

/// The same of Burn's loader: each worker has a part of the epoch, and batches are taken as they come.
fn run_parts(made: impl Fn(u64) -> u64, workers: u32) -> (Report, u64) {
    let mut b = Builder::new();
    b.trace.meta.cpus = 16;
    let main = b.thread(100, "main");
    // The last one is seen first.
    let mut tracks: Vec<_> = (0..workers)
        .rev()
        .map(|i| b.thread(101 + i, &format!("dataloader-{i}")))
        .collect();
    tracks.reverse();
    let (part, longer) = (BATCHES / u64::from(workers), BATCHES % u64::from(workers));
    let (mut stages, mut first) = (Vec::new(), 0);
    for worker in 0..workers as usize {
        // As Burn divides it: the first parts have one more.
        let own = part + u64::from((worker as u64) < longer);
        let mut begin = 0;
        for item in first..first + own {
            let end = begin + made(item);
            stages.push((end, begin, worker));
            begin = end;
        }
        first += own;
    }
    stages.sort_unstable();
    let (mut at, mut first) = (0, None);
    for (batch, (end, begin, worker)) in (0..).zip(stages) {
        let span = (begin, end);
        b.stage(tracks[worker], cat::DATA_GET, batch, Some(100), span);
        let there = at.max(end);
        b.step("train", 0, batch, 100, (at, there + REST));
        let args = [
            (arg::LOADER, V::S("train")),
            (arg::KIND, V::S(kind::TRAIN)),
            (arg::EPOCH, V::N(0)),
            (arg::STEP, V::N(batch)),
            (arg::BATCH, V::N(batch)),
            (arg::WORKER, V::N(101 + worker as u64)),
        ];
        b.slice(main, cat::DATA_WAIT, "data wait", (at, there), &args);
        first.get_or_insert(there);
        at = there + REST;
    }
    (diagnose(&b.build(at)), at - first.unwrap_or_default())
}

#[test]
fn from_the_parts_of_some_workers_those_of_others_are_predicted() {
    // The first half is slow: of few workers one has most of it.
    let made = |item| if item < BATCHES / 2 { 150_000 } else { 20_000 };
    for recorded in [1, 4] {
        let (report, _) = run_parts(made, recorded);
        let counts = report
            .findings
            .iter()
            .find(|of| !of.worker_counts.is_empty());
        let counts = &counts.expect("the workers are slow").worker_counts;
        for workers in [1, 2, 3, 4, 6] {
            let (_, epoch) = run_parts(made, workers);
            let measured = (epoch * 1_000 / BATCHES) as f64;
            let predicted = counts[workers as usize - 1].predicted_step_ns as f64;
            let error = predicted / measured - 1.0;
            assert!(
                error.abs() < 0.06,
                "{workers} workers from {recorded}: {predicted} ns instead of {measured}\n{report}"
            );
        }
    }
}
