//! A trace put together from Chrome events, in whatever order they come.

use super::line::{Arg, Line, find};
use crate::schema::{LOSS_CAT, TRACE_SCHEMA};
use crate::{
    Args, AsyncSlice, CounterSample, CounterSeries, Flow, FlowEnd, Instant, Interval, Loss, Nanos,
    Pid, Slice, State, Symbol, Tid, Trace, TraceTime, TrackId, Value, vocab,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What the instants from while one slice was open share.
type OpenKey = (TrackId, Symbol, TraceTime);

/// Collects events.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    pub(super) trace: Trace,
    /// Schema of the file, once its meta event was seen.
    pub(super) schema: Option<u32>,
    pub(super) processes: HashMap<Pid, usize>,
    pub(super) tracks: HashMap<(Pid, Tid), TrackId>,
    series: HashMap<CounterSeries, u32>,
    /// Category, arguments and order of the slices that were open at the last flush.
    open: HashMap<OpenKey, (usize, Symbol, Args)>,
    flows: HashMap<(Symbol, Symbol, u64), FlowEnd>,
    asyncs: HashMap<(Pid, Symbol, u64), Vec<AsyncSlice>>,
    last: TraceTime,
}

/// An event that could not be used.
#[derive(Debug)]
pub(super) struct Unusable;

impl From<serde_json::Error> for Unusable {
    fn from(_: serde_json::Error) -> Self {
        Unusable
    }
}

impl Rebuild {
    /// Whether an event of a newer schema was seen.
    pub(super) fn newer(&self) -> Option<u32> {
        self.schema.filter(|&schema| schema > TRACE_SCHEMA)
    }

    /// Adds one event from its JSON.
    pub(super) fn add(&mut self, json: &[u8]) -> Result<(), Unusable> {
        let line: Line<'_> = serde_json::from_slice(json)?;
        match &*line.ph {
            "X" => self.slice(&line),
            "i" | "I" => self.instant(&line),
            "C" => self.counter(&line),
            "s" | "f" => self.flow(&line),
            "b" | "e" => self.async_slice(&line),
            "M" => self.metadata(&line),
            _ => Err(Unusable),
        }
    }

    /// The trace: open slices become unfinished ones that end with the recording, everything is
    /// sorted.
    pub(super) fn finish(mut self, complete: bool) -> Trace {
        let end = self.last;
        if !complete {
            self.trace.meta.end = end;
            self.trace.meta.state = State::Partial;
        }
        let ended: HashSet<_> = self
            .trace
            .slices
            .iter()
            .map(|slice| (slice.track, slice.span.start))
            .collect();
        let mut open: Vec<_> = self.open.into_iter().collect();
        open.retain(|((track, _, start), _)| !ended.contains(&(*track, *start)));
        open.sort_by_key(|(_, (order, ..))| *order);
        for ((track, name, start), (_, cat, args)) in open {
            let key = self.trace.strings.intern(vocab::arg::UNFINISHED);
            let mut args = args.into_vec();
            args.push((key, Value::Bool(true)));
            let span = Interval::new(start, end.max(start));
            let args = args.into_boxed_slice();
            self.trace.slices.push(Slice {
                track,
                name,
                cat,
                span,
                args,
            });
        }
        self.trace.sort();
        self.trace
    }

    fn slice(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        let start = self.time(line.ts())?;
        let end = start + Nanos::new(line.dur().ok_or(Unusable)?);
        let args = self.args(line)?;
        self.last = self.last.max(end);
        let (track, name, cat) = self.named(line);
        let span = Interval::new(start, end);
        self.trace.slices.push(Slice {
            track,
            name,
            cat,
            span,
            args,
        });
        Ok(())
    }

    fn instant(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        if line.marker {
            return Ok(());
        }
        let at = self.time(line.ts())?;
        let args = self.args(line)?;
        let (track, name, cat) = self.named(line);
        if let Some(open) = &line.open {
            let cat = self.trace.strings.intern(&open.cat);
            let key = (track, name, TraceTime::from_nanos(open.start_ns));
            let order = self.open.len();
            let slot = self
                .open
                .entry(key)
                .or_insert_with(|| (order, cat, Args::default()));
            (slot.1, slot.2) = (cat, args);
        } else {
            self.trace.instants.push(Instant {
                track,
                name,
                cat,
                at,
                args,
            });
        }
        Ok(())
    }

