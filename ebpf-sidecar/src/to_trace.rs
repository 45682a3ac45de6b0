//! A recording as a [`Trace`].

use crate::recording::{CpuSample, OffCpuInterval, Other, Recording, ThreadRecord, WaitId, Waker};
use gpustall_protocol::Introduced;
use gpustall_trace::vocab::{arg, cat, totals};
use gpustall_trace::{
    Arg, Instant, Interval, Loss, Meta, MonotonicClock, Pid, Process, Slice, State, Strings,
    Symbol, Tid, Trace, Track, TrackId, TrackKind, Value,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// First thread id of the lanes beside the threads. Linux never gives one that large.
const FIRST_LANE: u32 = 0xD000_0000;

impl Recording {
    /// The recording as a trace called `name`, of the process `pid`: for each thread its track and
    /// beside it a lane with its intervals off CPU ([`cat::OFF_CPU`]), which ends in its totals
    /// ([`cat::THREAD_TOTALS`]).
    pub fn to_trace(&self, name: &str, pid: Pid) -> Trace {
        let mut conversion = Conversion::default();
        conversion.add(self);
        let mut trace = conversion.trace;
        trace.meta = self.meta(name, pid);
        trace.sort();
        trace
    }

    fn meta(&self, name: &str, pid: Pid) -> Meta {
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
        }
    }
}

/// Makes a trace of a recording that comes in parts.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    /// What was made. Events may be taken out of it between two parts; processes, tracks and
    /// strings must stay.
    pub(crate) trace: Trace,
    /// Positions of processes and tracks that are new, or have another name, since they were taken
    /// out of here.
    pub(crate) introduced: Introduced,
    processes: HashMap<Pid, usize>,
    tracks: HashMap<(Pid, Tid), TrackId>,
}

impl Conversion {
    /// Adds the next part.
    pub(crate) fn add(&mut self, recording: &Recording) {
        let mut builder = Builder {
            conversion: self,
            recording,
            stacks: HashMap::new(),
        };
        builder.processes();
        let threads = recording.threads.iter();
        let lanes: Vec<TrackId> = threads.map(|thread| builder.tracks(thread)).collect();
        for interval in &recording.intervals {
            builder.off_cpu(lanes[interval.thread as usize], interval);
        }
        for sample in &recording.samples {
            builder.sample(lanes[sample.thread as usize], sample);
        }
        for (thread, lane) in recording.threads.iter().zip(lanes) {
            if thread.ended || recording.finished {
                builder.totals(lane, thread);
            }
        }
        let trace = &mut self.trace;
        for &(at, source, total) in &recording.losses {
            let source = trace.strings.intern(source);
            trace.losses.push(Loss { source, at, total });
        }
    }

    /// Holds each string again that processes and tracks use, and no other. Events must have been
    /// taken out before.
    pub(crate) fn forget_strings(&mut self) {
        let old = std::mem::take(&mut self.trace.strings);
        let Trace {
            strings,
            processes,
            tracks,
            ..
        } = &mut self.trace;
        let names = processes.iter_mut().map(|p| &mut p.name);
        for name in names.chain(tracks.iter_mut().map(|t| &mut t.name)) {
            *name = strings.intern(old.get(*name));
        }
    }

    fn process(&mut self, pid: Pid, name: &str) {
        let name = self.trace.strings.intern(name);
        let all = &mut self.trace.processes;
        let position = *self.processes.entry(pid).or_insert(all.len());
        match all.get_mut(position) {
            Some(known) if known.name == name => return,
            Some(known) => known.name = name,
            None => {
                let sort = position as i32;
                all.push(Process { pid, name, sort });
            }
        }
        self.introduced.processes.insert(position);
    }

    fn track(&mut self, place: (Pid, Tid), name: &str, sort: i32, kind: TrackKind) -> TrackId {
        let name = self.trace.strings.intern(name);
        let all = &mut self.trace.tracks;
        let next = TrackId(all.len() as u32);
        let id = *self.tracks.entry(place).or_insert(next);
        match all.get_mut(id.index()) {
            Some(known) if known.name == name => return id,
            Some(known) => known.name = name,
            None => all.push(Track {
                pid: place.0,
                tid: place.1,
                name,
                sort,
                kind,
            }),
        }
        self.introduced.tracks.insert(id);
        id
    }
}

struct Builder<'a> {
    conversion: &'a mut Conversion,
    recording: &'a Recording,
    /// Text of each stack that occurred, by its wait.
    stacks: HashMap<WaitId, Symbol>,
}

/// Arguments of one event.
struct ArgList<'a> {
    strings: &'a mut Strings,
    list: Vec<Arg>,
}

impl ArgList<'_> {
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
            if first || !self.conversion.processes.contains_key(&pid) {
                self.conversion.process(pid, name);
            }
        }
    }

    /// The track of a thread and the lane beside it; returns the lane.
    fn tracks(&mut self, thread: &ThreadRecord) -> TrackId {
        let &ThreadRecord {
            number, pid, tid, ..
        } = thread;
        let sort = 2 * number as i32;
        let lane_name = format!("{} off CPU", thread.name);
        // An id that was given to a second thread has one track for both.
        let conversion = &mut *self.conversion;
        conversion.track((pid, tid), &thread.name, sort, TrackKind::Thread);
        let lane = (pid, Tid(FIRST_LANE + number));
        conversion.track(lane, &lane_name, sort + 1, TrackKind::Synthetic)
    }

    fn off_cpu(&mut self, lane: TrackId, interval: &OffCpuInterval) {
        let recording = self.recording;
        let mut args = ArgList {
            strings: &mut self.conversion.trace.strings,
            list: Vec::with_capacity(16),
        };
        let thread = &recording.threads[interval.thread as usize];
        args.number(arg::THREAD, thread.tid.0);
        args.text(arg::STATE, interval.why.name());
        args.number(arg::RUNNABLE_NS, interval.runnable().get());
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
            Waker::Timer => args.text(arg::WAKER, "timer"),
            Waker::Device => args.text(arg::WAKER, "device"),
            Waker::Kernel => args.text(arg::WAKER, "kernel"),
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
        let mut args = ArgList {
            strings: &mut self.conversion.trace.strings,
            list: Vec::with_capacity(6),
        };
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
        let mut args = ArgList {
            strings: &mut self.conversion.trace.strings,
            list: Vec::with_capacity(16),
        };
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
        ] {
            args.number(key, value);
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
mod tests;
