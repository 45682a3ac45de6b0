//! A trace in the making.

use super::record::ProcessInfo;
use gpustall_trace::{
    Arg, AsyncSlice, CounterSample, CounterSeries, DistributedInfo, Flow, FlowEnd, Instant,
    Interval, Loss, Meta, MonoTime, Pid, Process, Slice, State, Symbol, Tid, Trace, TraceTime,
    Track, TrackId, TrackKind, Value, vocab,
};
use std::collections::HashMap;

/// Process that groups the steps.
const STORY: Pid = Pid(Pid::SYNTHETIC);
/// Process that groups the batches in flight.
const QUEUES: Pid = Pid(Pid::SYNTHETIC + 1);
/// First id of a track of steps.
const FIRST_STEPS: u32 = Pid::SYNTHETIC + 0x100;

/// A place in a process: a thread.
pub(super) type Place = (u32, u32);

/// Names and values of a slice.
pub(super) type Args<'a> = Vec<(&'a str, Value)>;

/// Puts events into a trace; times are nanoseconds of `CLOCK_MONOTONIC`.
pub(super) struct Drawing {
    trace: Trace,
    origin: MonoTime,
    tracks: HashMap<Place, TrackId>,
    steps: HashMap<String, TrackId>,
    series: HashMap<String, u32>,
}

impl Drawing {
    /// An empty trace from `origin` to `end` of the process `of`.
    pub(super) fn new(of: &ProcessInfo, origin: MonoTime, end: MonoTime) -> Self {
        let environment = |name: &str| match name {
            "RANK" => Some(of.rank.clone()),
            _ => Some(of.world_size.clone()),
        };
        let wall = of.mono_ns.saturating_sub(origin.as_nanos());
        let mut drawing = Self {
            trace: Trace {
                meta: Meta {
                    name: of.script(),
                    recorder: "python hook".to_owned(),
                    start_mono: origin,
                    start_unix_ns: of.unix_ns.saturating_sub(wall),
                    end: end.in_trace(origin),
                    pid: Pid(of.pid),
                    cpus: of.cpus,
                    state: State::Finished,
                    distributed: DistributedInfo::of(environment),
                    ..Meta::default()
                },
                ..Trace::default()
            },
            origin,
            tracks: HashMap::new(),
            steps: HashMap::new(),
            series: HashMap::new(),
        };
        drawing.process(STORY, "gpustall: loops", -2);
        drawing.process(Pid(of.pid), &of.script(), 0);
        drawing.process(QUEUES, "gpustall: batches in flight", 1000);
        drawing
    }

    /// The trace.
    pub(super) fn finish(mut self) -> Trace {
        self.trace.sort();
        self.trace
    }

    /// The end of the recording.
    pub(super) fn end(&self) -> u64 {
        self.origin
            .as_nanos()
            .saturating_add(self.trace.meta.end.as_nanos())
    }

    pub(super) fn text(&mut self, text: &str) -> Value {
        Value::Str(self.symbol(text))
    }

    fn symbol(&mut self, text: &str) -> Symbol {
        self.trace.strings.intern(text)
    }

    pub(super) fn process(&mut self, pid: Pid, name: &str, sort: i32) {
        let name = self.symbol(name);
        self.trace.processes.push(Process { pid, name, sort });
    }

    /// Names a thread that may have no events.
    pub(super) fn thread(&mut self, place: Place, name: &str) -> TrackId {
        if let Some(&known) = self.tracks.get(&place) {
            return known;
        }
        let (pid, tid) = (Pid(place.0), Tid(place.1));
        let track = self.track(pid, tid, name, 0, TrackKind::Thread);
        self.tracks.insert(place, track);
        track
    }

    fn track(&mut self, pid: Pid, tid: Tid, name: &str, sort: i32, kind: TrackKind) -> TrackId {
        let name = self.symbol(name);
        let id = TrackId(self.trace.tracks.len() as u32);
        self.trace.tracks.push(Track {
            pid,
            tid,
            name,
            sort,
            kind,
        });
        id
    }

    fn at(&mut self, place: Place) -> TrackId {
        self.thread(place, &format!("thread {}", place.1))
    }

    fn time(&self, ns: u64) -> TraceTime {
        MonoTime::from_nanos(ns).in_trace(self.origin)
    }

    fn args(&mut self, args: Args<'_>) -> Box<[Arg]> {
        let arg = |(key, value): (&str, Value)| (self.trace.strings.intern(key), value);
        args.into_iter().map(arg).collect()
    }

    /// A slice on a thread.
    pub(super) fn slice(
        &mut self,
        place: Place,
        cat: &str,
        name: &str,
        (start, end): (u64, u64),
        args: Args<'_>,
    ) {
        let track = self.at(place);
        self.slice_on(track, cat, name, (start, end), args);
    }