    fn counter(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        let at = self.time(line.ts())?;
        let args = line.args()?;
        let value = find(&args, "value").ok_or(Unusable)?;
        if line.cat == LOSS_CAT {
            let source = line.name.strip_prefix(vocab::LOST_EVENTS).ok_or(Unusable)?;
            let source = source.strip_prefix(' ').ok_or(Unusable)?;
            let source = self.trace.strings.intern(source);
            let total = line.total.ok_or(Unusable)?;
            self.trace.losses.push(Loss { source, at, total });
        } else {
            let value = value.as_f64().ok_or(Unusable)?;
            self.sample(Pid(line.pid), &line.name, at, value);
        }
        Ok(())
    }

    pub(super) fn sample(&mut self, pid: Pid, name: &str, at: TraceTime, value: f64) {
        self.last = self.last.max(at);
        let name = self.trace.strings.intern(name);
        let key = CounterSeries { pid, name };
        let all = &mut self.trace.counter_series;
        let series = *self.series.entry(key).or_insert_with(|| {
            all.push(key);
            all.len() as u32 - 1
        });
        self.trace
            .counters
            .push(CounterSample { series, at, value });
    }

    fn flow(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        let at = self.time(line.ts())?;
        let at = line.at_ns.map_or(at, TraceTime::from_nanos);
        self.last = self.last.max(at);
        let id = line.id.ok_or(Unusable)? as u64;
        let (track, name, cat) = self.named(line);
        let end = FlowEnd { track, at };
        if line.ph == "s" {
            self.flows.insert((cat, name, id), end);
        } else {
            let from = self.flows.remove(&(cat, name, id)).ok_or(Unusable)?;
            self.trace.flows.push(Flow {
                id,
                name,
                cat,
                from,
                to: end,
            });
        }
        Ok(())
    }

    fn async_slice(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        let at = self.time(line.ts())?;
        let id = line.local_id().ok_or(Unusable)?;
        let name = self.trace.strings.intern(&line.name);
        let cat = self.trace.strings.intern(&line.cat);
        let pid = Pid(line.pid);
        let started = self.asyncs.entry((pid, cat, id)).or_default();
        if line.ph == "e" {
            let mut slice = started.pop().ok_or(Unusable)?;
            slice.span = Interval::new(slice.span.start, at);
            self.trace.async_slices.push(slice);
            return Ok(());
        }
        let args = self.args(line)?;
        let slice = AsyncSlice {
            pid,
            name,
            cat,
            id,
            span: Interval::new(at, at),
            args,
        };
        self.asyncs.entry((pid, cat, id)).or_default().push(slice);
        Ok(())
    }

    fn time(&mut self, ns: Option<u64>) -> Result<TraceTime, Unusable> {
        let time = TraceTime::from_nanos(ns.ok_or(Unusable)?);
        self.last = self.last.max(time);
        Ok(time)
    }

    fn named(&mut self, line: &Line<'_>) -> (TrackId, Symbol, Symbol) {
        let track = self.track(Pid(line.pid), Tid(line.tid));
        let strings = &mut self.trace.strings;
        (track, strings.intern(&line.name), strings.intern(&line.cat))
    }

    fn args(&mut self, line: &Line<'_>) -> Result<Args, Unusable> {
        let strings = &mut self.trace.strings;
        let mut own = |(key, value): (Cow<'_, str>, Arg<'_>)| {
            let value = match value {
                Arg::Bool(v) => Value::Bool(v),
                Arg::U64(v) => Value::U64(v),
                Arg::I64(v) => Value::I64(v),
                Arg::F64(v) => Value::F64(v),
                Arg::Str(v) => Value::Str(strings.intern(&v)),
                Arg::Other => return None,
            };
            Some((strings.intern(&key), value))
        };
        Ok(line.args()?.into_iter().filter_map(&mut own).collect())
    }
}
