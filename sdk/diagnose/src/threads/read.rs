//! The events of the sidecar, as they stand in a trace.

use crate::names::{flag, id, integer, text, value};
use crate::rules::BlockedOn;
use gpustall_trace::vocab::{arg, cat, state, totals};
use gpustall_trace::{
    Instant, Interval, Nanos, Pid, Slice, Symbol, Tid, Trace, TraceTime, TrackId, TrackKind, Value,
};

/// A thread that played a part in what another one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) name: Symbol,
    pub(crate) tid: Option<Tid>,
    pub(crate) pid: Option<Pid>,
}

/// A stretch of a thread off CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Off {
    pub(crate) span: Interval,
    /// From then on it was ready to run.
    pub(crate) ready: TraceTime,
    /// What it waited for before that.
    pub(crate) on: BlockedOn,
    /// Whether it could have run on.
    pub(crate) preempted: bool,
    /// What its name says: the class of the wait, or the state.
    pub(crate) class: Symbol,
    pub(crate) function: Option<Symbol>,
    pub(crate) waker: Option<Other>,
    pub(crate) displaced_by: Option<Other>,
    pub(crate) gave_back: Option<Other>,
    /// Where it left, and where it came back.
    pub(crate) cpu_out: Option<u64>,
    pub(crate) cpu_in: Option<u64>,
    /// Whether an end of it was inferred.
    pub(crate) inferred: bool,
    /// Position of the slice.
    pub(crate) slice: usize,
}

/// A thread that was woken on an idle CPU and runs within this time did not wait for a CPU: so long may an idle
/// one take to begin.
pub const WAKE_UP: Nanos = Nanos::new(1_000_000);

impl Off {
    /// From then on it waited for a CPU. Until an idle one begins, it waits for what it was woken by.
    pub(crate) fn waits_for_cpu(&self) -> TraceTime {
        let woken = !self.preempted && self.ready > self.span.start;
        let idle = self.cpu_in.is_some() && self.gave_back.is_none();
        match woken && idle && self.span.end.since(self.ready) < WAKE_UP {
            true => self.span.end,
            false => self.ready,
        }
    }
}

/// What a running thread ran when it was sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: TraceTime,
    /// `user`, `page fault`, ...
    pub(crate) class: Option<Symbol>,
    /// The function.
    pub(crate) function: Symbol,
    /// Whether it was at work for memory: a page fault, reclaim, or mapping.
    pub(crate) memory: bool,
    /// Whether it was in a library that compiles code for devices.
    pub(crate) compiles: bool,
}

/// A request to a disk that a thread waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) span: Interval,
    pub(crate) bytes: u64,
    pub(crate) disk: Option<Symbol>,
    /// Whether it read.
    pub(crate) reads: bool,
}

/// The totals of a thread; what was not counted is `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    /// The lane of the thread: each thread has one of its own, whatever its id.
    pub(crate) track: TrackId,
    pub(crate) watched: Interval,
    pub(crate) on_cpu: Nanos,
    pub(crate) preempted: Nanos,
    pub(crate) woken: Nanos,
    pub(crate) blocked: Nanos,
    pub(crate) preemptions: u64,
    pub(crate) waits: u64,
    pub(crate) lost: u64,
    pub(crate) lost_ns: Nanos,
    pub(crate) minor_faults: Option<u64>,
    pub(crate) major_faults: Option<u64>,
    pub(crate) page_allocs: Option<u64>,
}

/// The names of one trace that these events use.
pub(crate) struct Kernel {
    off_cpu: Option<Symbol>,
    sample: Option<Symbol>,
    totals: Option<Symbol>,
    memory: [Option<Symbol>; 3],
    block_io: Option<Symbol>,
    thread: Option<Symbol>,
    state: Option<Symbol>,
    wait: Option<Symbol>,
    function: Option<Symbol>,
    runnable_ns: Option<Symbol>,
    running: Option<Symbol>,
    others: [[Option<Symbol>; 3]; 3],
    cpus: [Option<Symbol>; 2],
    iowait: Option<Symbol>,
    inferred: Option<Symbol>,
    bytes: Option<Symbol>,
    disk: Option<Symbol>,
}

/// One event, and the thread that it is about.
pub(crate) enum Event {
    Off(Off),
    /// Reclaim, compaction or migration.
    Memory(Interval),
    Request(Request),
}

impl Kernel {
    /// The names as this trace numbers them.
    pub(crate) fn of(trace: &Trace) -> Self {
        let find = |text: &str| trace.strings.find(text);
        let other = |key: &str| {
            [
                find(key),
                find(&format!("{key}_tid")),
                find(&format!("{key}_pid")),
            ]
        };
        Self {
            off_cpu: find(cat::OFF_CPU),
            sample: find(cat::CPU_SAMPLE),
            totals: find(cat::THREAD_TOTALS),
            memory: [cat::RECLAIM, cat::COMPACTION, cat::MIGRATION].map(find),
            block_io: find(cat::BLOCK_IO),
            thread: find(arg::THREAD),
            state: find(arg::STATE),
            wait: find(arg::WAIT),
            function: find(arg::FUNCTION),
            runnable_ns: find(arg::RUNNABLE_NS),
            running: find(arg::RUNNING),
            others: [arg::WAKER, arg::DISPLACED_BY, arg::GAVE_BACK].map(other),
            cpus: [arg::CPU_IN, arg::CPU_OUT].map(find),
            iowait: find(arg::IOWAIT),
            inferred: find(arg::INFERRED),
            bytes: find(arg::BYTES),
            disk: find(arg::DISK),
        }
    }

