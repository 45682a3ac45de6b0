//! Several sessions in one process, one after another.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{
    Numbers, alone, assert_well_formed, batch_flows, depths, eventually, named, number,
    numbers_loader, record, slices,
};
use gpustall_trace::{Trace, vocab::arg, vocab::cat};
use std::sync::mpsc;

#[instrument]
fn forward(session: u64) {}

fn work(session: u64) {
    forward(session);
    tracing::info!("in session {session}");
    let _phase = instrument::phase("phase");
    gpustall::counter("loss", session as f64);
    numbers_loader("train", Numbers::new(16), 2)
        .iter()
        .for_each(drop);
}

#[test]
fn no_event_of_one_session_is_in_another() {
    let _alone = alone();
    for session in 1..=3 {
        let (trace, _, ()) = record("again", || work(session));
        let spans = named(&trace, "forward");
        assert_eq!(spans.len(), 1);
        assert_eq!(number(&trace, spans[0], "session"), Some(session));
        let events: Vec<_> = trace.instants.iter().map(|i| trace.text(i.name)).collect();
        assert_eq!(events, [format!("in session {session}")]);
        assert_eq!(depths(&trace, "loss"), [session as f64]);
        assert_eq!(slices(&trace, cat::PHASE).len(), 1);
        assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 4);
        assert_eq!(slices(&trace, cat::STEP).len(), 4);
        assert_eq!(trace.meta.notes, [""; 0]);
        assert_well_formed(&trace);
        // Between two sessions nothing is recorded.
        work(100 + session);
    }
}

#[test]
fn a_thread_that_outlives_a_session_records_into_the_next() {
    let _alone = alone();
    let (ask, asked) = mpsc::channel::<u64>();
    let (done, was_done) = mpsc::channel();
    let thread = std::thread::Builder::new().name("helper".into());
    let thread = thread
        .spawn(move || {
            for session in asked {
                forward(session);
                done.send(()).unwrap();
            }
        })
        .unwrap();
    for session in 1..=3 {
        let (trace, ..) = record("thread", || {
            ask.send(session).unwrap();
            was_done.recv().unwrap();
        });
        let spans = named(&trace, "forward");
        assert_eq!(spans.len(), 1);
        assert_eq!(gpustall_tests::track_name(&trace, spans[0]), "helper");
        assert_eq!(number(&trace, spans[0], "session"), Some(session));
    }
    drop(ask);
    thread.join().unwrap();
}

#[test]
fn guards_that_outlive_their_session_record_nothing_into_the_next() {
    let _alone = alone();
    let begin = || {
        (
            gpustall::span("direct"),
            instrument::phase("phase"),
            instrument::step("steps"),
            tracing::info_span!("tracing").entered(),
        )
    };
    let (first, _, guards) = record("first", begin);
    let (second, ..) = record("second", || drop(guards));
    let names = |trace: &Trace| -> Vec<_> {
        let names = trace.slices.iter().map(|s| trace.text(s.name).to_owned());
        names.collect()
    };
    assert_eq!(names(&second), [""; 0], "nothing began in the second");
    let unfinished = |name| {
        let found = named(&first, name);
        found.len() == 1 && gpustall_tests::flag(&first, found[0], arg::UNFINISHED)
    };
    assert!(unfinished("phase"), "the first shows what was open");
    assert!(unfinished("step"));
}

#[test]
fn batches_that_outlive_their_session_leave_no_trace_in_the_next() {
    let _alone = alone();
    let numbers = Numbers::new(40);
    let reads = numbers.reads.clone();
    let loader = numbers_loader("train", numbers, 1);
    let (_, _, mut batches) = record("first", || {
        let mut batches = loader.iter();
        batches.next().unwrap().unwrap();
        eventually("every batch is in the queue", || {
            (reads.load(std::sync::atomic::Ordering::Relaxed) == 40).then_some(())
        });
        batches
    });
    let (second, _, taken) = record("second", || batches.by_ref().count());
    assert_eq!(taken, 9);
    let waits = slices(&second, cat::DATA_WAIT);
    assert_eq!(waits.len(), 9, "the waits were in the second session");
    for wait in waits {
        assert_eq!(
            number(&second, wait, arg::BATCH),
            None,
            "its batch was made in the first"
        );
    }
    assert!(
        batch_flows(&second).is_empty(),
        "no arrow comes from nowhere"
    );
    assert!(second.async_slices.is_empty());
    assert_well_formed(&second);
}

#[test]
fn a_loader_that_outlives_its_session_is_recorded_in_the_next() {
    let _alone = alone();
    let loader = numbers_loader("train", Numbers::new(16), 2);
    for epoch in 0..3 {
        let (trace, ..) = record("epoch", || loader.iter().for_each(drop));
        let steps = slices(&trace, cat::STEP);
        let epochs: Vec<_> = steps
            .iter()
            .map(|s| number(&trace, s, arg::EPOCH))
            .collect();
        assert_eq!(epochs, [Some(epoch); 4]);
        assert_eq!(batch_flows(&trace).len(), 4);
        assert_eq!(depths(&trace, "queue depth train").last(), Some(&0.0));
        assert_well_formed(&trace);
    }
}
