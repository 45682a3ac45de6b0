//! What viewers make of a finished file: slices that nest, and arrows where they were meant.
//!
//! `Viewer` does what Perfetto does (version 52): events by time, slices of one time the longest
//! first and before everything else, the rest in the order of the file; a flow end goes to what
//! began last on its track.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::*;
use proptest::prelude::*;
use sample::{any_trace, skeleton};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::Path;

/// A slice or instant as a viewer shows it; times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    cat: String,
    start: u64,
    length: u64,
    marker: bool,
}

/// An arrow: what it leaves and what it reaches.
type Arrow = (Row, Row);

#[derive(Default)]
struct Viewer {
    /// The slices of each thread that are open, innermost last.
    stacks: HashMap<(u64, u64), Vec<Row>>,
    begun: HashMap<(u64, u64), Row>,
    leaving: HashMap<i64, Row>,
    arrows: HashMap<u64, Arrow>,
}

fn nanos(event: &Json, key: &str) -> u64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as u64
}

impl Viewer {
    fn show(path: &Path) -> Self {
        let mut events: Vec<Json> = std::fs::read_to_string(path)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("{\"ph\""))
            .map(|line| serde_json::from_str(line.trim_end_matches(',')).unwrap())
            .filter(|event: &Json| event.get("ts").is_some())
            .collect();
        events.sort_by_cached_key(|event| {
            let length = if event["ph"] == "X" {
                nanos(event, "dur")
            } else {
                0
            };
            (nanos(event, "ts"), std::cmp::Reverse(length))
        });
        let mut viewer = Self::default();
        for event in &events {
            viewer.event(event);
        }
        viewer
    }

    fn event(&mut self, event: &Json) {
        let start = nanos(event, "ts");
        let place = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap_or(0),
        );
        let ph = event["ph"].as_str().unwrap();
        match ph {
            "X" | "i" => {
                let length = if ph == "X" { nanos(event, "dur") } else { 0 };
                let cat = event["cat"].as_str().unwrap().into();
                let row = Row {
                    cat,
                    start,
                    length,
                    marker: event.get("marker").is_some(),
                };
                let stack = self.stacks.entry(place).or_default();
                while stack
                    .pop_if(|open| open.start + open.length <= start)
                    .is_some()
                {}
                if let Some(parent) = stack.last() {
                    assert!(
                        start + length <= parent.start + parent.length,
                        "{row:?} in {parent:?}"
                    );
                }
                stack.push(row.clone());
                self.begun.insert(place, row);
            }
            "s" => {
                let row = self.begun.get(&place).expect("a slice to leave").clone();
                let before = self.leaving.insert(event["id"].as_i64().unwrap(), row);
                assert_eq!(before, None, "an id that is in use");
            }
            "f" => {
                let id = event["id"].as_i64().unwrap();
                let from = self.leaving.remove(&id).expect("an arrow that left");
                let to = self.begun.get(&place).expect("a slice to reach").clone();
                self.arrows.insert(id as u64, (from, to));
            }
            _ => {}
        }
    }
}

/// The slices of `track` that hold `at`, or end there.
fn around(trace: &Trace, end: FlowEnd) -> Vec<&Slice> {
    let holds = |s: &&Slice| s.track == end.track && s.span.start <= end.at && end.at <= s.span.end;
    trace.slices.iter().filter(holds).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn slices_nest_and_arrows_keep_their_direction(mut trace in any_trace()) {
        // Short times, so that much overlaps.
        let short = |t: &mut TraceTime| *t = TraceTime::from_nanos(t.as_nanos() % 300);
        for slice in &mut trace.slices {
            let (mut start, mut end) = (slice.span.start, slice.span.end);
            short(&mut start);
            short(&mut end);
            slice.span = Interval::new(start, end);
        }
        for flow in &mut trace.flows {
            short(&mut flow.from.at);
            short(&mut flow.to.at);
            flow.to.at = flow.to.at.max(flow.from.at);
        }
        trace.instants.iter_mut().for_each(|i| short(&mut i.at));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.json");
        let stats = write_finished(&path, &trace).unwrap();
        let viewer = Viewer::show(&path);
        prop_assert_eq!(stats.slices as usize, trace.slices.len());
        prop_assert_eq!(stats.flows as usize, viewer.arrows.len());
        prop_assert_eq!((stats.flows + stats.flows_left_out) as usize, trace.flows.len());
        for flow in &trace.flows {
            let Some((from, to)) = viewer.arrows.get(&flow.id) else {
                continue;
            };
            prop_assert!(from.start <= to.start, "turned round: {:?} {:?}", from, to);
            for (row, end) in [(from, flow.from), (to, flow.to)] {
                let fits = around(&trace, end).into_iter().any(|slice| {
                    let (start, cat) = (slice.span.start.as_nanos(), trace.text(slice.cat));
                    let inside = start <= row.start && row.start <= slice.span.end.as_nanos();
                    cat == row.cat && inside && (row.marker || start == row.start)
                });
                prop_assert!(fits, "{:?} is drawn at {:?}", end, row);
            }
        }
    }
}