    /// Whether the trace has no such events.
    pub(crate) fn is_empty(&self) -> bool {
        let all = [self.off_cpu, self.sample, self.totals, self.block_io];
        all.iter().chain(&self.memory).all(Option::is_none)
    }

    /// The event that a slice is; `span` is what of it lies in the recording.
    pub(crate) fn slice(
        &self,
        trace: &Trace,
        (at, slice): (usize, &Slice),
        span: Interval,
    ) -> Option<(Tid, Event)> {
        let cat = Some(slice.cat);
        let args = &slice.args;
        let told = id(args, self.thread).map(Tid);
        if cat == self.off_cpu {
            return Some((told?, Event::Off(self.off(trace, (at, slice), span))));
        }
        if self.memory.contains(&cat) {
            let thread = told.or_else(|| tid_of(trace, slice.track))?;
            return Some((thread, Event::Memory(span)));
        }
        if cat == self.block_io {
            let request = Request {
                span,
                bytes: integer(args, self.bytes).unwrap_or(0),
                disk: text(args, self.disk),
                reads: trace.text(slice.name) == "read",
            };
            return Some((told?, Event::Request(request)));
        }
        None
    }

    fn off(&self, trace: &Trace, (at, slice): (usize, &Slice), span: Interval) -> Off {
        let args = &slice.args;
        let name = |key| text(args, key).map_or("", |symbol| trace.text(symbol));
        let why = name(self.state);
        let preempted = why == state::PREEMPTED;
        let ready = if preempted || why == state::STARTING {
            span.start
        } else {
            let runnable = integer(args, self.runnable_ns).unwrap_or(0);
            let ready = slice.span.end.as_nanos().saturating_sub(runnable);
            TraceTime::from_nanos(ready).clamp(span.start, span.end)
        };
        let class = name(self.wait);
        let function = text(args, self.function);
        let on = BlockedOn::of(class, name(self.function), flag(args, self.iowait));
        let [waker, displaced_by, gave_back] = self.others.map(|keys| other(args, keys));
        Off {
            span,
            ready,
            on,
            preempted,
            class: text(args, self.wait)
                .or_else(|| text(args, self.state))
                .unwrap_or(slice.name),
            function,
            waker,
            displaced_by,
            gave_back,
            cpu_out: integer(args, self.cpus[1]),
            cpu_in: integer(args, self.cpus[0]),
            inferred: flag(args, self.inferred),
            slice: at,
        }
    }

    /// The sample that an instant is.
    pub(crate) fn sample(&self, trace: &Trace, instant: &Instant) -> Option<(Tid, Sample)> {
        if self.sample.is_none() || Some(instant.cat) != self.sample {
            return None;
        }
        let args = &instant.args;
        let class = text(args, self.running);
        let function = text(args, self.function).unwrap_or(instant.name);
        let memory = class.is_some_and(|class| match trace.text(class) {
            "page fault" | "reclaim" => true,
            "system" => allocates(trace.text(function)),
            _ => false,
        });
        let compiles = class.is_some_and(|class| trace.text(class) == "device compiler");
        let sample = Sample {
            at: instant.at,
            class,
            function,
            memory,
            compiles,
        };
        Some((Tid(id(args, self.thread)?), sample))
    }

    /// The totals that an instant holds.
    pub(crate) fn totals(&self, trace: &Trace, instant: &Instant) -> Option<(Tid, Totals)> {
        if self.totals.is_none() || Some(instant.cat) != self.totals {
            return None;
        }
        let args = &instant.args;
        // There is one such instant for each thread: looking names up is no matter.
        let count = |key: &str| integer(args, trace.strings.find(key));
        let ns = |key: &str| Nanos::new(count(key).unwrap_or(0));
        let first = TraceTime::from_nanos(count(totals::FIRST_NS).unwrap_or(u64::MAX));
        let totals = Totals {
            track: instant.track,
            watched: Interval::new(first.min(instant.at), instant.at),
            on_cpu: ns(totals::ON_CPU_NS),
            preempted: ns(totals::PREEMPTED_NS),
            woken: ns(totals::WOKEN_NS),
            blocked: ns(totals::SLEEPING_NS)
                + ns(totals::UNINTERRUPTIBLE_NS)
                + ns(totals::STOPPED_NS),
            preemptions: count(totals::PREEMPTIONS).unwrap_or(0),
            waits: count(totals::WAITS).unwrap_or(0),
            lost: count(totals::LOST).unwrap_or(0),
            lost_ns: ns(totals::LOST_NS),
            minor_faults: count(totals::MINOR_FAULTS),
            major_faults: count(totals::MAJOR_FAULTS),
            page_allocs: count(totals::PAGE_ALLOCS),
        };
        Some((Tid(id(args, self.thread)?), totals))
    }
}

/// Whether a function of the kernel is a system call that maps memory or gives it back.
fn allocates(function: &str) -> bool {
    const CALLS: [&str; 5] = [
        "sys_mmap",
        "sys_munmap",
        "sys_mremap",
        "sys_madvise",
        "sys_brk",
    ];
    CALLS.iter().any(|call| function.ends_with(call))
}

/// The OS thread behind a track.
pub(crate) fn tid_of(trace: &Trace, track: TrackId) -> Option<Tid> {
    let track = trace.track(track)?;
    (track.kind == TrackKind::Thread).then_some(track.tid)
}

fn other(args: &[(Symbol, Value)], [name, tid, pid]: [Option<Symbol>; 3]) -> Option<Other> {
    match value(args, name)? {
        Value::Str(name) => Some(Other {
            name,
            tid: id(args, tid).map(Tid),
            pid: id(args, pid).map(Pid),
        }),
        _ => None,
    }
}
