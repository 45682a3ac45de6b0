//! What the hook saw of one training process and its workers, as a trace.

use super::batches::Batches;
use super::drawing::{Args, Drawing, Place};
use super::kinds::{Kinds, kinds};
use super::loops::{Loop, Outcome, StepEnd, loops};
use super::record::{Kind, LoaderInfo, Mark, Recording};
use super::stages::{Stage, stages};
use gpustall_trace::{MonoTime, Pid, Trace, Value, vocab};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vocab::{arg, cat};

/// What stands for the loader where steps are those of an optimizer.
const OPTIMIZER: &str = "Optimizer.step";

/// The trace of `trainer` and the workers of its loaders, from `origin` to `end`.
pub(super) fn trace(
    trainer: &Recording,
    workers: &[&Recording],
    origin: MonoTime,
    end: MonoTime,
) -> Trace {
    let mut drawing = Drawing::new(&trainer.process, origin, end);
    let pid = trainer.process.pid;
    drawing.thread((pid, pid), "main");
    for worker in workers {
        let of = worker.process.pid;
        let id = worker.worker.map_or(0, |worker| worker.id);
        let script = trainer.process.script();
        drawing.process(Pid(of), &format!("{script}: worker {id}"), 1);
        drawing.thread((of, of), &format!("worker-{id}"));
    }
    let loops = loops(trainer);
    let kinds = kinds(trainer, &loops);
    let mut story = Story {
        pid,
        drawing,
        loaders: loaders(trainer),
        kinds,
        keep: keep(trainer),
        batches: Batches::of(&loops),
        epochs: BTreeMap::new(),
        taken: HashMap::new(),
    };
    story.loops(&loops);
    story.made(trainer, workers);
    story.functions(trainer);
    if let Some(full) = trainer.full() {
        story.drawing.pause(full);
    }
    let lost = trainer.lost + workers.iter().map(|worker| worker.lost).sum::<u64>();
    story.drawing.lost(lost);
    story.drawing.finish()
}

/// What people call each loader.
fn loaders(trainer: &Recording) -> BTreeMap<u32, String> {
    let name = |loader: &LoaderInfo| match &loader.place {
        Some(place) => format!("DataLoader ({place})"),
        None => "DataLoader".to_owned(),
    };
    let named = trainer.loaders.iter();
    named.map(|(&number, of)| (number, name(of))).collect()
}

fn keep(trainer: &Recording) -> BTreeSet<u32> {
    let loaders = trainer.loaders.values();
    let keep = loaders.filter(|loader| loader.persistent_workers);
    keep.map(|loader| loader.number).collect()
}

struct Story {
    pid: u32,
    drawing: Drawing,
    loaders: BTreeMap<u32, String>,
    kinds: Kinds,
    /// Loaders that keep their workers.
    keep: BTreeSet<u32>,
    batches: Batches,
    /// Loops so far, by loader and kind.
    epochs: BTreeMap<(String, &'static str), u64>,
    /// Who took each batch of a worker: the loader, the thread, and its wait.
    taken: HashMap<u64, (String, u32, (u64, u64))>,
}

impl Story {
    fn loops(&mut self, loops: &[Loop]) {
        for of in loops {
            let loader = self.loaders.get(&of.info.loader).cloned();
            let loader = loader.unwrap_or_else(|| "DataLoader".to_owned());
            let kind = self.kinds.of.get(&of.info.loader).copied();
            let kind = kind.unwrap_or(vocab::kind::TRAIN);
            let epochs = self.epochs.entry((loader.clone(), kind)).or_default();
            let epoch = *epochs;
            *epochs += 1;
            let args = self.common(&loader, kind, epoch);
            let place = (self.pid, of.info.thread);
            let span = (of.info.start, of.info.end);
            self.drawing
                .slice(place, cat::EPOCH_START, "epoch start", span, args);
            self.calls(of, &loader, kind, epoch);
            // Whoever hands batches on to the thread that trains runs no steps.
            if self.kinds.steps.is_empty() {
                self.steps(of, &loader, kind, epoch);
            }
        }
        for (step, (tid, start, end)) in (0..).zip(std::mem::take(&mut self.kinds.steps)) {
            let mut args = self.common(OPTIMIZER, vocab::kind::TRAIN, 0);
            args.push((arg::STEP, Value::U64(step)));
            args.push((arg::THREAD, Value::U64(tid.into())));
            let name = format!("step {step}");
            self.drawing.step(OPTIMIZER, &name, (start, end), args);
        }
    }

    fn common(&mut self, loader: &str, kind: &str, epoch: u64) -> Args<'static> {
        vec![
            (arg::LOADER, self.drawing.text(loader)),
            (arg::KIND, self.drawing.text(kind)),
            (arg::EPOCH, Value::U64(epoch)),
            (arg::FRAMEWORK, self.drawing.text(vocab::PYTORCH)),
        ]
    }

