//! From CUPTI's records to events of a trace, by the conventions of Kineto.

use crate::calls::{Api, Calls};
use crate::host_calls::Call;
use crate::names::{self, KernelNames};
use crate::recent::Recent;
use crate::record::{Place, Record, Span};
use crate::tracks::{Lane, Tracks};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{
    ArgsRef, EventRef, Interval, MonoTime, PartialWriter, Pid, Tid, TraceTime, ValueRef,
};

/// Calls and operations whose other end has not come yet, at most.
const WAITING: usize = 1 << 16;
/// `CUPTI_SYNCHRONIZATION_INVALID_VALUE`: not a wait for a stream, or for an event.
const NONE: u32 = u32::MAX;

/// So many launches without any kernel are no accident.
const KERNELS_MISSED: u64 = 200;

/// Where events go.
pub trait EventSink {
    /// Takes one event.
    fn push(&mut self, event: &EventRef<'_>);
}

impl EventSink for PartialWriter {
    fn push(&mut self, event: &EventRef<'_>) {
        PartialWriter::push(self, event);
    }
}

/// What was recorded so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Memsets.
    pub sets: u64,
    /// Calls of the driver and the runtime.
    pub calls: u64,
    /// Synchronisations, as CUPTI saw them.
    pub waits: u64,
    /// Operations without times: they were running when the recording ended.
    pub unfinished: u64,
}

impl Counts {
    /// Operations on devices.
    pub fn operations(&self) -> u64 {
        self.kernels + self.copies + self.sets
    }
}

/// Writes the events of one process.
#[derive(Debug)]
pub(crate) struct Emitter {
    start: MonoTime,
    calls: Calls,
    tracks: Tracks,
    kernels: KernelNames,
    /// Calls whose operation has not come: thread and start.
    submitted: Recent<(Tid, TraceTime)>,
    /// Operations whose call has not come.
    ran: Recent<(Lane, TraceTime)>,
    /// Events of CUDA: the stream on which each was recorded last, and by which call.
    events: Recent<(u32, u32)>,
    pub(crate) counts: Counts,
    /// Kernels of no graph, and how many of them had a call.
    pub(crate) launched: (u64, u64),
    /// Launches of kernels since [`take_unanswered`](Self::take_unanswered), and kernels that came.
    in_window: (u64, u64),
    /// Start of the earliest operation since it was last taken.
    pub(crate) first_operation: Option<u64>,
}

impl Emitter {
    /// Events of process `pid` in a trace that starts at `start`.
    pub(crate) fn new(pid: Pid, start: MonoTime, calls: Calls) -> Self {
        Self {
            start,
            calls,
            tracks: Tracks::new(pid),
            kernels: KernelNames::default(),
            submitted: Recent::new(WAITING),
            ran: Recent::new(WAITING),
            events: Recent::new(WAITING),
            counts: Counts::default(),
            launched: (0, 0),
            in_window: (0, 0),
            first_operation: None,
        }
    }

    /// The calls that are recorded.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Launches since this was last asked, if they are many and no kernel came. To be asked when all must
    /// have come.
    pub(crate) fn take_unanswered(&mut self) -> Option<u64> {
        let (launches, kernels) = std::mem::take(&mut self.in_window);
        (kernels == 0 && launches >= KERNELS_MISSED).then_some(launches)
    }

    /// Whether operations ran on more than one stream of a device.
    pub(crate) fn has_several_streams(&self) -> bool {
        self.tracks.has_several_streams()
    }

    /// Writes what `record` says.
    pub(crate) fn record(&mut self, record: &Record<'_>, sink: &mut dyn EventSink) {
        match *record {
            Record::Kernel {
                place,
                span,
                correlation,
                name,
                graph_node,
            } => {
                self.counts.kernels += 1;
                self.in_window.1 += 1;
                if graph_node == 0 {
                    self.launched.0 += 1;
                    self.launched.1 += u64::from(self.submitted.get(correlation).is_some());
                }
                let name = self.kernels.of(name);
                let node = (arg::GRAPH_NODE, ValueRef::U64(graph_node));
                let more = if graph_node == 0 { &[][..] } else { &[node] };
                self.operation((cat::KERNEL, &name), place, span, correlation, more, sink);
            }
            Record::Copy {
                place,
                span,
                correlation,
                kind,
                memory: (source, target),
                bytes,
            } => {
                self.counts.copies += 1;
                let name = names::copy(kind, source, target);
                let more = moved(bytes, span);
                self.operation(
                    (cat::GPU_MEMCPY, name),
                    place,
                    span,
                    correlation,
                    &more,
                    sink,
                );
            }
            Record::Set {
                place,
                span,
                correlation,
                memory,
                bytes,
            } => {
                self.counts.sets += 1;
                let name = names::set(memory);
                let more = moved(bytes, span);
                self.operation(
                    (cat::GPU_MEMSET, name),
                    place,
                    span,
                    correlation,
                    &more,
                    sink,
                );
            }
            Record::Wait {
                what,
                span,
                correlation,
                context,
                stream,
                event,
            } => self.wait((what, stream, event), context, span, correlation, sink),
            Record::Event {
                correlation,
                stream,
                event,
                ..
            } => self.events.put(event, (stream, correlation)),
            Record::Overhead { what, span } => {
                let Some(span) = self.interval(span) else {
                    return;
                };
                let (pid, tid) = self.tracks.overhead(sink);
                sink.push(&EventRef::Slice {
                    pid,
                    tid,
                    name: names::overhead(what),
                    cat: cat::OVERHEAD,
                    span,
                    args: &[],
                });
            }
            Record::Context { context, device } => self.tracks.context(context, device),
            Record::Other => {}
        }
    }

