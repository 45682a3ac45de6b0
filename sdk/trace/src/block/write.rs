//! Writing the block.

use super::{CHUNK_CELLS, CHUNK_ROWS, CHUNK_TEXT};
use crate::chrome::json;
use crate::schema::TRACE_SCHEMA;
use crate::{Args, Symbol, Trace, TraceTime, TrackKind, Value};
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// Appends the block of `trace` to `out`, and calls `spill` between chunks so that the caller can
/// hand on what has come together.
pub(crate) fn write(
    trace: &Trace,
    out: &mut Vec<u8>,
    mut spill: impl FnMut(&mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    out.extend_from_slice(b"{\"schema\":");
    json::integer(out, TRACE_SCHEMA);
    out.extend_from_slice(b",\n\"meta\":");
    serde_json::to_writer(&mut *out, &trace.meta)?;
    out.extend_from_slice(b",\n\"chunks\":[");
    let mut chunks = 0;
    let mut next = |out: &mut Vec<u8>| {
        let before: &[u8] = if chunks == 0 { b"\n" } else { b",\n" };
        chunks += 1;
        spill(out).map(|()| out.extend_from_slice(before))
    };

    let texts: Vec<&str> = trace.strings.iter().collect();
    for rows in chunk_ranges(&texts, CHUNK_TEXT, |text| text.len()) {
        next(out)?;
        strings(out, &texts[rows]);
    }
    for rows in trace.processes.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "processes");
        c.numbers("pid", rows, |p| p.pid.0);
        c.numbers("name", rows, |p| p.name.0);
        c.numbers("sort", rows, |p| p.sort);
        c.end();
    }
    for rows in trace.tracks.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "tracks");
        c.numbers("pid", rows, |t| t.pid.0);
        c.numbers("tid", rows, |t| t.tid.0);
        c.numbers("name", rows, |t| t.name.0);
        c.numbers("sort", rows, |t| t.sort);
        c.numbers("synthetic", rows, |t| {
            u8::from(t.kind == TrackKind::Synthetic)
        });
        c.end();
    }
    for rows in trace.counter_series.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "counter_series");
        c.numbers("pid", rows, |s| s.pid.0);
        c.numbers("name", rows, |s| s.name.0);
        c.end();
    }
    for rows in chunk_ranges(&trace.slices, CHUNK_CELLS, |s| s.args.len()) {
        next(out)?;
        let rows = &trace.slices[rows];
        let mut c = Columns::start(out, "slices");
        c.numbers("track", rows, |s| s.track.0);
        c.numbers("name", rows, |s| s.name.0);
        c.numbers("cat", rows, |s| s.cat.0);
        c.deltas("start", rows, |s| s.span.start.as_nanos());
        c.numbers("dur", rows, |s| s.span.len().get());
        c.args(rows, |s| &s.args);
        c.end();
    }
    for rows in chunk_ranges(&trace.instants, CHUNK_CELLS, |i| i.args.len()) {
        next(out)?;
        let rows = &trace.instants[rows];
        let mut c = Columns::start(out, "instants");
        c.numbers("track", rows, |i| i.track.0);
        c.numbers("name", rows, |i| i.name.0);
        c.numbers("cat", rows, |i| i.cat.0);
        c.deltas("at", rows, |i| i.at.as_nanos());
        c.args(rows, |i| &i.args);
        c.end();
    }
    for rows in trace.counters.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "counters");
        c.numbers("series", rows, |s| s.series);
        c.deltas("at", rows, |s| s.at.as_nanos());
        c.column("value", rows, |out, s| json::float(out, s.value));
        c.end();
    }
    for rows in trace.flows.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "flows");
        c.deltas("id", rows, |f| f.id);
        c.numbers("name", rows, |f| f.name.0);
        c.numbers("cat", rows, |f| f.cat.0);
        c.numbers("from", rows, |f| f.from.track.0);
        c.deltas("at", rows, |f| f.from.at.as_nanos());
        c.numbers("to", rows, |f| f.to.track.0);
        c.numbers("lag", rows, |f| difference(f.to.at, f.from.at));
        c.end();
    }
    for rows in chunk_ranges(&trace.async_slices, CHUNK_CELLS, |a| a.args.len()) {
        next(out)?;
        let rows = &trace.async_slices[rows];
        let mut c = Columns::start(out, "async_slices");
        c.numbers("pid", rows, |a| a.pid.0);
        c.numbers("name", rows, |a| a.name.0);
        c.numbers("cat", rows, |a| a.cat.0);
        c.deltas("id", rows, |a| a.id);
        c.deltas("start", rows, |a| a.span.start.as_nanos());
        c.numbers("dur", rows, |a| a.span.len().get());
        c.args(rows, |a| &a.args);
        c.end();
    }
    for rows in trace.losses.chunks(CHUNK_ROWS) {
        next(out)?;
        let mut c = Columns::start(out, "losses");
        c.numbers("source", rows, |l| l.source.0);
        c.deltas("at", rows, |l| l.at.as_nanos());
        c.numbers("total", rows, |l| l.total);
        c.end();
    }

    if let Some(report) = &trace.report {
        out.extend_from_slice(b"],\n\"report\":");
        serde_json::to_writer(&mut *out, report)?;
    } else {
        out.push(b']');
    }
    // Comes last: a block that has it is whole.
    out.extend_from_slice(b",\n\"chunk_count\":");
    json::integer(out, chunks);
    out.push(b'}');
    spill(out)
}

