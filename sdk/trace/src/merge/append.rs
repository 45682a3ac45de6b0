//! Appending one recording to the merged trace.

use super::Part;
use super::tables::Tables;
use crate::{
    Args, AsyncSlice, CounterSample, CounterSeries, Flow, FlowEnd, Instant, Interval, Loss, Nanos,
    Pid, Slice, Symbol, TraceTime, Track, TrackId, Value, vocab,
};
use std::collections::HashSet;
use std::path::Path;

/// Appends `part`, which started `later` than the merged trace, without the tracks in `emptied`.
pub(super) fn append(tables: &mut Tables, part: Part, later: Nanos, emptied: &HashSet<TrackId>) {
    let Part { label, trace: part } = part;
    let symbols: Vec<Symbol> = (part.strings.iter())
        .map(|text| tables.trace.strings.intern(text))
        .collect();
    let symbol = |of: Symbol| symbols.get(of.0 as usize).copied().unwrap_or_default();
    let moved = tables.processes(&part, &symbols);
    let pid = |of: Pid| moved.get(&of).copied().unwrap_or(of);
    let added = tables.numbers.add(&part, symbol, pid);

    let mut order = Vec::with_capacity(part.tracks.len());
    let mut tracks = Vec::with_capacity(part.tracks.len());
    for (id, track) in (0..).map(TrackId).zip(&part.tracks) {
        if emptied.contains(&id) {
            tracks.push(TrackId(u32::MAX));
            continue;
        }
        let new = Track {
            pid: pid(track.pid),
            name: symbol(track.name),
            ..*track
        };
        let (id, joined) = tables.track(new);
        order.push((new, id, joined));
        tracks.push(id);
    }
    tables.order.add(order);
    let track = |of: TrackId| tracks.get(of.index()).copied().unwrap_or(TrackId(u32::MAX));

    let of_label = |what: &str| format!("{what} ({})", short(&label));
    let series: Vec<u32> = (part.counter_series.iter())
        .map(|series| {
            let name = part.text(series.name);
            let other = tables.trace.strings.intern(&of_label(name));
            let (pid, name) = (pid(series.pid), symbol(series.name));
            tables.series(CounterSeries { pid, name }, other)
        })
        .collect();

    let time = |at: TraceTime| at + later;
    let span = |span: Interval| Interval::new(time(span.start), time(span.end));
    let batch = part.strings.find(vocab::arg::BATCH);
    // The one argument that is a time.
    let first_ns = part.strings.find(vocab::totals::FIRST_NS);
    let args = |args: &Args| -> Args {
        let one = |&(key, value): &(Symbol, Value)| {
            let value = match value {
                Value::Str(text) => Value::Str(symbol(text)),
                Value::U64(n) if Some(key) == batch => Value::U64(n.wrapping_add(added.batch)),
                Value::U64(n) if Some(key) == first_ns => Value::U64(n.saturating_add(later.get())),
                other => other,
            };
            (symbol(key), value)
        };
        args.iter().map(one).collect()
    };

    // In a job the numbers that join calls to operations have been raised already.
    let raised = part.strings.find(vocab::cat::AC2G);
    let raised = raised.filter(|_| tables.of_job);
    let trace = &mut tables.trace;
    trace.slices.extend(part.slices.iter().map(|slice| Slice {
        track: track(slice.track),
        name: symbol(slice.name),
        cat: symbol(slice.cat),
        span: span(slice.span),
        args: args(&slice.args),
    }));
    trace
        .instants
        .extend(part.instants.iter().map(|instant| Instant {
            track: track(instant.track),
            name: symbol(instant.name),
            cat: symbol(instant.cat),
            at: time(instant.at),
            args: args(&instant.args),
        }));
    let samples = part.counters.iter().filter_map(|sample| {
        Some(CounterSample {
            series: *series.get(sample.series as usize)?,
            at: time(sample.at),
            ..*sample
        })
    });
    trace.counters.extend(samples);
    trace.flows.extend(part.flows.iter().map(|flow| {
        let (cat, name) = (symbol(flow.cat), symbol(flow.name));
        let end = |end: FlowEnd| FlowEnd {
            track: track(end.track),
            at: time(end.at),
        };
        let add = match Some(flow.cat) == raised {
            true => 0,
            false => added.flow(cat, name),
        };
        Flow {
            id: flow.id.wrapping_add(add),
            name,
            cat,
            from: end(flow.from),
            to: end(flow.to),
        }
    }));
    trace
        .async_slices
        .extend(part.async_slices.iter().map(|slice| {
            let (pid, cat) = (pid(slice.pid), symbol(slice.cat));
            AsyncSlice {
                pid,
                name: symbol(slice.name),
                cat,
                id: slice.id.wrapping_add(added.slice(pid, cat)),
                span: span(slice.span),
                args: args(&slice.args),
            }
        }));
    let mut sources = HashSet::new();
    for loss in &part.losses {
        let mut source = symbol(loss.source);
        // Counts of one source go up; those of two recordings are two counts.
        if tables.sources.contains(&source) {
            source = trace.strings.intern(&of_label(part.text(loss.source)));
        }
        sources.insert(source);
        trace.losses.push(Loss {
            source,
            at: time(loss.at),
            total: loss.total,
        });
    }
    tables.sources.extend(sources);
}

/// The last part of a path.
fn short(label: &str) -> &str {
    let name = Path::new(label).file_name().and_then(|name| name.to_str());
    name.unwrap_or(label)
}