    fn slice_on(
        &mut self,
        track: TrackId,
        cat: &str,
        name: &str,
        (start, end): (u64, u64),
        args: Args<'_>,
    ) {
        let slice = Slice {
            track,
            name: self.symbol(name),
            cat: self.symbol(cat),
            span: Interval::new(self.time(start), self.time(end)),
            args: self.args(args),
        };
        self.trace.slices.push(slice);
    }

    /// A step of a loader, on the track of its loops.
    pub(super) fn step(&mut self, loader: &str, name: &str, span: (u64, u64), args: Args<'_>) {
        let track = match self.steps.get(loader) {
            Some(&known) => known,
            None => {
                let tid = Tid(FIRST_STEPS + self.steps.len() as u32);
                let title = format!("steps: {loader}");
                let track = self.track(STORY, tid, &title, 1, TrackKind::Synthetic);
                self.steps.insert(loader.to_owned(), track);
                track
            }
        };
        self.slice_on(track, vocab::cat::STEP, name, span, args);
    }

    /// From `start` on nothing was recorded of the process.
    pub(super) fn pause(&mut self, start: u64) {
        let (tid, pid) = (Tid(STORY.0), self.trace.meta.pid);
        let title = "marks found no room";
        let track = self.track(STORY, tid, title, 9, TrackKind::Synthetic);
        let args = vec![(vocab::arg::PROCESS, Value::U64(pid.0.into()))];
        let span = (start, self.end().max(start));
        self.slice_on(track, vocab::cat::PAUSE, "paused", span, args);
    }

    /// Something that went wrong.
    pub(super) fn fault(&mut self, place: Place, at: u64, message: &str) {
        let instant = Instant {
            track: self.at(place),
            name: self.symbol("error"),
            cat: self.symbol(vocab::cat::FAULT),
            at: self.time(at),
            args: {
                let message = self.text(message);
                self.args(vec![(vocab::arg::MESSAGE, message)])
            },
        };
        self.trace.instants.push(instant);
    }

    /// Marks the last thing that went wrong with this message as the end of the run.
    pub(super) fn ended_by(&mut self, message: &str) {
        let fault = self.symbol(vocab::cat::FAULT);
        let ended = self.symbol(vocab::arg::ENDED_RUN);
        let strings = &self.trace.strings;
        let said = |instant: &Instant| {
            instant.args.iter().any(|(_, value)| match value {
                Value::Str(text) => strings.get(*text) == message,
                _ => false,
            })
        };
        let faults = self.trace.instants.iter_mut();
        let last = faults
            .filter(|instant| instant.cat == fault && said(instant))
            .max_by_key(|instant| instant.at);
        if let Some(last) = last {
            let mut args = std::mem::take(&mut last.args).into_vec();
            args.push((ended, Value::Bool(true)));
            last.args = args.into();
        }
    }

    /// A batch from its worker to who took it: the arrow, and its time in between.
    pub(super) fn batch(
        &mut self,
        (batch, loader): (u64, &str),
        (worker, made): (Place, (u64, u64)),
        (taker, wait): (Place, (u64, u64)),
    ) {
        let last = |(start, end): (u64, u64)| end.saturating_sub(1).max(start);
        let (cat, name) = (self.symbol(vocab::cat::BATCH), self.symbol("batch"));
        let from = FlowEnd {
            track: self.at(worker),
            at: self.time(last(made)),
        };
        let to = FlowEnd {
            track: self.at(taker),
            at: self.time(last(wait).max(last(made))),
        };
        self.trace.flows.push(Flow {
            id: batch,
            name,
            cat,
            from,
            to,
        });
        let slice = AsyncSlice {
            pid: QUEUES,
            name: self.symbol(&format!("queued batches: {loader}")),
            cat,
            id: batch,
            span: Interval::new(self.time(made.1), self.time(wait.1)),
            args: self.args(vec![(vocab::arg::BATCH, Value::U64(batch))]),
        };
        self.trace.async_slices.push(slice);
    }

    /// A value of a counter of the recorded process.
    pub(super) fn counter(&mut self, name: &str, at: u64, value: f64) {
        let series = match self.series.get(name) {
            Some(&known) => known,
            None => {
                let series = CounterSeries {
                    pid: self.trace.meta.pid,
                    name: self.symbol(name),
                };
                let id = self.trace.counter_series.len() as u32;
                self.trace.counter_series.push(series);
                self.series.insert(name.to_owned(), id);
                id
            }
        };
        let at = self.time(at);
        let sample = CounterSample { series, at, value };
        self.trace.counters.push(sample);
    }

    /// Marks that found no room.
    pub(super) fn lost(&mut self, total: u64) {
        if total > 0 {
            let source = self.symbol("data pipeline");
            let at = self.trace.meta.end;
            self.trace.losses.push(Loss { source, at, total });
        }
    }
}
