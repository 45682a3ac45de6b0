//! The finished file: the Chrome view of a trace, and after it everything, lossless.

use super::output::Output;
use super::sched::{Sched, ViewOptions};
use super::{encode, introduce, json, layout, properties};
use crate::block;
use crate::schema::{PRODUCER, TRACE_SCHEMA};
use crate::{Args, Nanos, Trace, TrackKind, Value, ValueRef, WriteError};
use layout::Layout;
use std::io::{self, Write};
use std::path::Path;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteStats {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Slices in the Chrome view.
    pub slices: u64,
    /// Instants of the trace in the Chrome view.
    pub instants: u64,
    /// Counter samples in the Chrome view, lost events included.
    pub counters: u64,
    /// Flows in the Chrome view.
    pub flows: u64,
    /// Flows that viewers would refuse and that only the lossless block has: an end outside
    /// every slice, backwards in time, or an id that was used before.
    pub flows_left_out: u64,
    /// Instants that the Chrome view has beside those of the trace, each a flow end for which
    /// viewers would take another slice, or turn the arrow round.
    pub flow_markers: u64,
    /// Async slices in the Chrome view.
    pub async_slices: u64,
    /// Extra lanes for slices that overlap others of their track without lying inside them.
    pub lanes: u64,
    /// Slices on those lanes.
    pub slices_on_lanes: u64,
    /// Lines of scheduler text.
    pub sched_lines: u64,
    /// Stretches off CPU for which there was no room in the scheduler text; they are not slices of
    /// the Chrome view either.
    pub off_cpu_left_out: u64,
}

/// Writes `trace` to `path` as Chrome JSON, gzip if the name ends in `.gz`.
///
/// Stretches off CPU ([`cat::OFF_CPU`](crate::vocab::cat::OFF_CPU)) become scheduler tracks; when
/// there are more than viewers take, the stalls of findings come first ([`ViewOptions::of`]).
///
/// The file appears at once when it is complete; one that was there is replaced only then. The
/// order of the events in `trace` does not matter.
///
/// # Errors
///
/// [`WriteError`] when the file cannot be made or written to its end (a full disk). Nothing is
/// left behind then, and what was at `path` stays.
pub fn write_finished(path: &Path, trace: &Trace) -> Result<WriteStats, WriteError> {
    write_finished_with(path, trace, &ViewOptions::of(trace))
}

/// As [`write_finished`], with a say in what viewers are shown.
///
/// # Errors
///
/// As [`write_finished`].
pub fn write_finished_with(
    path: &Path,
    trace: &Trace,
    options: &ViewOptions,
) -> Result<WriteStats, WriteError> {
    let output = Output::create(path)?;
    let sched = Sched::new(trace, options);
    let layout = layout::layout(trace, |slice| sched.hides(slice));
    let mut stats = WriteStats::default();
    stats.bytes = output.complete(|file| {
        let mut lines = Lines {
            file,
            buffer: Vec::with_capacity(2 * FLUSH_BYTES),
        };
        head(&mut lines.buffer, trace);
        view(&mut lines, trace, &layout, &sched, &mut stats)?;
        lines.buffer.extend_from_slice(b"],\n");
        scheduler(&mut lines, trace, &sched, &mut stats)?;
        lines.buffer.extend_from_slice(b"\"gpustall\":");
        block::write(trace, &mut lines.buffer, |buffer| spill(buffer, lines.file))?;
        // No newline: Perfetto refuses a file whose last piece of 32 MiB is blank.
        lines.buffer.push(b'}');
        lines.file.write_all(&lines.buffer)
    })?;
    Ok(stats)
}

/// Lines are handed on when so many bytes have come together.
const FLUSH_BYTES: usize = 1 << 16;

fn spill(buffer: &mut Vec<u8>, file: &mut dyn Write) -> io::Result<()> {
    if buffer.len() >= FLUSH_BYTES {
        file.write_all(buffer)?;
        buffer.clear();
    }
    Ok(())
}

struct Lines<'f> {
    file: &'f mut dyn Write,
    buffer: Vec<u8>,
}

impl Lines<'_> {
    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        encode(&mut self.buffer);
        spill(&mut self.buffer, self.file)
    }
}

fn head(out: &mut Vec<u8>, trace: &Trace) {
    out.extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"producer\":");
    json::string(out, PRODUCER);
    out.extend_from_slice(b",\"schema\":");
    json::integer(out, TRACE_SCHEMA);
    out.extend_from_slice(b",\"version\":");
    json::string(out, &trace.meta.recorder);
    out.extend_from_slice(b",\"name\":");
    json::string(out, &trace.meta.name);
    out.extend_from_slice(b"},\n");
    properties::append(out, &trace.meta);
    out.extend_from_slice(b"\"traceEvents\":[\n");
    introduce::meta(out, &trace.meta);
}

