//! From a growing trace to frames.

use crate::event::{Arg, Event, TextId, Value};
use crate::frame::FrameWriter;
use crate::{MAX_TEXT_BYTES, MAX_TEXTS_BYTES};
use gpustall_trace::{Args, FlowEnd, Interval, Symbol, Trace, TrackId, TrackKind};
use std::collections::{BTreeSet, HashMap};

/// What is new in a trace, or has another name: positions in [`Trace::processes`] and
/// [`Trace::tracks`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduced {
    /// Processes.
    pub processes: BTreeSet<usize>,
    /// Tracks.
    pub tracks: BTreeSet<TrackId>,
}

/// Makes frames of a trace that grows.
#[derive(Debug, Default)]
pub struct Encoder {
    frames: FrameWriter,
    /// Numbers of the texts that were sent.
    sent: HashMap<Symbol, TextId>,
    sent_bytes: usize,
    /// Events sent.
    events: u64,
}

impl Encoder {
    /// Encodes all events of `trace` and takes them out of it, after what was `introduced`.
    pub fn trace(&mut self, trace: &mut Trace, introduced: Introduced) {
        for process in introduced.processes {
            if let Some(&process) = trace.processes.get(process) {
                let name = self.text(trace, process.name);
                let (pid, sort) = (process.pid.0, process.sort);
                self.push(&Event::Process { pid, name, sort });
            }
        }
        for id in introduced.tracks {
            if let Some(&track) = trace.track(id) {
                let name = self.text(trace, track.name);
                self.push(&Event::Track {
                    track: id.0,
                    pid: track.pid.0,
                    tid: track.tid.0,
                    name,
                    sort: track.sort,
                    synthetic: track.kind == TrackKind::Synthetic,
                });
            }
        }
        for slice in std::mem::take(&mut trace.slices) {
            let (start, length) = span(slice.span);
            let event = Event::Slice {
                track: slice.track.0,
                name: self.text(trace, slice.name),
                cat: self.text(trace, slice.cat),
                start,
                length,
                args: self.args(trace, &slice.args),
            };
            self.push_counted(&event);
        }
        for instant in std::mem::take(&mut trace.instants) {
            let event = Event::Instant {
                track: instant.track.0,
                name: self.text(trace, instant.name),
                cat: self.text(trace, instant.cat),
                at: instant.at.as_nanos(),
                args: self.args(trace, &instant.args),
            };
            self.push_counted(&event);
        }
        for sample in std::mem::take(&mut trace.counters) {
            let Some(&series) = trace.counter_series.get(sample.series as usize) else {
                continue;
            };
            let event = Event::Counter {
                pid: series.pid.0,
                name: self.text(trace, series.name),
                at: sample.at.as_nanos(),
                value: sample.value,
            };
            self.push_counted(&event);
        }
        for flow in std::mem::take(&mut trace.flows) {
            let end = |end: FlowEnd| (end.track.0, end.at.as_nanos());
            let event = Event::Flow {
                id: flow.id,
                name: self.text(trace, flow.name),
                cat: self.text(trace, flow.cat),
                from: end(flow.from),
                to: end(flow.to),
            };
            self.push_counted(&event);
        }
        for slice in std::mem::take(&mut trace.async_slices) {
            let (start, length) = span(slice.span);
            let event = Event::Async {
                pid: slice.pid.0,
                name: self.text(trace, slice.name),
                cat: self.text(trace, slice.cat),
                id: slice.id,
                start,
                length,
                args: self.args(trace, &slice.args),
            };
            self.push_counted(&event);
        }
        for loss in std::mem::take(&mut trace.losses) {
            let source = self.text(trace, loss.source);
            let (at, total) = (loss.at.as_nanos(), loss.total);
            self.push(&Event::Loss { source, at, total });
        }
    }

    /// A sentence for the user.
    pub fn note(&mut self, text: &str) {
        self.push(&Event::Note(cut(text)));
    }

    /// Nothing follows.
    pub fn end(&mut self) {
        self.push(&Event::End);
    }

    /// Whether so many texts were sent that the trace should forget its strings, and
    /// [`forget_texts`](Self::forget_texts) should be called.
    pub fn has_many_texts(&self) -> bool {
        self.sent_bytes >= MAX_TEXTS_BYTES / 4
    }

    /// The symbols of the trace are others from now on.
    pub fn forget_texts(&mut self) {
        self.sent.clear();
        self.sent_bytes = 0;
        self.push(&Event::ForgetTexts);
    }

    /// All frames since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        self.frames.take()
    }

    /// Events encoded so far; what introduces them is not counted.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn push_counted(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.push(event);
    }

    fn push(&mut self, event: &Event<'_>) {
        self.frames.push(|out| {
            if let Ok(longer) = postcard::to_extend(event, std::mem::take(out)) {
                *out = longer;
            }
        });
    }

    fn text(&mut self, trace: &Trace, symbol: Symbol) -> TextId {
        if let Some(&number) = self.sent.get(&symbol) {
            return number;
        }
        let number = self.sent.len() as TextId;
        let text = cut(trace.text(symbol));
        self.sent.insert(symbol, number);
        self.sent_bytes += text.len();
        self.push(&Event::Text(text));
        number
    }

    fn args(&mut self, trace: &Trace, args: &Args) -> Vec<Arg> {
        let value = |encoder: &mut Self, value| match value {
            gpustall_trace::Value::Bool(value) => Value::Bool(value),
            gpustall_trace::Value::U64(value) => Value::U64(value),
            gpustall_trace::Value::I64(value) => Value::I64(value),
            gpustall_trace::Value::F64(value) => Value::F64(value),
            gpustall_trace::Value::Str(symbol) => Value::Text(encoder.text(trace, symbol)),
        };
        let args = args.iter();
        args.map(|&(key, v)| (self.text(trace, key), value(self, v)))
            .collect()
    }
}

fn span(span: Interval) -> (u64, u64) {
    (span.start.as_nanos(), span.len().get())
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
