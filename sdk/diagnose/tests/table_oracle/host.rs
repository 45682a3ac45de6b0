//! The model of a run without a device, and the trace of it.

use super::Span;
use crate::common::kernel::Off;
use crate::common::{Builder, PID, V};
use gpustall_trace::vocab::{arg, cat, kind, totals};
use gpustall_trace::{Pid, Trace, TrackId, TrackKind};

/// Nanoseconds of a unit, without a device.
pub const UNIT: u64 = 1_000_000;

#[derive(Debug, Default)]
pub struct Run {
    pub end: u64,
    pub cpus: u32,
    pub trainers: Vec<Trainer>,
    pub stages: Vec<Stage>,
    /// Every thread of the process.
    pub threads: Vec<Thread>,
    pub pauses: Vec<Span>,
    pub losses: Vec<(&'static str, u64)>,
}

#[derive(Debug)]
pub struct Trainer {
    pub tid: u32,
    pub loader: &'static str,
    pub steps: Vec<Step>,
    pub waits: Vec<Wait>,
    pub phases: Vec<(&'static str, Span)>,
}

#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub span: Span,
    pub epoch: u64,
    pub step: u64,
    pub unfinished: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Call {
    /// `iter()`.
    Iter,
    /// `next()` of this step.
    Next(u64),
    /// The `next()` that returned `None`.
    Last,
}

#[derive(Debug, Clone, Copy)]
pub struct Wait {
    pub span: Span,
    pub epoch: u64,
    pub call: Call,
    /// Its number and who made it.
    pub batch: Option<(u64, u32)>,
    /// CPU time of the waiting thread.
    pub cpu: Option<u64>,
    pub unfinished: bool,
}

/// A get or a collate.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    pub tid: u32,
    pub batch: u64,
    pub cat: &'static str,
    pub span: Span,
    pub cpu: Option<u64>,
    pub runnable: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Thread {
    pub tid: u32,
    pub offs: Vec<(Off<'static>, Span)>,
    /// From when to when its totals say, and what was lost of that.
    pub watches: Vec<(Span, u64)>,
    /// When, what ran, in which function.
    pub samples: Vec<(u64, &'static str, &'static str)>,
    /// Category and time of reclaim, compaction, migration.
    pub memory: Vec<(&'static str, Span)>,
}

impl Run {
    pub fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    pub fn trace(&self) -> Trace {
        let mut b = Builder::new();
        b.unit = UNIT;
        self.draw(&mut b);
        b.build(self.end)
    }

    /// Puts all of it into a trace; the track of each thread.
    pub fn draw(&self, b: &mut Builder) -> Vec<(u32, TrackId)> {
        b.trace.meta.cpus = self.cpus;
        let mut tracks = Vec::new();
        for thread in &self.threads {
            let name = format!("thread {}", thread.tid);
            let track = b.track(PID, thread.tid, &name, TrackKind::Thread);
            tracks.push((thread.tid, track));
            draw_thread(b, track, thread);
        }
        let of = |tid: u32| tracks.iter().find(|t| t.0 == tid).expect("a thread").1;
        for trainer in &self.trainers {
            draw_trainer(b, of(trainer.tid), trainer);
        }
        for stage in &self.stages {
            let mut args = vec![(arg::BATCH, V::N(stage.batch)), (arg::ITEMS, V::N(8))];
            args.extend(stage.cpu.map(|cpu| (arg::CPU_NS, V::N(cpu * UNIT))));
            let runnable = stage.runnable.map(|ns| (arg::RUNNABLE_NS, V::N(ns * UNIT)));
            args.extend(runnable);
            b.slice(of(stage.tid), stage.cat, stage.cat, stage.span, &args);
        }
        let lane = b.track(Pid(Pid::SYNTHETIC), 2, "pauses", TrackKind::Synthetic);
        for &pause in &self.pauses {
            b.slice(lane, cat::PAUSE, "paused", pause, &[]);
        }
        for &(source, at) in &self.losses {
            b.lose(source, at, 3);
        }
        tracks
    }
}

fn draw_thread(b: &mut Builder, track: TrackId, thread: &Thread) {
    for &(off, span) in &thread.offs {
        b.off(thread.tid, off, span);
    }
    for &(span, lost) in &thread.watches {
        let lost = [(totals::LOST_NS, lost * b.unit)];
        b.watch(thread.tid, span, &lost);
    }
    for &(at, running, function) in &thread.samples {
        b.sample(thread.tid, running, function, at);
    }
    for &(cat, span) in &thread.memory {
        b.slice(track, cat, cat, span, &[]);
    }
}

fn draw_trainer(b: &mut Builder, track: TrackId, trainer: &Trainer) {
    let steps = b.track(
        Pid(Pid::SYNTHETIC),
        10_000 + trainer.tid,
        "steps",
        TrackKind::Synthetic,
    );
    for step in &trainer.steps {
        let mut args = loader(trainer, step.epoch);
        args.push((arg::STEP, V::N(step.step)));
        args.push((arg::THREAD, V::N(u64::from(trainer.tid))));
        args.extend(step.unfinished.then_some((arg::UNFINISHED, V::B(true))));
        b.slice(steps, cat::STEP, "step", step.span, &args);
    }
    for wait in &trainer.waits {
        let mut args = loader(trainer, wait.epoch);
        if let Call::Next(step) = wait.call {
            args.push((arg::STEP, V::N(step)));
        }
        if let Some((batch, maker)) = wait.batch {
            args.push((arg::BATCH, V::N(batch)));
            args.push((arg::WORKER, V::N(u64::from(maker))));
        }
        args.extend(wait.cpu.map(|cpu| (arg::CPU_NS, V::N(cpu * UNIT))));
        args.extend(wait.unfinished.then_some((arg::UNFINISHED, V::B(true))));
        let cat = match wait.call {
            Call::Iter => cat::EPOCH_START,
            Call::Next(_) => cat::DATA_WAIT,
            Call::Last => cat::EPOCH_END,
        };
        b.slice(track, cat, cat, wait.span, &args);
    }
    for &(name, span) in &trainer.phases {
        b.phase(track, name, span);
    }
}

fn loader(trainer: &Trainer, epoch: u64) -> Vec<(&'static str, V<'static>)> {
    vec![
        (arg::LOADER, V::S(trainer.loader)),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::EPOCH, V::N(epoch)),
    ]
}
