//! What the sidecar records, for the builder, times in its units.

use super::{Builder, PID, V};
use gpustall_trace::vocab::{arg, cat, host, state, totals};
use gpustall_trace::{
    CounterSample, CounterSeries, Instant, Pid, TraceTime, TrackId, TrackKind, Value,
};

/// A stretch off CPU.
#[derive(Debug, Clone, Copy)]
pub struct Off<'a> {
    pub state: &'a str,
    /// The last part, in which it waited for a CPU.
    pub runnable: u64,
    /// Class and function of the wait.
    pub wait: Option<(&'a str, &'a str)>,
    /// Who woke it: name, thread, process.
    pub waker: Option<(&'a str, u32, u32)>,
    /// Who took the CPU, and who had it until the thread came back.
    pub taker: Option<(&'a str, u32)>,
    pub giver: Option<(&'a str, u32)>,
    /// The process of these two, where it is known.
    pub process: Option<u32>,
    pub iowait: bool,
}

/// Preempted by another thread, which also gave the CPU back.
pub fn preempted<'a>(by: &'a str, tid: u32) -> Off<'a> {
    Off {
        state: state::PREEMPTED,
        taker: Some((by, tid)),
        giver: Some((by, tid)),
        ..blocked("", "")
    }
}

/// Blocked in a wait of this class, in this function.
pub fn blocked<'a>(class: &'a str, function: &'a str) -> Off<'a> {
    Off {
        state: state::SLEEPING,
        runnable: 0,
        wait: (!class.is_empty()).then_some((class, function)),
        waker: None,
        taker: None,
        giver: None,
        process: None,
        iowait: false,
    }
}

impl<'a> Off<'a> {
    pub fn woken_by(self, name: &'a str, tid: u32) -> Self {
        let waker = Some((name, tid, PID.0));
        Self { waker, ..self }
    }

    /// Who took the CPU and gave it back is a thread of this process.
    pub fn of_process(self, pid: u32) -> Self {
        let process = Some(pid);
        Self { process, ..self }
    }

    pub fn then_runnable(self, runnable: u64, giver: &'a str, tid: u32) -> Self {
        Self {
            runnable,
            giver: Some((giver, tid)),
            ..self
        }
    }
}

impl Builder {
    /// The lane beside a thread.
    pub fn lane(&mut self, tid: u32) -> TrackId {
        let at = self
            .trace
            .tracks
            .iter()
            .position(|track| track.tid.0 == LANES + tid);
        match at {
            Some(at) => TrackId(at as u32),
            None => self.track(PID, LANES + tid, "off CPU", TrackKind::Synthetic),
        }
    }

    /// It comes back on CPU 0, and where it left is not said.
    pub fn off(&mut self, tid: u32, off: Off<'_>, span: (u64, u64)) {
        self.interval(tid, off, span, &[(arg::CPU_IN, 0)]);
    }

    /// It leaves the first CPU and comes back on the second one.
    pub fn off_on(&mut self, tid: u32, off: Off<'_>, span: (u64, u64), (out, back): (u64, u64)) {
        let cpus = [(arg::CPU_OUT, out), (arg::CPU_IN, back)];
        self.interval(tid, off, span, &cpus);
    }

