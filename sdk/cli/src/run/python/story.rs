//! What the hook saw of one training process and its workers, as a trace.

use super::ahead;
use super::batches::Batches;
use super::calls::Outcome;
use super::drawing::{Args, Drawing, Place};
use super::failures::{Failures, Process};
use super::handed::hand_over;
use super::kinds::{Kinds, hands_on, kinds};
use super::loaders::Identities;
use super::loops::{Loop, StepEnd, loops};
use super::mark::{Kind, Mark};
use super::record::{LoaderInfo, Recording};
use super::stages::{Stage, stages};
use gpustall_trace::{MonoTime, Pid, Trace, Value, vocab};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vocab::{arg, cat};

/// Told where a thread takes batches and another one trains, and no queue is seen between them.
const UNSEEN: &str = "One thread takes the batches and another one steps the optimizer, without a queue.Queue \
    between them: what the one that trains waits for is not told from its own work.";

/// What stands for the loader where steps are those of an optimizer.
const OPTIMIZER: &str = "Optimizer.step";

/// The trace of `trainer` and the workers of its loaders, which are called `names`, from `origin` to `end`.
pub(super) fn trace(
    trainer: &Recording,
    workers: &[&Recording],
    (loaders, names): (&Identities, BTreeMap<u32, String>),
    (origin, end): (MonoTime, MonoTime),
    notes: &mut BTreeSet<String>,
) -> Trace {
    let mut drawing = Drawing::new(&trainer.process, origin, end);
    let pid = trainer.process.pid;
    drawing.thread((pid, pid), "main");
    for thread in trainer.threads.values().filter(|of| of.tid != pid) {
        match thread.python {
            true => drawing.thread((pid, thread.tid), &thread.name),
            false => drawing.thread((pid, thread.tid), &format!("thread {}", thread.tid)),
        };
    }
    for worker in workers {
        let of = worker.process.pid;
        let id = worker.worker.map_or(0, |worker| worker.id);
        let script = trainer.process.script();
        drawing.process(Pid(of), &format!("{script}: worker {id}"), 1);
        drawing.thread((of, of), &format!("worker-{id}"));
    }
    let loops = loops(trainer);
    let optimized = ahead::optimized(trainer, &loops);
    let mut loops = hand_over(trainer, loops, &optimized);
    ahead::find(&mut loops, &optimized);
    let mut kinds = kinds(trainer, &loops, &optimized);
    kinds.follow(&loops, loaders);
    if kinds.apart && loops.iter().any(|of| hands_on(of, &optimized)) {
        notes.insert(UNSEEN.to_owned());
    }
    notes.extend(unmarked_workers(&loops, workers));
    let all = [trainer].into_iter().chain(workers.iter().copied());
    let processes: Vec<Process<'_>> = all.map(|of| (of, stages(of))).collect();
    let failures = Failures::of(trainer, &processes);
    let mut story = Story {
        pid,
        drawing,
        loaders: names,
        kinds,
        keep: those(trainer, |loader| loader.persistent_workers),
        iterate: those(trainer, |loader| loader.iterable),
        batches: Batches::of(&loops),
        epochs: BTreeMap::new(),
        taken: HashMap::new(),
        failures,
    };
    story.loops(&loops);
    story.made(processes);
    story.ends();
    story.functions(trainer);
    if let Some(full) = trainer.full() {
        story.drawing.pause(full);
    }
    let lost = trainer.lost + workers.iter().map(|worker| worker.lost).sum::<u64>();
    story.drawing.lost(lost);
    story.drawing.finish()
}

/// What to tell of workers that made batches and left no marks.
fn unmarked_workers(loops: &[Loop], workers: &[&Recording]) -> Option<String> {
    let marked: BTreeSet<u32> = workers.iter().map(|of| of.process.pid).collect();
    let calls = loops.iter().flat_map(|of| &of.calls);
    let made = calls.filter_map(|call| call.made).map(|made| made.pid);
    let unmarked: BTreeSet<u32> = made.filter(|pid| !marked.contains(pid)).collect();
    let count = unmarked.len();
    (count > 0).then(|| {
        format!(
            "How {count} workers of DataLoaders made their batches was not recorded: they did not load the \
             hook (the program sets another PYTHONPATH, or starts them as another user)."
        )
    })
}

/// The loaders that are so.
fn those(trainer: &Recording, are: impl Fn(&LoaderInfo) -> bool) -> BTreeSet<u32> {
    let loaders = trainer.loaders.values().filter(|loader| are(loader));
    loaders.map(|loader| loader.number).collect()
}

