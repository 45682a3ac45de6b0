//! A program with a `tracing` subscriber of its own, with `gpustall::layer()` in it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{assert_well_formed, named, numbers_loader, only, record, slices};
use gpustall_trace::vocab::cat;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[instrument]
fn forward(rows: u64) {
    tracing::info!("forward runs");
    tracing::warn!("the loss grows");
}

#[test]
fn a_users_subscriber_and_our_layer_each_get_what_they_asked_for() {
    let log = Log::default();
    let writer = log.clone();
    let fmt = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .with_filter(LevelFilter::WARN);
    tracing_subscriber::registry()
        .with(fmt)
        .with(gpustall::layer())
        .init();

    tracing::warn!("before");
    forward(0);
    let (trace, _, ()) = record("layered", || {
        forward(1);
        numbers_loader("train", gpustall_tests::Numbers::new(16), 0)
            .iter()
            .for_each(drop);
    });
    tracing::warn!("after");
    forward(2);

    let slice = only(&trace, "forward");
    assert_eq!(trace.arg_u64(&slice.args, "rows"), Some(1));
    let events: Vec<_> = trace.instants.iter().map(|i| trace.text(i.name)).collect();
    assert_eq!(
        events,
        ["forward runs", "the loss grows"],
        "the user's WARN filter is not ours"
    );
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 4);
    assert_eq!(named(&trace, "data wait").len(), 4);
    assert_eq!(trace.meta.notes, [""; 0]);
    assert_well_formed(&trace);

    let text = log.text();
    assert!(text.contains("before") && text.contains("after"), "{text}");
    assert_eq!(text.matches("the loss grows").count(), 3, "{text}");
    assert!(!text.contains("forward runs"), "its filter holds: {text}");
}