fn time(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

fn add(trace: &mut Trace, track: u32, cat: &str, start: u64, end: u64) {
    let name = trace.strings.intern(cat);
    let (track, span, args) = (
        TrackId(track),
        Interval::new(time(start), time(end)),
        Args::default(),
    );
    trace.slices.push(Slice {
        track,
        name,
        cat: name,
        span,
        args,
    });
}

/// A batch that worker 1 collates over `made`, and that is waited for on track 0 over `wait`.
fn batch(made: (u64, u64), wait: (u64, u64)) -> Trace {
    let mut trace = skeleton(vec![], [0; 3], 0);
    add(&mut trace, 1, vocab::cat::DATA_COLLATE, made.0, made.1);
    add(&mut trace, 1, "inner", made.0 + 2, made.1 - 2);
    add(&mut trace, 0, vocab::cat::DATA_WAIT, wait.0, wait.1);
    add(&mut trace, 0, "inner", wait.0 + 2, wait.0 + 4);
    let name = trace.strings.intern(vocab::cat::BATCH);
    let end = |track, at| FlowEnd {
        track: TrackId(track),
        at: time(at),
    };
    let (from, to) = (end(1, made.1 - 1), end(0, wait.1));
    trace.flows.push(Flow {
        id: 1,
        name,
        cat: name,
        from,
        to,
    });
    trace
}

fn arrow_of(trace: &Trace) -> (Arrow, WriteStats) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let stats = write_finished(&path, trace).unwrap();
    (Viewer::show(&path).arrows[&1].clone(), stats)
}

#[test]
fn an_arrow_leads_from_the_collate_to_a_wait_that_began_later() {
    let ((from, to), stats) = arrow_of(&batch((100, 200), (300, 400)));
    assert_eq!(
        (from.cat.as_str(), from.start),
        (vocab::cat::DATA_COLLATE, 100)
    );
    assert_eq!((to.cat.as_str(), to.start), (vocab::cat::DATA_WAIT, 300));
    assert_eq!(stats.flow_markers, 0);
}

#[test]
fn an_arrow_to_a_wait_that_began_first_ends_where_the_batch_arrived() {
    let ((from, to), stats) = arrow_of(&batch((100, 200), (50, 400)));
    assert_eq!(
        (from.cat.as_str(), from.start),
        (vocab::cat::DATA_COLLATE, 100)
    );
    assert_eq!((to.cat.as_str(), to.start), (vocab::cat::DATA_WAIT, 399));
    assert_eq!(stats.flow_markers, 1);
}

#[test]
fn an_overlapping_slice_goes_to_a_lane_beside_its_track() {
    let mut trace = skeleton(vec![], [0; 3], 0);
    for (start, end) in [(0, 100), (50, 150), (60, 160), (100, 120), (10, 20)] {
        add(&mut trace, 0, "phase", start, end);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let stats = write_finished(&path, &trace).unwrap();
    assert_eq!((stats.lanes, stats.slices_on_lanes), (2, 2));
    let text = std::fs::read_to_string(&path).unwrap();
    for name in ["\"track 7 (2)\"", "\"track 7 (3)\""] {
        assert!(text.contains(name), "{name}");
    }
    assert_eq!(read(&path).unwrap().trace.tracks.len(), trace.tracks.len());
}