    /// A call was made that the emitter did not see.
    pub(crate) fn submitted(&mut self, correlation: u32, (tid, at): (Tid, MonoTime)) {
        self.submitted
            .put(correlation, (tid, at.in_trace(self.start)));
    }

    /// An operation ran.
    pub(crate) fn operation(
        &mut self,
        (cat, name): (&str, &str),
        place: Place,
        span: Span,
        correlation: u32,
        more: ArgsRef<'_>,
        sink: &mut dyn EventSink,
    ) {
        let Some(interval) = self.interval(span) else {
            self.counts.unfinished += 1;
            return;
        };
        let first = self.first_operation.get_or_insert(span.0);
        *first = span.0.min(*first);
        let lane = self.tracks.stream(place.device, place.stream, sink);
        let mut args = [("", ValueRef::Bool(false)); 6];
        args[0] = (arg::DEVICE, ValueRef::U64(place.device.into()));
        args[1] = (arg::STREAM, ValueRef::U64(place.stream.into()));
        args[2] = (arg::CORRELATION, ValueRef::U64(correlation.into()));
        let mut used = 3;
        for extra in more {
            args[used] = *extra;
            used += 1;
        }
        sink.push(&EventRef::Slice {
            pid: lane.0,
            tid: lane.1,
            name,
            cat,
            span: interval,
            args: &args[..used],
        });
        match self.submitted.take(correlation) {
            Some(call) => self.arrow(correlation, call, (lane, interval.start), sink),
            None => self.ran.put(correlation, (lane, interval.start)),
        }
    }

    /// Writes a call.
    pub(crate) fn call(&mut self, call: &Call, sink: &mut dyn EventSink) {
        let &Call {
            api,
            callback,
            correlation,
            returned,
            ..
        } = call;
        let Some(interval) = self.interval(call.span) else {
            return;
        };
        let Some(name) = self.calls.name(api, callback) else {
            return;
        };
        self.counts.calls += 1;
        let launches = name.starts_with("cuLaunch") && name.contains("Kernel");
        self.in_window.0 += u64::from(launches && returned == 0);
        let (pid, tid) = self.tracks.thread(Tid(call.thread), sink);
        let error = match returned {
            0 => String::new(),
            code => format!("CUDA error {code}"),
        };
        let args = [
            (arg::CORRELATION, ValueRef::U64(correlation.into())),
            (arg::ERROR, ValueRef::Str(&error)),
        ];
        sink.push(&EventRef::Slice {
            pid,
            tid,
            name,
            cat: match api {
                Api::Driver => cat::CUDA_DRIVER,
                Api::Runtime => cat::CUDA_RUNTIME,
            },
            span: interval,
            args: &args[..if returned == 0 { 1 } else { 2 }],
        });
        let call = (tid, interval.start);
        match self.ran.take(correlation) {
            Some(operation) => self.arrow(correlation, call, operation, sink),
            None => self.submitted.put(correlation, call),
        }
    }

    /// From a call to the operation that it submitted; of a graph, to one of them.
    fn arrow(
        &mut self,
        correlation: u32,
        (tid, called): (Tid, TraceTime),
        (lane, started): (Lane, TraceTime),
        sink: &mut dyn EventSink,
    ) {
        if called <= started {
            sink.push(&EventRef::Flow {
                id: correlation.into(),
                name: cat::AC2G,
                cat: cat::AC2G,
                from: (self.tracks.pid(), tid, called),
                to: (lane.0, lane.1, started),
            });
        }
    }

    fn wait(
        &mut self,
        (what, stream, event): (u32, u32, u32),
        context: u32,
        span: Span,
        correlation: u32,
        sink: &mut dyn EventSink,
    ) {
        let Some(interval) = self.interval(span) else {
            return;
        };
        self.counts.waits += 1;
        let name = names::wait(what);
        let device = self.tracks.device_of(context);
        let of_stream = (stream != NONE).then_some(stream);
        let (pid, tid) = self.tracks.waits(device, of_stream, sink);
        let number = |number: u32| ValueRef::U64(number.into());
        let mut args = Vec::with_capacity(6);
        args.push((arg::DEVICE, number(device)));
        if let Some(stream) = of_stream {
            args.push((arg::STREAM, number(stream)));
        }
        args.push((arg::CORRELATION, number(correlation)));
        args.push((arg::SYNC_KIND, ValueRef::Str(name)));
        if let Some(&(stream, record)) = self.events.get(event).filter(|_| event != NONE) {
            args.push((arg::WAIT_ON_STREAM, number(stream)));
            args.push((arg::WAIT_ON_RECORD, number(record)));
        }
        sink.push(&EventRef::Slice {
            pid,
            tid,
            name,
            cat: cat::CUDA_SYNC,
            span: interval,
            args: &args,
        });
    }

    /// `None` where CUPTI gives no times.
    fn interval(&self, (start, end): Span) -> Option<Interval> {
        let time = |ns| MonoTime::from_nanos(ns).in_trace(self.start);
        (start != 0 && end != 0).then(|| Interval::new(time(start), time(end)))
    }
}

/// Bytes, and what they reached: bytes in a nanosecond are 10^9 bytes in a second.
fn moved(bytes: u64, (start, end): Span) -> [(&'static str, ValueRef<'static>); 2] {
    let length = end.saturating_sub(start).max(1);
    [
        (arg::BYTES, ValueRef::U64(bytes)),
        (arg::BANDWIDTH, ValueRef::F64(bytes as f64 / length as f64)),
    ]
}

#[cfg(test)]
#[path = "emit_tests.rs"]
mod tests;