struct Story {
    pid: u32,
    drawing: Drawing,
    loaders: BTreeMap<u32, String>,
    kinds: Kinds,
    /// Loaders that keep their workers.
    keep: BTreeSet<u32>,
    /// Loaders whose data set is an IterableDataset.
    iterate: BTreeSet<u32>,
    batches: Batches,
    /// Loops so far, by loader and kind.
    epochs: BTreeMap<(String, &'static str), u64>,
    /// Who took each batch of a worker: the loader, the thread, and its wait.
    taken: HashMap<u64, (String, u32, (u64, u64))>,
    failures: Failures,
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
            if !self.kinds.apart {
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
        for (i, call) in of.calls.iter().enumerate() {
            let step = of.step_of(i);
            let mut args = self.common(loader, kind, epoch);
            let place = (self.pid, call.tid);
            let mut span = (call.start, call.end);
            if let Some((tid, mut span)) = call.inner {
                if span.1 == 0 {
                    span.1 = self.drawing.end();
                }
                let name = format!("next() of {loader}");
                let place = (self.pid, tid);
                self.drawing
                    .slice(place, cat::PYTHON_FUNCTION, &name, span, Vec::new());
            }
            if call.outcome == Outcome::End {
                self.drawing
                    .slice(place, cat::EPOCH_END, "epoch end", span, args);
                continue;
            }
            args.push((arg::STEP, Value::U64(step)));
            if self.keep.contains(&of.info.loader) {
                args.push((arg::PERSISTENT, Value::Bool(true)));
            }
            if self.iterate.contains(&of.info.loader) {
                args.push((arg::ITERABLE, Value::Bool(true)));
            }
            match call.outcome {
                Outcome::Open => {
                    span.1 = self.drawing.end();
                    args.push((arg::UNFINISHED, Value::Bool(true)));
                }
                Outcome::Cut { last: true } => args.push((arg::UNFINISHED, Value::Bool(true))),
                Outcome::Cut { last: false } => {}
                Outcome::Error => {
                    let message = self.failures.of_call(self.pid, call, i);
                    args.push((arg::ERROR, self.drawing.text(&message)));
                    // The end of a worker is told once, when it was seen.
                    if !self.failures.ends().any(|end| end.message == message) {
                        self.drawing.fault(place, call.end, &message);
                    }
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
        for (number, step) in (0..).zip(of.steps()) {
            let mut args = self.common(loader, kind, epoch);
            args.push((arg::STEP, Value::U64(number)));
            args.push((arg::THREAD, Value::U64(step.tid.into())));
            let end = match step.end {
                StepEnd::At(end) => end,
                StepEnd::Open => {
                    args.push((arg::UNFINISHED, Value::Bool(true)));
                    self.drawing.end()
                }
                StepEnd::Unknown => continue,
            };
            let name = format!("step {number}");
            self.drawing.step(loader, &name, (step.start, end), args);
        }
    }

    /// The stages of batches, and the way of those that workers made.
    fn made(&mut self, processes: Vec<Process<'_>>) {
        let mut depths: BTreeMap<String, Vec<(u64, i64)>> = BTreeMap::new();
        for (recording, stages) in processes {
            let pid = recording.process.pid;
            let own = pid == self.pid;
            // A loader that a worker's data set uses is part of its get.
            let full = recording.full().is_some();
            let known = |s: &Stage| s.works != own && (s.end.is_some() || !full);
            for stage in stages.into_iter().filter(known) {
                let batch = self.batches.of_stage(pid, &stage);
                let end = stage.end.unwrap_or(self.over(pid));
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

    /// When a process was over: at its end, or that of the recording.
    fn over(&self, pid: u32) -> u64 {
        let end = self.failures.end(pid).map(|end| end.at);
        end.unwrap_or(u64::MAX).min(self.drawing.end())
    }

    /// Workers that ended before their time.
    fn ends(&mut self) {
        for end in self.failures.ends() {
            let main = (self.pid, self.pid);
            self.drawing.fault(main, end.at, &end.message);
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
        let ended = self.failures.end(place.0).filter(|_| stage.end.is_none());
        let error = match ended {
            Some(end) => Some(format!("its process {}", end.how)),
            None if stage.failed => {
                let text = self.failures.text(place.0, stage.tid, stage.start);
                Some(format!("it raised {text}"))
            }
            None => None,
        };
        if let Some(error) = &error {
            args.push((arg::ERROR, self.drawing.text(error)));
        }
        if stage.cut || (stage.end.is_none() && ended.is_none()) {
            args.push((arg::UNFINISHED, Value::Bool(true)));
        }
        let cat = match stage.collates {
            true => cat::DATA_COLLATE,
            false => cat::DATA_GET,
        };
        self.drawing
            .slice(place, cat, stage.name(), (stage.start, end), args);
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
