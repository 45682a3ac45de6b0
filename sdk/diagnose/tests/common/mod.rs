//! Builds small traces, times in microseconds unless the builder is told otherwise.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test file uses its part of the builder"
)]

pub mod device;
pub mod device_step;
pub mod kernel;
pub mod planted;
pub mod pytorch;
pub mod pytorch_steps;
pub mod ranks;

use gpustall_trace::vocab::{arg, cat, kind};
use gpustall_trace::{
    CounterSample, CounterSeries, Instant, Interval, Loss, Pid, Process, Slice, State, Tid, Trace,
    TraceTime, Track, TrackId, TrackKind, Value,
};

pub const PID: Pid = Pid(100);

/// A value of an argument.
#[derive(Clone, Copy)]
pub enum V<'a> {
    N(u64),
    S(&'a str),
    B(bool),
}

/// A trace in the making.
pub struct Builder {
    pub trace: Trace,
    pub steps: TrackId,
    /// Nanoseconds of one unit of time.
    pub unit: u64,
}

impl Builder {
    fn at(&self, at: u64) -> TraceTime {
        TraceTime::from_nanos(at * self.unit)
    }

    pub fn new() -> Self {
        let mut trace = Trace::default();
        trace.meta.name = "mlp".into();
        trace.meta.pid = PID;
        trace.meta.cpus = 8;
        trace.meta.state = State::Finished;
        let name = trace.strings.intern("trainer");
        trace.processes.push(Process {
            pid: PID,
            name,
            sort: 0,
        });
        let mut builder = Self {
            trace,
            steps: TrackId(0),
            unit: 1000,
        };
        builder.steps = builder.track(Pid(Pid::SYNTHETIC), 1, "steps", TrackKind::Synthetic);
        builder
    }

    pub fn track(&mut self, pid: Pid, tid: u32, name: &str, kind: TrackKind) -> TrackId {
        let name = self.trace.strings.intern(name);
        self.trace.tracks.push(Track {
            pid,
            tid: Tid(tid),
            name,
            sort: 0,
            kind,
        });
        TrackId(self.trace.tracks.len() as u32 - 1)
    }

    pub fn thread(&mut self, tid: u32, name: &str) -> TrackId {
        self.track(PID, tid, name, TrackKind::Thread)
    }

