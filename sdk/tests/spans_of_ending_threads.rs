//! A thread opens spans to its very end: in the destructors of its thread-locals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_trace::vocab::cat;
use std::cell::RefCell;

/// Opens spans and says something when it is dropped.
struct Last(&'static str);

impl Drop for Last {
    fn drop(&mut self) {
        let span = tracing::info_span!("last", of = self.0);
        span.in_scope(|| tracing::info!("ending"));
        let _again = span.clone();
        let _plain = tracing::info_span!("plain").entered();
        let _direct = gpustall::span("direct");
    }
}

thread_local! {
    static EARLY: RefCell<Option<Last>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn a_span_in_the_destructor_of_a_thread_local_panics_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("ending")
        .sidecar(gpustall::Sidecar::Off)
        .output(&output)
        .start()
        .unwrap();
    for _ in 0..4 {
        let thread = std::thread::spawn(|| {
            // Destructors run from the last that was made to the first, so one of the two runs before
            // those of the recorder and one after.
            EARLY.set(Some(Last("early")));
            tracing::info_span!("work", index = 1).in_scope(|| {});
            LATE.set(Some(Last("late")));
        });
        // A panic there ends the process.
        thread.join().unwrap();
    }
    session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap().trace;
    let named = |name: &str| {
        let spans = trace
            .slices
            .iter()
            .filter(|s| trace.text(s.cat) == cat::SPAN);
        spans.filter(|s| trace.text(s.name) == name).count()
    };
    assert_eq!(named("work"), 4);
    assert!(named("last") >= 4, "the late ones are recorded");
}
