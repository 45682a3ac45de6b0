//! A recording as a [`Trace`].

mod cuda;

use crate::recording::{CpuSample, OffCpuInterval, Other, Recording, ThreadRecord, WaitId, Waker};
use gpustall_trace::vocab::{arg, cat, totals};
use gpustall_trace::{
    Arg, Instant, Interval, Loss, Meta, MonotonicClock, Pid, Process, Slice, State, Strings,
    Symbol, Tid, Trace, Track, TrackId, TrackKind, Value,
};
use std::collections::hash_map::Entry;
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
        let mut builder = Builder {
            recording: self,
            trace: Trace {
                meta: self.meta(name, pid),
                ..Trace::default()
            },
            known: HashMap::new(),
            stacks: HashMap::new(),
        };
        builder.processes();
        let lanes: Vec<TrackId> = (0..self.threads.len()).map(|n| builder.tracks(n)).collect();
        for interval in &self.intervals {
            builder.off_cpu(lanes[interval.thread as usize], interval);
        }
        for sample in &self.samples {
            builder.sample(lanes[sample.thread as usize], sample);
        }
        for call in &self.cuda_calls {
            let thread = &self.threads[call.thread as usize];
            let track = builder.known[&(thread.pid, thread.tid)];
            builder.cuda_call(track, call);
        }
        for (thread, lane) in self.threads.iter().zip(lanes) {
            builder.totals(lane, thread);
        }
        for &(at, source, total) in &self.losses {
            let source = builder.trace.strings.intern(source);
            builder.trace.losses.push(Loss { source, at, total });
        }
        builder.trace.sort();
        builder.trace
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

struct Builder<'a> {
    recording: &'a Recording,
    trace: Trace,
    /// Tracks by their ids: an id that was given to a second thread has one track for both.
    known: HashMap<(Pid, Tid), TrackId>,
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
        if !other.is_idle() {
            self.text(key, &other.name);
            self.number(&format!("{key}_tid"), other.tid.0);
            self.number(&format!("{key}_pid"), other.pid.0);
        }
    }
}

impl Builder<'_> {
    /// Processes are named by their first thread.
    fn processes(&mut self) {
        let mut names: BTreeMap<Pid, &str> = BTreeMap::new();
        for thread in &self.recording.threads {
            let name = names.entry(thread.pid).or_insert(&thread.name);
            if thread.pid.0 == thread.tid.0 {
                *name = &thread.name;
            }
        }
        for (sort, (pid, name)) in names.into_iter().enumerate() {
            let name = self.trace.strings.intern(name);
            let sort = sort as i32;
            self.trace.processes.push(Process { pid, name, sort });
        }
    }

    /// The track of thread number `n` and the lane beside it; returns the lane.
    fn tracks(&mut self, n: usize) -> TrackId {
        let thread = &self.recording.threads[n];
        let lane_name = format!("{} off CPU", thread.name);
        let (lane_tid, sort) = (Tid(FIRST_LANE + n as u32), 2 * n as i32);
        for (tid, name, sort, kind) in [
            (thread.tid, &thread.name, sort, TrackKind::Thread),
            (lane_tid, &lane_name, sort + 1, TrackKind::Synthetic),
        ] {
            let pid = thread.pid;
            if let Entry::Vacant(place) = self.known.entry((pid, tid)) {
                place.insert(TrackId(self.trace.tracks.len() as u32));
                let name = self.trace.strings.intern(name);
                let track = Track {
                    pid,
                    tid,
                    name,
                    sort,
                    kind,
                };
                self.trace.tracks.push(track);
            }
        }
        TrackId(self.trace.tracks.len() as u32 - 1)
    }

    fn off_cpu(&mut self, lane: TrackId, interval: &OffCpuInterval) {
        let recording = self.recording;
        let mut args = ArgList {
            strings: &mut self.trace.strings,
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
        self.trace.slices.push(slice);
    }

    fn sample(&mut self, lane: TrackId, sample: &CpuSample) {
        let recording = self.recording;
        let run = recording.run(sample.run);
        let mut args = ArgList {
            strings: &mut self.trace.strings,
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
        self.trace.instants.push(instant);
    }

    fn totals(&mut self, lane: TrackId, thread: &ThreadRecord) {
        let mut args = ArgList {
            strings: &mut self.trace.strings,
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
        self.trace.instants.push(instant);
    }
}

#[cfg(test)]
#[path = "to_trace_tests.rs"]
mod tests;
