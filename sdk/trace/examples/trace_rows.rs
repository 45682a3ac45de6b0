//! Prints, as JSON, how many rows of each kind Perfetto must show for a trace file.
//!
//! `cargo run -p gpustall-trace --example trace_rows -- FILE`
//!
//! The numbers are derived from what the reader finds in the file, not from the events that the
//! writer put there for viewers. For a partial file, `instants` is `null`: slices that were open
//! stand in it as instants, once for each flush.

use gpustall_trace::{Flow, FlowEnd, Trace, read, vocab};
use std::collections::HashMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: trace_rows FILE")?;
    let outcome = read(path.as_ref())?;
    let trace = &outcome.trace;
    let partial = trace.meta.state == gpustall_trace::State::Partial;
    let slices = trace.slices.iter().filter(|slice| {
        let unfinished = trace.arg(&slice.args, vocab::arg::UNFINISHED).is_some();
        !(partial && unfinished)
    });
    let spans: Vec<_> = slices.map(|slice| slice.span).collect();
    let long = spans.iter().filter(|span| !span.is_empty());
    let starts: u64 = long.clone().map(|span| span.start.as_nanos()).sum();
    let lengths: u64 = long.map(|span| span.len().get()).sum();
    let finite = trace
        .counters
        .iter()
        .filter(|c| c.value.is_finite())
        .count();
    let flows = Flows::new(trace);
    let drawn: Vec<&Flow> = trace
        .flows
        .iter()
        .filter(|flow| flows.drawn(flow))
        .collect();
    let batches = drawn
        .iter()
        .filter(|f| trace.text(f.cat) == vocab::cat::BATCH)
        .count();
    let rows = serde_json::json!({
        "partial": partial,
        "slices": spans.len(),
        "sum_of_starts_ns": starts,
        "sum_of_lengths_ns": lengths,
        "instants": (!partial).then_some(trace.instants.len()),
        "counters": finite + trace.losses.len(),
        "flows": drawn.len(),
        "batch_flows": batches,
        "async_slices": trace.async_slices.len(),
        "warnings": outcome.warnings,
    });
    println!("{rows}");
    Ok(())
}

/// Where the slices of each track lie: starts in order, and for each the latest end of the slices
/// up to it.
struct Flows(HashMap<u32, Vec<(u64, u64)>>);

impl Flows {
    fn new(trace: &Trace) -> Self {
        let mut spans: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for slice in &trace.slices {
            let span = (slice.span.start.as_nanos(), slice.span.end.as_nanos());
            spans.entry(slice.track.0).or_default().push(span);
        }
        for list in spans.values_mut() {
            list.sort_unstable();
            let mut latest = 0;
            for (_, end) in list {
                latest = latest.max(*end);
                *end = latest;
            }
        }
        Self(spans)
    }

    /// Whether both ends lie in slices, forwards.
    fn drawn(&self, flow: &Flow) -> bool {
        flow.from.at <= flow.to.at && self.inside(flow.from) && self.inside(flow.to)
    }

    fn inside(&self, end: FlowEnd) -> bool {
        let at = end.at.as_nanos();
        let Some(list) = self.0.get(&end.track.0) else {
            return false;
        };
        let before = list.partition_point(|&(start, _)| start <= at);
        before > 0 && list[before - 1].1 >= at
    }
}