    fn calls(&mut self, of: &Loop, loader: &str, kind: &str, epoch: u64) {
        for (step, call) in (0..).zip(&of.calls) {
            let mut args = self.common(loader, kind, epoch);
            let place = (self.pid, call.tid);
            let mut span = (call.start, call.end);
            if call.outcome == Outcome::End {
                self.drawing
                    .slice(place, cat::EPOCH_END, "epoch end", span, args);
                continue;
            }
            args.push((arg::STEP, Value::U64(step)));
            if self.keep.contains(&of.info.loader) {
                args.push((arg::PERSISTENT, Value::Bool(true)));
            }
            match call.outcome {
                Outcome::Open => {
                    span.1 = self.drawing.end();
                    args.push((arg::UNFINISHED, Value::Bool(true)));
                }
                Outcome::Error => {
                    let message = "next() raised an exception";
                    args.push((arg::ERROR, self.drawing.text(message)));
                    self.drawing.fault(place, call.end, message);
                }
                _ => {
                    let batch = self.batches.of_call[&(call.tid, call.start)];
                    args.push((arg::BATCH, Value::U64(batch)));
                    if let Some(made) = call.made {
                        args.push((arg::WORKER, Value::U64(made.pid.into())));
                        let taken = (loader.to_owned(), call.tid, span);
                        self.taken.insert(batch, taken);
                    }
                }
            }
            self.drawing
                .slice(place, cat::DATA_WAIT, "data wait", span, args);
        }
    }

    fn steps(&mut self, of: &Loop, loader: &str, kind: &str, epoch: u64) {
        for (step, (call, end)) in (0..).zip(of.steps()) {
            let mut args = self.common(loader, kind, epoch);
            args.push((arg::STEP, Value::U64(step)));
            args.push((arg::THREAD, Value::U64(call.tid.into())));
            let end = match end {
                StepEnd::At(end) => end,
                StepEnd::Open => {
                    args.push((arg::UNFINISHED, Value::Bool(true)));
                    self.drawing.end()
                }
                StepEnd::Unknown => continue,
            };
            let name = format!("step {step}");
            self.drawing.step(loader, &name, (call.start, end), args);
        }
    }

    /// The stages of batches, and the way of those that workers made.
    fn made(&mut self, trainer: &Recording, workers: &[&Recording]) {
        let mut depths: BTreeMap<String, Vec<(u64, i64)>> = BTreeMap::new();
        for recording in [trainer].iter().chain(workers) {
            let pid = recording.process.pid;
            let own = pid == self.pid;
            // A loader that a worker's data set uses is part of its get.
            let full = recording.full().is_some();
            let known = |s: &Stage| s.works != own && (s.end.is_some() || !full);
            let stages = stages(recording).into_iter().filter(known);
            for stage in stages {
                let batch = self.batches.of_stage(pid, &stage);
                let end = stage.end.unwrap_or(self.drawing.end());
                self.stage((pid, stage.tid), &stage, batch, end);
                let taken = batch.and_then(|batch| Some((batch, self.taken.get(&batch)?)));
                let Some((batch, (loader, tid, wait))) = taken.filter(|_| stage.last) else {
                    continue;
                };
                let depths = depths.entry(loader.clone()).or_default();
                depths.extend([(end, 1), (wait.1, -1)]);
                let from = ((pid, stage.tid), (stage.start, end));
                let to = ((self.pid, *tid), *wait);
                self.drawing.batch((batch, loader), from, to);
            }
        }
        for (loader, mut changes) in depths {
            changes.sort_unstable();
            let name = format!("{} {loader}", vocab::QUEUE_DEPTH);
            let mut depth = 0;
            for (at, change) in changes {
                depth += change;
                self.drawing.counter(&name, at, depth as f64);
            }
        }
    }

    fn stage(&mut self, place: Place, stage: &Stage, batch: Option<u64>, end: u64) {
        let mut args: Args<'_> = Vec::new();
        let mut put = |key, value: Option<u64>| {
            args.extend(value.map(|value| (key, Value::U64(value))));
        };
        put(arg::BATCH, batch);
        put(arg::ITEMS, stage.items);
        put(arg::CPU_NS, stage.cpu);
        put(arg::RUNNABLE_NS, stage.ready);
        if stage.failed {
            let message = self.drawing.text("it raised an exception");
            args.push((arg::ERROR, message));
        }
        if stage.end.is_none() {
            args.push((arg::UNFINISHED, Value::Bool(true)));
        }
        let (cat, name) = match stage.collates {
            true => (cat::DATA_COLLATE, "collate"),
            false => (cat::DATA_GET, "get"),
        };
        self.drawing
            .slice(place, cat, name, (stage.start, end), args);
    }

    /// What else the trainer's threads did.
    fn functions(&mut self, trainer: &Recording) {
        let mut ends: HashMap<u32, u64> = HashMap::new();
        let mut optimizers: Vec<&Mark> = Vec::new();
        for mark in &trainer.marks {
            let name = match mark.kind {
                Kind::Sampled => "sample indices",
                Kind::Pinned => "pin memory",
                Kind::Optimized => {
                    optimizers.push(mark);
                    continue;
                }
                _ => continue,
            };
            let place = (self.pid, mark.tid);
            let span = (mark.start, mark.end);
            self.drawing
                .slice(place, cat::PYTHON_FUNCTION, name, span, Vec::new());
        }
        // An optimizer that calls others is one step.
        optimizers.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
        for mark in optimizers {
            let end = ends.entry(mark.tid).or_default();
            if mark.start >= *end {
                *end = mark.end;
                let span = (mark.start, mark.end);
                let place = (self.pid, mark.tid);
                self.drawing
                    .slice(place, cat::PHASE, "optimizer", span, Vec::new());
            }
        }
    }
}