fn strings(out: &mut Vec<u8>, texts: &[&str]) {
    let mut c = Columns::start(out, "strings");
    c.column("text", texts, |out, text| json::string(out, text));
    c.end();
}

/// `to - from`, which may be negative, modulo 2^64.
fn difference(to: TraceTime, from: TraceTime) -> i64 {
    to.as_nanos().wrapping_sub(from.as_nanos()) as i64
}

/// Cuts `items` into chunks of at most [`CHUNK_ROWS`], each of a `weight` of about `limit`.
fn chunk_ranges<T>(
    items: &[T],
    limit: usize,
    weight: impl Fn(&T) -> usize,
) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let (mut end, mut sum) = (start, 0);
        while end < items.len() && end - start < CHUNK_ROWS && sum < limit {
            sum += weight(&items[end]);
            end += 1;
        }
        let range = start..end;
        start = end;
        (!range.is_empty()).then_some(range)
    })
}

/// A chunk that is being written, one column after the other.
struct Columns<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Columns<'o> {
    fn start(out: &'o mut Vec<u8>, kind: &str) -> Self {
        out.extend_from_slice(b"{\"kind\":");
        json::string(out, kind);
        Self { out }
    }

    fn column<T>(&mut self, key: &str, rows: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
        self.out.push(b',');
        json::string(self.out, key);
        self.out.extend_from_slice(b":[");
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write(self.out, row);
        }
        self.out.push(b']');
    }

    fn numbers<T, N: itoa::Integer>(&mut self, key: &str, rows: &[T], of: impl Fn(&T) -> N) {
        self.column(key, rows, |out, row| json::integer(out, of(row)));
    }

    /// Each number less the one before, modulo 2^64, as a signed number.
    fn deltas<T>(&mut self, key: &str, rows: &[T], of: impl Fn(&T) -> u64) {
        let mut last = 0;
        self.column(key, rows, |out, row| {
            let value = of(row);
            json::integer(out, value.wrapping_sub(last) as i64);
            last = value;
        });
    }

    /// Arguments: the different lists of keys, the list of each row, and all values in a row.
    fn args<T>(&mut self, rows: &[T], of: impl Fn(&T) -> &Args) {
        let mut numbers: HashMap<Vec<Symbol>, usize> = HashMap::new();
        let mut lists: Vec<Vec<Symbol>> = Vec::new();
        let mut keys = Vec::new();
        self.column("shape", rows, |out, row| {
            keys.clear();
            keys.extend(of(row).iter().map(|&(key, _)| key));
            let number = match numbers.get(&keys) {
                Some(&number) => number,
                None => {
                    numbers.insert(keys.clone(), lists.len());
                    lists.push(keys.clone());
                    lists.len() - 1
                }
            };
            json::integer(out, number);
        });
        self.column("shapes", &lists, |out, keys| {
            out.push(b'[');
            for (i, key) in keys.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                json::integer(out, key.0);
            }
            out.push(b']');
        });
        let values: Vec<Value> = rows
            .iter()
            .flat_map(|row| of(row).iter().map(|&(_, value)| value))
            .collect();
        self.column("args", &values, |out, &value| match value {
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::U64(v) => json::integer(out, v),
            Value::I64(v) => json::integer(out, v),
            Value::F64(v) => json::float(out, v),
            Value::Str(symbol) => {
                out.push(b'[');
                json::integer(out, symbol.0);
                out.push(b']');
            }
        });
    }

    fn end(self) {
        self.out.push(b'}');
    }
}
