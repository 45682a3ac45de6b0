//! A recording as a [`Trace`].

mod conversion;
mod cuda;
mod disk;
mod faults;
mod host;
mod memory;

pub(crate) use conversion::Conversion;

use crate::recording::{CpuSample, OffCpuInterval, Other, Recording, ThreadRecord, WaitId, Waker};
use gpustall_trace::vocab::{arg, cat, totals, waker};
use gpustall_trace::{
    Arg, Instant, Interval, Meta, MonotonicClock, Pid, Slice, State, Strings, Symbol, Tid, Trace,
    TrackId, TrackKind, Value,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// First thread id of the lanes beside the threads. Linux never gives one that large.
const FIRST_LANE: u32 = 0xD000_0000;

impl Recording {
    /// The recording as a trace called `name`, of the process `pid`: for each thread its track and
    /// beside it a lane with its intervals off CPU ([`cat::OFF_CPU`]), which ends in its totals
    /// ([`cat::THREAD_TOTALS`]). Calls of the CUDA driver ([`cat::CUDA_DRIVER`]) are on the
    /// track of the thread itself.
    pub fn to_trace(&self, name: &str, pid: Pid) -> Trace {
        let mut conversion = Conversion::default();
        conversion.add(self);
        let mut trace = conversion.trace;
        trace.meta = self.meta(name, pid);
        trace.sort();
        trace
    }

    pub(crate) fn meta(&self, name: &str, pid: Pid) -> Meta {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos() as u64;
        let elapsed = MonotonicClock::read().in_trace(self.start);
        Meta {
            name: name.to_owned(),
            recorder: format!("gpustall-sidecar {}", env!("CARGO_PKG_VERSION")),
            start_mono: self.start,
            start_unix_ns: now.saturating_sub(elapsed.as_nanos()),
            end: self.end,
            pid,
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            state: State::Finished,
            devices: Vec::new(),
            notes: self.notes.clone(),
            ..Meta::default()
        }
    }
}

struct Builder<'a> {
    conversion: &'a mut Conversion,
    recording: &'a Recording,
    /// Text of each stack that occurred, by its wait.
    stacks: HashMap<WaitId, Symbol>,
}

/// The tracks of one thread.
#[derive(Debug, Clone, Copy)]
struct Tracks {
    /// The thread itself.
    thread: TrackId,
    /// The lane beside it.
    lane: TrackId,
}

/// Arguments of one event.
struct ArgList<'a> {
    strings: &'a mut Strings,
    list: Vec<Arg>,
}

impl<'a> ArgList<'a> {
    fn new(strings: &'a mut Strings) -> Self {
        Self {
            strings,
            list: Vec::with_capacity(16),
        }
    }

    fn push(&mut self, key: &str, value: Value) {
        let key = self.strings.intern(key);
        self.list.push((key, value));
    }

    fn number(&mut self, key: &str, value: impl Into<u64>) {
        self.push(key, Value::U64(value.into()));
    }

    fn text(&mut self, key: &str, text: &str) {
        let text = self.strings.intern(text);
        self.push(key, Value::Str(text));
    }

    /// Name and ids of another thread; nothing for the idle thread.
    fn other(&mut self, key: &str, other: &Other) {
        if other.is_idle() {
            return;
        }
        self.text(key, &other.name);
        if other.has_ids {
            self.number(&format!("{key}_tid"), other.tid.0);
            self.number(&format!("{key}_pid"), other.pid.0);
        }
    }
}

