//! Code that is loaded when it is first used, inside a call that launches: the driver tells a profiler.

use super::calls::{Call, CallKind};
use crate::rules::Activity;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos};

/// What the driver calls it.
const LOADS: [&str; 3] = [
    "Runtime Triggered Module Loading",
    "Lazy Function Loading",
    "Driver Compiler",
];

/// Makes calls that were loading code for at least half of their time, and for this long, such as load
/// code.
const MIN_LOADING: Nanos = Nanos::new(100_000);

/// Finds the calls that loaded code. The rows of the driver name no thread, so what a call and they
/// have in common is their time. `calls` are by start.
pub(crate) fn find(timeline: &Timeline<'_>, calls: &mut [Call]) {
    let overhead = timeline.names.cat.overhead;
    let loads = |&symbol: &gpustall_trace::Symbol| LOADS.contains(&timeline.trace.text(symbol));
    let slices = timeline.trace.slices.iter();
    let mut spans: Vec<Interval> = slices
        .filter(|slice| overhead.is_some() && Some(slice.cat) == overhead && loads(&slice.name))
        .map(|slice| timeline.clip(slice.span))
        .collect();
    if spans.is_empty() {
        return;
    }
    spans.sort_by_key(|span| span.start);
    let spans = union(spans);
    for call in calls.iter_mut().filter(|call| call.kind == CallKind::Other) {
        if call.span.len() < MIN_LOADING {
            continue;
        }
        let first = spans.partition_point(|span| span.end <= call.span.start);
        let inside = spans[first..]
            .iter()
            .take_while(|span| span.start < call.span.end);
        let loading: Nanos = inside.map(|span| span.intersection(call.span).len()).sum();
        if loading >= MIN_LOADING && loading.get() >= call.span.len().get() / 2 {
            call.kind = CallKind::Compile;
            call.activity = Activity::Compiles;
        }
    }
}

/// The union of spans that are by start.
fn union(spans: Vec<Interval>) -> Vec<Interval> {
    let mut union: Vec<Interval> = Vec::with_capacity(spans.len());
    for span in spans {
        match union.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => union.push(span),
        }
    }
    union
}