/// Writes the events that viewers draw.
fn view(
    lines: &mut Lines<'_>,
    trace: &Trace,
    layout: &Layout<'_>,
    sched: &Sched<'_>,
    stats: &mut WriteStats,
) -> io::Result<()> {
    for p in &trace.processes {
        lines.add(|out| introduce::process(out, p.pid, trace.text(p.name), p.sort))?;
    }
    for t in &trace.tracks {
        let name = trace.text(t.name);
        lines.add(|out| introduce::track(out, (t.pid, t.tid), name, t.sort, t.kind, None))?;
    }
    for lane in &layout.lanes {
        let t = &trace.tracks[lane.track];
        let name = format!("{} ({})", trace.text(t.name), lane.number);
        let (place, kind) = ((t.pid, lane.tid), TrackKind::Synthetic);
        lines.add(|out| introduce::track(out, place, &name, t.sort, kind, Some(t.tid)))?;
        stats.lanes += 1;
    }
    for (s, place) in trace.slices.iter().zip(&layout.slices) {
        let Some(place) = *place else { continue };
        let (name, cat) = (trace.text(s.name), trace.text(s.cat));
        lines.add(|out| encode::slice(out, place, name, cat, s.span, args(trace, &s.args)))?;
        stats.slices += 1;
        stats.slices_on_lanes += u64::from(trace.tracks[s.track.index()].tid != place.1);
    }
    for i in &trace.instants {
        let Some(t) = trace.track(i.track) else {
            continue;
        };
        let (place, name, cat) = ((t.pid, t.tid), trace.text(i.name), trace.text(i.cat));
        lines.add(|out| encode::instant(out, place, name, cat, i.at, args(trace, &i.args)))?;
        stats.instants += 1;
    }
    for c in &trace.counters {
        let Some(series) = trace.counter_series.get(c.series as usize) else {
            continue;
        };
        let name = trace.text(series.name);
        lines.add(|out| encode::counter(out, series.pid, name, c.at, c.value))?;
        stats.counters += u64::from(c.value.is_finite());
    }
    for l in &trace.losses {
        let source = trace.text(l.source);
        lines.add(|out| encode::loss(out, trace.meta.pid, source, l.at, l.total))?;
        stats.counters += 1;
    }
    for placed in &layout.flows {
        let f = &trace.flows[placed.flow];
        let (name, cat) = (trace.text(f.name), trace.text(f.cat));
        lines.add(|out| encode::flow(out, f.id, name, cat, placed.from, placed.to))?;
        stats.flows += 1;
        let markers = [placed.from, placed.to].map(|end| u64::from(end.marker.is_some()));
        stats.flow_markers += markers[0] + markers[1];
    }
    stats.flows_left_out = trace.flows.len() as u64 - stats.flows;
    for a in &trace.async_slices {
        let (name, cat, args) = (trace.text(a.name), trace.text(a.cat), args(trace, &a.args));
        lines.add(|out| encode::async_slice(out, a.pid, name, cat, a.id, a.span, args))?;
        stats.async_slices += 1;
    }
    if sched.left_out() > 0 {
        let longest = Nanos::new(sched.longest_hidden_ns);
        lines.add(|out| {
            encode::left_out(out, trace.meta.pid, sched.drawn, sched.left_out(), longest)
        })?;
    }
    lines.add(|out| {
        introduce::end(out, trace.meta.pid);
        // The last element of a JSON array has no comma.
        out.truncate(out.len() - 2);
        out.push(b'\n');
    })
}

/// Writes the text from which viewers make the scheduler tracks.
fn scheduler(
    lines: &mut Lines<'_>,
    trace: &Trace,
    sched: &Sched<'_>,
    stats: &mut WriteStats,
) -> io::Result<()> {
    stats.off_cpu_left_out = sched.left_out();
    if sched.line_count() == 0 {
        return Ok(());
    }
    lines.buffer.extend_from_slice(b"\"systemTraceEvents\":\"");
    for line in sched.lines(trace) {
        lines.add(|out| line.append(out))?;
        stats.sched_lines += 1;
    }
    lines.buffer.extend_from_slice(b"\",\n");
    Ok(())
}

/// Arguments with their texts.
fn args<'a>(trace: &'a Trace, args: &'a Args) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> {
    args.iter().map(|&(key, value)| {
        let value = match value {
            Value::Bool(v) => ValueRef::Bool(v),
            Value::U64(v) => ValueRef::U64(v),
            Value::I64(v) => ValueRef::I64(v),
            Value::F64(v) => ValueRef::F64(v),
            Value::Str(v) => ValueRef::Str(trace.text(v)),
        };
        (trace.text(key), value)
    })
}
