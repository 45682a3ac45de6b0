//! A program with a `tracing` subscriber of its own that does not have our layer.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{Numbers, alone, named, numbers_loader, record, slices};
use gpustall_trace::{Trace, vocab::cat};
use std::sync::Once;
use tracing_subscriber::prelude::*;

#[instrument]
fn forward() {}

fn record_with_a_foreign_subscriber(name: &str) -> (Trace, gpustall::Summary) {
    static FOREIGN: Once = Once::new();
    FOREIGN.call_once(|| tracing_subscriber::registry().init());
    let (trace, summary, ()) = record(name, || {
        forward();
        let _phase = instrument::phase("backward");
        let _span = gpustall::span("direct");
        numbers_loader("train", Numbers::new(16), 2)
            .iter()
            .for_each(drop);
    });
    (trace, summary)
}

#[test]
fn a_foreign_subscriber_is_left_alone_and_the_report_says_what_is_missing() {
    let _alone = alone();
    for name in ["first", "second"] {
        let (trace, summary) = record_with_a_foreign_subscriber(name);
        assert!(named(&trace, "forward").is_empty());
        let notes = &summary.report().unwrap().notes;
        assert!(
            notes.iter().any(|n| n.contains(".with(gpustall::layer())")),
            "the {name} session says how to get the spans: {notes:?}"
        );
        assert!(trace.meta.notes.iter().any(|n| n.contains("layer()")));
        assert!(summary.to_string().contains("gpustall::layer()"));
    }
}

#[test]
fn loaders_phases_and_direct_spans_need_no_subscriber() {
    let _alone = alone();
    let (trace, _) = record_with_a_foreign_subscriber("loaders");
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 4);
    assert_eq!(slices(&trace, cat::STEP).len(), 4);
    assert_eq!(slices(&trace, cat::DATA_COLLATE).len(), 4);
    assert_eq!(named(&trace, "backward").len(), 1);
    assert_eq!(named(&trace, "direct").len(), 1);
}
