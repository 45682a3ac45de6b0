//! Questions to ask of a trace.

use gpustall_trace::vocab::{self, arg};
use gpustall_trace::{CounterSample, Flow, Slice, Trace, TrackId, TrackKind, Value};
use std::collections::HashMap;

/// The slices of category `cat`, by start.
pub fn slices<'t>(trace: &'t Trace, cat: &str) -> Vec<&'t Slice> {
    let of = |slice: &&Slice| trace.text(slice.cat) == cat;
    trace.slices.iter().filter(of).collect()
}

/// The slices of category `cat` of loader `loader`, by start.
pub fn slices_of<'t>(trace: &'t Trace, cat: &str, loader: &str) -> Vec<&'t Slice> {
    let mut found = slices(trace, cat);
    found.retain(|slice| trace.arg_str(&slice.args, arg::LOADER) == Some(loader));
    found
}

/// The slices called `name`, by start.
pub fn named<'t>(trace: &'t Trace, name: &str) -> Vec<&'t Slice> {
    let of = |slice: &&Slice| trace.text(slice.name) == name;
    trace.slices.iter().filter(of).collect()
}

/// The one slice called `name`.
pub fn only<'t>(trace: &'t Trace, name: &str) -> &'t Slice {
    let found = named(trace, name);
    assert_eq!(found.len(), 1, "slices called {name}");
    found[0]
}

/// The name of a slice's track.
pub fn track_name<'t>(trace: &'t Trace, slice: &Slice) -> &'t str {
    trace.text(trace.track(slice.track).unwrap().name)
}

/// The thread id of a slice's track.
pub fn track_tid(trace: &Trace, slice: &Slice) -> u32 {
    trace.track(slice.track).unwrap().tid.0
}

/// The number that argument `key` of `slice` holds.
pub fn number(trace: &Trace, slice: &Slice, key: &str) -> Option<u64> {
    trace.arg_u64(&slice.args, key)
}

/// The text that argument `key` of `slice` holds.
pub fn text<'t>(trace: &'t Trace, slice: &'t Slice, key: &str) -> Option<&'t str> {
    trace.arg_str(&slice.args, key)
}

/// Whether argument `key` of `slice` is true.
pub fn flag(trace: &Trace, slice: &Slice, key: &str) -> bool {
    trace.arg(&slice.args, key) == Some(Value::Bool(true))
}

/// Whether `inner` lies in `outer`, on whatever track.
pub fn inside(inner: &Slice, outer: &Slice) -> bool {
    outer.span.start <= inner.span.start && inner.span.end <= outer.span.end
}

/// The arrows of batches; the diagnosis draws its own beside them.
pub fn batch_flows(trace: &Trace) -> Vec<&Flow> {
    let of = |flow: &&Flow| trace.text(flow.cat) == vocab::cat::BATCH;
    trace.flows.iter().filter(of).collect()
}

/// The samples of the counter `name`, by time.
pub fn counter<'t>(trace: &'t Trace, name: &str) -> Vec<&'t CounterSample> {
    let of = |sample: &&CounterSample| {
        let series = trace.counter_series[sample.series as usize];
        trace.text(series.name) == name
    };
    trace.counters.iter().filter(of).collect()
}

/// The values of the counter `name`, by time.
pub fn depths(trace: &Trace, name: &str) -> Vec<f64> {
    counter(trace, name).iter().map(|s| s.value).collect()
}

/// Checks what holds of every trace: times grow, slices lie in the recording, those of one track
/// nest, and arrows leave and reach slices and never lead back in time.
pub fn assert_well_formed(trace: &Trace) {
    let mut open: HashMap<TrackId, Vec<&Slice>> = HashMap::new();
    for slice in &trace.slices {
        let what = || format!("{} {:?}", trace.text(slice.name), slice.span);
        assert!(slice.span.start <= slice.span.end, "{} ends", what());
        assert!(
            slice.span.end <= trace.meta.end,
            "{} in the recording",
            what()
        );
        let stack = open.entry(slice.track).or_default();
        while stack.last().is_some_and(|o| o.span.end <= slice.span.start) {
            stack.pop();
        }
        if let Some(outer) = stack.last() {
            assert!(
                inside(slice, outer),
                "{} overlaps {} {:?} on {}",
                what(),
                trace.text(outer.name),
                outer.span,
                track_name(trace, slice)
            );
        }
        stack.push(slice);
    }
    for flow in &trace.flows {
        assert!(flow.from.at <= flow.to.at, "no arrow leads back in time");
        for end in [flow.from, flow.to] {
            let track = trace.track(end.track).unwrap();
            if track.kind == TrackKind::Synthetic {
                continue;
            }
            let holds = |s: &Slice| s.track == end.track && s.span.contains(end.at);
            assert!(
                trace.slices.iter().any(holds),
                "an arrow ends outside of every slice of {} at {:?}",
                trace.text(track.name),
                end.at
            );
        }
    }
}
