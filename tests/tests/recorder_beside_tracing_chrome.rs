//! `tracing_chrome`'s layer and ours in one subscriber.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::instrument;
use gpustall_tests::{Numbers, assert_well_formed, numbers_loader, record, slices};
use gpustall_trace::vocab::cat;
use std::collections::BTreeMap;
use tracing_chrome::{ChromeLayerBuilder, TraceStyle};
use tracing_subscriber::prelude::*;

#[instrument(skip_all)]
fn forward(depth: u32) {
    if depth > 0 {
        forward(depth - 1);
    }
    backward();
}

#[instrument]
fn backward() {}

#[test]
fn both_write_a_valid_file_with_the_same_spans() {
    let directory = tempfile::tempdir().unwrap();
    let chrome_file = directory.path().join("chrome.json");
    let (chrome, guard) = ChromeLayerBuilder::new()
        .file(&chrome_file)
        .trace_style(TraceStyle::Threaded)
        .build();
    tracing_subscriber::registry()
        .with(chrome)
        .with(gpustall::layer())
        .init();

    let (trace, _, ()) = record("beside", || {
        forward(3);
        std::thread::scope(|scope| {
            scope.spawn(|| forward(1));
        });
        numbers_loader("train", Numbers::new(16), 2)
            .iter()
            .for_each(drop);
    });
    drop(guard);

    let mut ours = BTreeMap::<_, u32>::new();
    for slice in slices(&trace, cat::SPAN) {
        *ours.entry(trace.text(slice.name).to_owned()).or_default() += 1;
    }
    let chrome: serde_json::Value =
        serde_json::from_reader(std::fs::File::open(&chrome_file).unwrap()).unwrap();
    let mut theirs = BTreeMap::<_, u32>::new();
    for event in chrome.as_array().unwrap() {
        if event["ph"] == "B" {
            let name = event["name"].as_str().unwrap().to_owned();
            *theirs.entry(name).or_default() += 1;
        }
    }
    assert_eq!(ours["forward"], 6);
    assert_eq!(ours["backward"], 6);
    theirs.retain(|name, _| ours.contains_key(name));
    assert_eq!(ours, theirs);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 4);
    assert_eq!(trace.meta.notes, [""; 0]);
    assert_well_formed(&trace);
}
