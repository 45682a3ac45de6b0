//! What was lost is missing from the trace, and nothing else is made of it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{Numbers, alone, numbers_loader, record, slices};
use gpustall_trace::vocab::cat;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn spin(length: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Runs `job` while a thread for each CPU wants all of it, so that the writer must wait for its turn.
fn beside_spinners<T>(job: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = job();
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_flood_of_phases_loses_no_end_whose_beginning_was_kept() {
    let _alone = alone();
    // A writer that gets a CPU at the right moments keeps up with a flood: one more, then.
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let (trace, summary, longest_of_all) = record("phases", || {
            let mut longest_of_all = Duration::ZERO;
            for step in 0..40 {
                let _step = instrument::step("loop");
                if step == 5 {
                    // An odd number of events, so that the ring is full between a pair.
                    gpustall::instant("odd");
                    longest_of_all = beside_spinners(flood_of_phases);
                }
                spin(Duration::from_millis(5));
            }
            longest_of_all
        });
        let report = summary.report().unwrap();
        assert_eq!(report.unfinished, []);
        let longest = slices(&trace, cat::PHASE)
            .iter()
            .map(|phase| phase.span.len())
            .max();
        // A beginning with the end of another phase would be longer than any was.
        let true_longest = longest_of_all.as_nanos() as u64;
        assert!(longest.unwrap().get() <= true_longest, "{longest:?}");
        if report.lost_events.contains_key("data pipeline") {
            return;
        }
        assert!(Instant::now() < deadline, "no flood was ever lost");
    }
}

/// Begins and ends phases faster than a writer without a CPU takes them: how long the longest was.
fn flood_of_phases() -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..20_000 {
        let begun = Instant::now();
        drop(instrument::phase("metrics"));
        longest = longest.max(begun.elapsed());
    }
    longest
}

#[test]
fn a_flood_of_waits_is_no_hang() {
    let _alone = alone();
    let (_, summary, ()) = record("waits", || {
        for batch in numbers_loader("warm", Numbers::new(120_000), 0).iter() {
            let _forward = instrument::phase("forward");
            batch.unwrap();
        }
        for batch in numbers_loader("train", Numbers::new(120), 0).iter() {
            let _forward = instrument::phase("forward");
            batch.unwrap();
            spin(Duration::from_millis(10));
        }
    });
    let report = summary.report().unwrap();
    assert_eq!(report.unfinished, [], "{report}");
    assert!(!report.verdict.contains("had been in"), "{report}");
}

#[test]
fn a_session_keeps_as_many_events_as_it_was_told_and_the_pipeline_beyond() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("few").output(&output).max_events(1000);
    let session = session.start().unwrap();
    for _ in 0..3000 {
        drop(gpustall::span("span"));
    }
    std::thread::sleep(Duration::from_millis(100));
    for batch in numbers_loader("train", Numbers::new(40), 0).iter() {
        batch.unwrap();
    }
    let summary = session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap().trace;
    assert_eq!(slices(&trace, cat::SPAN).len(), 1000);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 10);
    let report = summary.report().unwrap();
    assert_eq!(report.lost_events["events beyond max_events"], 2000);
}
