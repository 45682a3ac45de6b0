//! Recording in windows.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::{Summary, instrument};
use gpustall_tests::{
    Numbers, alone, assert_well_formed, named, number, numbers_loader, only, slices,
};
use gpustall_trace::{Trace, vocab::arg, vocab::cat};
use std::time::Duration;

fn recorded(job: impl FnOnce(&gpustall::Session)) -> (Trace, Summary) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("windows")
        .output(&output)
        .start()
        .unwrap();
    job(&session);
    let summary = session.finish().unwrap();
    (gpustall_trace::read(&output).unwrap().trace, summary)
}

#[test]
fn what_happens_in_a_pause_is_not_recorded_and_the_pause_is_shown() {
    let _alone = alone();
    let (trace, _) = recorded(|session| {
        assert!(session.is_recording());
        {
            let _before = gpustall::span("before");
        }
        session.pause();
        session.pause();
        assert!(!session.is_recording());
        {
            let _span = gpustall::span("within");
            let _phase = instrument::phase("phase within");
            let _step = instrument::step("steps within");
            let _tracing = tracing::info_span!("tracing within").entered();
            tracing::info!("event within");
            gpustall::counter("counter within", 1.0);
            numbers_loader("train", Numbers::new(16), 2)
                .iter()
                .for_each(drop);
        }
        session.resume();
        session.resume();
        assert!(session.is_recording());
        let _after = gpustall::span("after");
    });
    let names: Vec<_> = trace.slices.iter().map(|s| trace.text(s.name)).collect();
    assert_eq!(names, ["before", "paused", "after"]);
    assert!(trace.instants.is_empty() && trace.counters.is_empty());
    let (before, pause, after) = (
        only(&trace, "before"),
        only(&trace, "paused"),
        only(&trace, "after"),
    );
    assert_eq!(trace.text(pause.cat), cat::PAUSE);
    assert!(before.span.end <= pause.span.start);
    assert!(pause.span.end <= after.span.start);
    assert_well_formed(&trace);
}

#[test]
fn what_began_before_a_pause_and_ended_in_it_is_kept() {
    let _alone = alone();
    let (trace, _) = recorded(|session| {
        {
            let _span = gpustall::span("span");
            let _phase = instrument::phase("phase");
            let _step = instrument::step("steps");
            let _tracing = tracing::info_span!("tracing").entered();
            session.pause();
        }
        session.resume();
    });
    let pause = only(&trace, "paused");
    for name in ["span", "phase", "step", "tracing"] {
        let slice = only(&trace, name);
        assert!(slice.span.start <= pause.span.start, "{name}");
        assert!(
            pause.span.start <= slice.span.end && slice.span.end <= pause.span.end,
            "{name} ended in the pause"
        );
        assert!(!gpustall_tests::flag(&trace, slice, arg::UNFINISHED));
    }
}

#[test]
fn what_began_in_a_pause_and_ended_after_it_is_not_recorded() {
    let _alone = alone();
    let (trace, _) = recorded(|session| {
        session.pause();
        let guards = (
            gpustall::span("span"),
            instrument::phase("phase"),
            instrument::step("steps"),
            tracing::info_span!("tracing").entered(),
        );
        session.resume();
        drop(guards);
    });
    let names: Vec<_> = trace.slices.iter().map(|s| trace.text(s.name)).collect();
    assert_eq!(names, ["paused"]);
}

#[test]
fn the_diagnosis_leaves_pauses_out_of_its_window() {
    let _alone = alone();
    let pause = Duration::from_millis(700);
    let (trace, summary) = recorded(|session| {
        let loader = numbers_loader("train", Numbers::slow(48, Duration::from_millis(1)), 0);
        for (step, batch) in loader.iter().enumerate() {
            drop(batch);
            let _forward = instrument::phase("forward");
            if step == 5 {
                session.pause();
                std::thread::sleep(pause);
                session.resume();
            }
        }
    });
    let report = summary.report().unwrap();
    let paused = only(&trace, "paused").span.len().get();
    assert!(paused >= pause.as_nanos() as u64);
    assert_eq!(report.paused_ns, paused);
    // The window ends with the loop.
    let ends = slices(&trace, cat::EPOCH_END);
    let end = ends.iter().map(|slice| slice.span.end.as_nanos()).max();
    let whole = end.expect("the loop ends") - report.window_start_ns;
    assert_eq!(report.window_ns, whole - paused);
    let charged: u64 = report.charges_ns.values().sum();
    assert_eq!(
        charged, report.device_ns,
        "charges add up without the pause"
    );
    let waits = slices(&trace, cat::DATA_WAIT);
    let steps: Vec<_> = waits
        .iter()
        .map(|w| number(&trace, w, arg::STEP).unwrap())
        .collect();
    assert_eq!(steps, (0..12).collect::<Vec<_>>());
}

#[test]
fn a_session_that_ends_in_a_pause_shows_it_to_its_end() {
    let _alone = alone();
    let (trace, _) = recorded(|session| session.pause());
    let pauses = named(&trace, "paused");
    assert_eq!(pauses.len(), 1);
    assert!(!gpustall_tests::flag(&trace, pauses[0], arg::UNFINISHED));
}

#[test]
fn a_session_can_be_paused_many_times() {
    let _alone = alone();
    let (trace, _) = recorded(|session| {
        for _ in 0..50 {
            session.pause();
            drop(gpustall::span("within"));
            session.resume();
            drop(gpustall::span("between"));
        }
    });
    assert_eq!(named(&trace, "paused").len(), 50);
    assert_eq!(named(&trace, "between").len(), 50);
    assert!(named(&trace, "within").is_empty());
    assert_well_formed(&trace);
}