    /// A slice, `start` and `end` in microseconds.
    pub fn slice(
        &mut self,
        track: TrackId,
        cat: &str,
        name: &str,
        (start, end): (u64, u64),
        args: &[(&str, V<'_>)],
    ) {
        let span = Interval::new(self.at(start), self.at(end));
        let strings = &mut self.trace.strings;
        let args = args
            .iter()
            .map(|&(key, value)| {
                let value = match value {
                    V::N(n) => Value::U64(n),
                    V::S(text) => Value::Str(strings.intern(text)),
                    V::B(b) => Value::Bool(b),
                };
                (strings.intern(key), value)
            })
            .collect();
        let (cat, name) = (strings.intern(cat), strings.intern(name));
        self.trace.slices.push(Slice {
            track,
            name,
            cat,
            span,
            args,
        });
    }

    pub fn step(&mut self, loader: &str, epoch: u64, step: u64, thread: u32, span: (u64, u64)) {
        let args = [
            (arg::LOADER, V::S(loader)),
            (arg::KIND, V::S(kind::TRAIN)),
            (arg::EPOCH, V::N(epoch)),
            (arg::STEP, V::N(step)),
            (arg::THREAD, V::N(u64::from(thread))),
        ];
        self.slice(self.steps, cat::STEP, "step", span, &args);
    }

    pub fn wait(
        &mut self,
        track: TrackId,
        loader: &str,
        (epoch, step): (u64, u64),
        batch: Option<(u64, u32)>,
        span: (u64, u64),
    ) {
        let mut args = vec![
            (arg::LOADER, V::S(loader)),
            (arg::KIND, V::S(kind::TRAIN)),
            (arg::EPOCH, V::N(epoch)),
            (arg::STEP, V::N(step)),
        ];
        if let Some((batch, worker)) = batch {
            args.push((arg::BATCH, V::N(batch)));
            args.push((arg::WORKER, V::N(u64::from(worker))));
        }
        self.slice(track, cat::DATA_WAIT, "data wait", span, &args);
    }

    /// A `data_get` or `data_collate` slice; `cpu` in microseconds.
    pub fn stage(
        &mut self,
        track: TrackId,
        cat: &str,
        batch: u64,
        cpu: Option<u64>,
        span: (u64, u64),
    ) {
        let mut args = vec![(arg::BATCH, V::N(batch)), (arg::ITEMS, V::N(64))];
        if let Some(cpu) = cpu {
            args.push((arg::CPU_NS, V::N(cpu * 1000)));
        }
        self.slice(track, cat, cat, span, &args);
    }

    pub fn phase(&mut self, track: TrackId, name: &str, span: (u64, u64)) {
        self.slice(track, cat::PHASE, name, span, &[]);
    }

    pub fn fault(&mut self, track: TrackId, at: u64, message: &str) {
        let at = self.at(at);
        let strings = &mut self.trace.strings;
        let args = [(
            strings.intern(arg::MESSAGE),
            Value::Str(strings.intern(message)),
        )];
        let (cat, name) = (
            strings.intern(cat::FAULT),
            strings.intern("worker panicked"),
        );
        self.trace.instants.push(Instant {
            track,
            name,
            cat,
            at,
            args: args.into(),
        });
    }

    pub fn counter(&mut self, name: &str, samples: &[(u64, f64)]) {
        let name = self.trace.strings.intern(name);
        let series = self.trace.counter_series.len() as u32;
        self.trace
            .counter_series
            .push(CounterSeries { pid: PID, name });
        for &(at, value) in samples {
            let at = self.at(at);
            self.trace
                .counters
                .push(CounterSample { series, at, value });
        }
    }

    pub fn lose(&mut self, source: &str, at: u64, total: u64) {
        let source = self.trace.strings.intern(source);
        let at = self.at(at);
        self.trace.losses.push(Loss { source, at, total });
    }

    /// The trace, ending at `end` microseconds.
    pub fn build(mut self, end: u64) -> Trace {
        self.trace.meta.end = self.at(end);
        self.trace.sort();
        self.trace
    }
}

/// A run with two workers: `steps` steps of 10 ms, of which `wait` microseconds are wait and the
/// rest compute; a batch takes `get` + 1 ms to make and is taken 100 us after it is made.
pub fn with_workers(steps: u64, wait: u64, get: u64) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let workers = [b.thread(101, "dataloader-0"), b.thread(102, "dataloader-1")];
    for step in 0..steps {
        let start = 100_000 + step * 10_000;
        let tid = 101 + (step % 2) as u32;
        let worker = workers[(step % 2) as usize];
        b.step("train", 0, step, 100, (start, start + 10_000));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, tid)),
            (start, start + wait),
        );
        let made = start + wait - 100;
        b.stage(
            worker,
            cat::DATA_GET,
            step,
            Some(get / 10),
            (made - 1000 - get, made - 1000),
        );
        b.stage(
            worker,
            cat::DATA_COLLATE,
            step,
            Some(950),
            (made - 1000, made),
        );
    }
    b.build(100_000 + steps * 10_000)
}

/// The same with the batches made inside `next()`, `cpu` of 100 parts of their time on a CPU.
pub fn in_process(steps: u64, wait: u64, cpu: u64) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..steps {
        let start = 100_000 + step * 10_000;
        b.step("train", 0, step, 100, (start, start + 10_000));
        b.wait(
            main,
            "train",
            (0, step),
            Some((step, 100)),
            (start, start + wait),
        );
        let get = (start + 10, start + wait - 1010);
        let collate = (get.1, get.1 + 1000);
        b.stage(
            main,
            cat::DATA_GET,
            step,
            Some((get.1 - get.0) * cpu / 100),
            get,
        );
        b.stage(main, cat::DATA_COLLATE, step, Some(10 * cpu), collate);
    }
    b.build(100_000 + steps * 10_000)
}