    fn interval(&mut self, tid: u32, off: Off<'_>, span: (u64, u64), cpus: &[(&str, u64)]) {
        let unit = self.unit;
        let lane = self.lane(tid);
        let runnable = match off.state {
            state::PREEMPTED | state::STARTING => (span.1 - span.0) * unit,
            _ => off.runnable * unit,
        };
        let mut args = vec![
            (arg::THREAD, V::N(u64::from(tid))),
            (arg::STATE, V::S(off.state)),
            (arg::RUNNABLE_NS, V::N(runnable)),
        ];
        args.extend(cpus.iter().map(|&(key, cpu)| (key, V::N(cpu))));
        if let Some((class, function)) = off.wait {
            args.push((arg::WAIT, V::S(class)));
            args.push((arg::FUNCTION, V::S(function)));
        }
        if let Some((name, tid, pid)) = off.waker {
            args.push((arg::WAKER, V::S(name)));
            args.push(("waker_tid", V::N(u64::from(tid))));
            args.push(("waker_pid", V::N(u64::from(pid))));
        }
        for (key, tid_key, pid_key, who) in [
            (
                arg::DISPLACED_BY,
                "displaced_by_tid",
                "displaced_by_pid",
                off.taker,
            ),
            (arg::GAVE_BACK, "gave_back_tid", "gave_back_pid", off.giver),
        ] {
            if let Some((name, tid)) = who {
                args.push((key, V::S(name)));
                args.push((tid_key, V::N(u64::from(tid))));
                args.extend(off.process.map(|pid| (pid_key, V::N(u64::from(pid)))));
            }
        }
        if off.iowait {
            args.push((arg::IOWAIT, V::B(true)));
        }
        let name = off.wait.map_or(off.state, |(class, _)| class);
        self.slice(lane, cat::OFF_CPU, name, span, &args);
    }

    /// The totals of a thread that was watched in `span`; more counts in nanoseconds.
    pub fn watch(&mut self, tid: u32, span: (u64, u64), more: &[(&str, u64)]) {
        let mut args = vec![
            (arg::THREAD, u64::from(tid)),
            (totals::FIRST_NS, span.0 * self.unit),
        ];
        args.extend(more);
        self.moment(tid, cat::THREAD_TOTALS, "thread totals", span.1, &args, &[]);
    }

    pub fn sample(&mut self, tid: u32, running: &str, function: &str, at: u64) {
        let args = [(arg::THREAD, u64::from(tid)), (arg::CPU, 0)];
        let texts = [(arg::RUNNING, running), (arg::FUNCTION, function)];
        self.moment(tid, cat::CPU_SAMPLE, function, at, &args, &texts);
    }

    fn moment(
        &mut self,
        tid: u32,
        cat: &str,
        name: &str,
        at: u64,
        numbers: &[(&str, u64)],
        texts: &[(&str, &str)],
    ) {
        let track = self.lane(tid);
        let at = TraceTime::from_nanos(at * self.unit);
        let strings = &mut self.trace.strings;
        let mut args = Vec::new();
        for &(key, n) in numbers {
            args.push((strings.intern(key), Value::U64(n)));
        }
        for &(key, text) in texts {
            let text = strings.intern(text);
            args.push((strings.intern(key), Value::Str(text)));
        }
        let (cat, name) = (strings.intern(cat), strings.intern(name));
        self.trace.instants.push(Instant {
            track,
            name,
            cat,
            at,
            args: args.into(),
        });
    }

    pub fn request(&mut self, tid: u32, bytes: u64, span: (u64, u64)) {
        let lane = self.track(PID, LANES + 1000 + tid, "I/O", TrackKind::Synthetic);
        let args = [
            (arg::THREAD, V::N(u64::from(tid))),
            (arg::BYTES, V::N(bytes)),
            (arg::DISK, V::S("vda")),
        ];
        self.slice(lane, cat::BLOCK_IO, "read", span, &args);
    }

    /// Counters of the machine: one for each CPU, and how many were busy.
    pub fn machine(&mut self, cpus: u32, samples: &[(u64, f64)]) {
        let pid = Pid(host::PID);
        for cpu in 0..cpus {
            let name = format!("{} {cpu}", host::CPU_BUSY);
            let name = self.trace.strings.intern(&name);
            self.trace.counter_series.push(CounterSeries { pid, name });
        }
        let name = self.trace.strings.intern(host::CPUS_BUSY);
        let series = self.trace.counter_series.len() as u32;
        self.trace.counter_series.push(CounterSeries { pid, name });
        for &(at, value) in samples {
            let at = TraceTime::from_nanos(at * self.unit);
            self.trace
                .counters
                .push(CounterSample { series, at, value });
        }
    }
}

const LANES: u32 = 0xD000_0000;