impl Builder<'_> {
    /// Processes are named by their first thread.
    fn processes(&mut self) {
        let mut names: BTreeMap<Pid, (&str, bool)> = BTreeMap::new();
        for thread in &self.recording.threads {
            let first = thread.pid.0 == thread.tid.0;
            let known = names.entry(thread.pid).or_insert((&thread.name, first));
            if first {
                *known = (&thread.name, true);
            }
        }
        for (pid, (name, first)) in names {
            if first || !self.conversion.has_process(pid) {
                self.conversion.process(pid, name);
            }
        }
    }

    /// The track of a thread and the lane beside it.
    fn tracks(&mut self, thread: &ThreadRecord) -> Tracks {
        let &ThreadRecord {
            number, pid, tid, ..
        } = thread;
        let sort = 2 * number as i32;
        let lane_name = format!("{} off CPU", thread.name);
        // An id that was given to a second thread has one track for both.
        let conversion = &mut *self.conversion;
        let lane = (pid, Tid(FIRST_LANE + number));
        Tracks {
            thread: conversion.track((pid, tid), &thread.name, sort, TrackKind::Thread),
            lane: conversion.track(lane, &lane_name, sort + 1, TrackKind::Synthetic),
        }
    }

    fn off_cpu(&mut self, lane: TrackId, interval: &OffCpuInterval) {
        let recording = self.recording;
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        let thread = &recording.threads[interval.thread as usize];
        args.number(arg::THREAD, thread.tid.0);
        args.text(arg::STATE, interval.why.name());
        args.number(arg::RUNNABLE_NS, interval.runnable().get());
        args.number(arg::MINOR_FAULTS, interval.faults.minor);
        args.number(arg::MAJOR_FAULTS, interval.faults.major);
        let mut name = interval.why.name();
        if let Some(id) = interval.wait {
            let wait = recording.wait(id);
            name = wait.class.name();
            args.text(arg::WAIT, name);
            args.text(arg::FUNCTION, &wait.function);
            let stack = self.stacks.entry(id);
            let stack = *stack.or_insert_with(|| args.strings.intern(&wait.stack.join(";")));
            args.push(arg::STACK, Value::Str(stack));
        }
        match interval.waker {
            Waker::None => {}
            Waker::Thread(id) => args.other(arg::WAKER, recording.other(id)),
            Waker::Timer => args.text(arg::WAKER, waker::TIMER),
            Waker::Device => args.text(arg::WAKER, waker::DEVICE),
            Waker::Kernel => args.text(arg::WAKER, waker::KERNEL),
        }
        for (key, id) in [
            (arg::DISPLACED_BY, interval.taker),
            (arg::GAVE_BACK, interval.giver),
        ] {
            if let Some(id) = id {
                args.other(key, recording.other(id));
            }
        }
        for (key, cpu) in [
            (arg::CPU_OUT, interval.cpu_out),
            (arg::CPU_IN, interval.cpu_in),
        ] {
            if let Some(cpu) = cpu {
                args.number(key, cpu);
            }
        }
        for (key, set) in [
            (arg::IOWAIT, interval.iowait),
            (arg::TRUNCATED, interval.truncated),
            (arg::INFERRED, interval.inferred),
            (arg::UNFINISHED, interval.unfinished),
        ] {
            if set {
                args.push(key, Value::Bool(true));
            }
        }
        let slice = Slice {
            track: lane,
            name: args.strings.intern(name),
            cat: args.strings.intern(cat::OFF_CPU),
            span: Interval::new(interval.out, interval.back),
            args: args.list.into(),
        };
        self.conversion.trace.slices.push(slice);
    }

    fn sample(&mut self, lane: TrackId, sample: &CpuSample) {
        let recording = self.recording;
        let run = recording.run(sample.run);
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        let thread = &recording.threads[sample.thread as usize];
        args.number(arg::THREAD, thread.tid.0);
        args.text(arg::RUNNING, run.class.name());
        args.text(arg::FUNCTION, &run.function);
        for (key, stack) in [(arg::STACK, &run.kernel), (arg::USER_STACK, &run.user)] {
            if !stack.is_empty() {
                args.text(key, &stack.join(";"));
            }
        }
        args.number(arg::CPU, sample.cpu);
        let instant = Instant {
            track: lane,
            name: args.strings.intern(&run.function),
            cat: args.strings.intern(cat::CPU_SAMPLE),
            at: sample.at,
            args: args.list.into(),
        };
        self.conversion.trace.instants.push(instant);
    }

    fn totals(&mut self, lane: TrackId, thread: &ThreadRecord) {
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        let t = &thread.totals;
        args.number(arg::THREAD, thread.tid.0);
        for (key, value) in [
            (totals::FIRST_NS, thread.first.as_nanos()),
            (totals::ON_CPU_NS, t.on_cpu.get()),
            (totals::PREEMPTED_NS, t.preempted.get()),
            (totals::WOKEN_NS, t.woken.get()),
            (totals::SLEEPING_NS, t.sleeping.get()),
            (totals::UNINTERRUPTIBLE_NS, t.uninterruptible.get()),
            (totals::STOPPED_NS, t.stopped.get()),
            (totals::IOWAIT_NS, t.iowait.get()),
            (totals::PREEMPTIONS, t.preemptions),
            (totals::WAITS, t.waits),
            (totals::SHORT, t.short_count),
            (totals::SHORT_NS, t.short.get()),
            (totals::LOST, t.lost_count),
            (totals::LOST_NS, t.lost.get()),
            (totals::MINOR_FAULTS, t.faults.minor),
            (totals::MAJOR_FAULTS, t.faults.major),
        ] {
            args.number(key, value);
        }
        if let Some(pages) = t.page_allocs {
            args.number(totals::PAGE_ALLOCS, pages);
        }
        let instant = Instant {
            track: lane,
            name: args.strings.intern("thread totals"),
            cat: args.strings.intern(cat::THREAD_TOTALS),
            at: thread.last,
            args: args.list.into(),
        };
        self.conversion.trace.instants.push(instant);
    }
}

#[cfg(test)]
#[path = "to_trace_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
mod evidence_tests;
