//! What the hook saw of one training process and its workers, as a trace.

use super::ahead;
use super::batches::Batches;
use super::calls::Outcome;
use super::drawing::{Args, Drawing};
use super::failures::{Failures, Process, Told};
use super::handed::hand_over;
use super::kinds::{Kinds, hands_on, kinds};
use super::loaders::Identities;
use super::loops::{Loop, StepEnd, loops};
use super::mark::{Kind, Mark};
use super::record::{LoaderInfo, Recording};
use super::stages::stages;
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
    let mut failures = Failures::of(trainer, &processes);
    failures.noticed_by(&loops);
    let mut story = Story {
        pid,
        drawing,
        loaders: names,
        kinds,
        keep: those(trainer, |loader| loader.persistent_workers),
        workers: (trainer.loaders.values())
            .map(|loader| (loader.number, loader.num_workers))
            .collect(),
        prefetch: (trainer.loaders.values())
            .filter_map(|loader| Some((loader.number, loader.prefetch_factor?)))
            .collect(),
        iterate: those(trainer, |loader| loader.iterable),
        left: (loops.iter().filter(|of| of.left.is_some()))
            .map(|of| of.info.number)
            .collect(),
        batches: Batches::of(&loops),
        epochs: BTreeMap::new(),
        looped: BTreeSet::new(),
        taken: HashMap::new(),
        failures,
        last: None,
        raised: BTreeSet::new(),
    };
    story.loops(&loops);
    story.made(processes);
    story.ends();
    story.thread_ends(trainer);
    story.uncaught(trainer);
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
    // One that failed before its first batch may not have come so far.
    let calls = calls.filter(|call| call.outcome != Outcome::Error);
    let made = calls.filter_map(|call| call.made).map(|made| made.pid);
    let unmarked: BTreeSet<u32> = made.filter(|pid| !marked.contains(pid)).collect();
    let count = unmarked.len();
    (count > 0).then(|| {
        let who = match count {
            1 => "a worker of a DataLoader".to_owned(),
            count => format!("{count} workers of DataLoaders"),
        };
        format!(
            "How {who} made batches was not recorded: the hook was not loaded there (the program sets another \
             PYTHONPATH, or starts workers as another user)."
        )
    })
}

/// The loaders that are so.
fn those(trainer: &Recording, are: impl Fn(&LoaderInfo) -> bool) -> BTreeSet<u32> {
    let loaders = trainer.loaders.values().filter(|loader| are(loader));
    loaders.map(|loader| loader.number).collect()
}

/// A trace in the making, and what is known of the job.
pub(super) struct Story {
    pub(super) pid: u32,
    pub(super) drawing: Drawing,
    loaders: BTreeMap<u32, String>,
    kinds: Kinds,
    /// Loaders that keep their workers.
    keep: BTreeSet<u32>,
    /// How many workers loaders have.
    workers: BTreeMap<u32, u64>,
    /// Batches that each worker of these may have ahead.
    prefetch: BTreeMap<u32, u64>,
    /// Loaders whose data set is an IterableDataset.
    iterate: BTreeSet<u32>,
    /// Loops that were left, of which the stopping of the workers is the end.
    left: BTreeSet<u32>,
    pub(super) batches: Batches,
    /// Loops so far, by loader and kind.
    epochs: BTreeMap<(String, &'static str), u64>,
    /// Loaders that had a loop.
    looped: BTreeSet<u32>,
    /// Who took each batch of a worker: the loader, the thread, and its wait.
    pub(super) taken: HashMap<u64, (String, u32, (u64, u64))>,
    pub(super) failures: Failures,
    /// The last call of next() so far: its start, and what is told of it if it raised.
    pub(super) last: Option<(u64, Option<Told>)>,
    /// What calls of next() raised, by their threads.
    pub(super) raised: BTreeSet<(u32, String)>,
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
            if let Some(stop) = of.left {
                let place = (self.pid, stop.tid);
                let (span, args) = ((stop.start, stop.end), args.clone());
                self.drawing
                    .slice(place, cat::EPOCH_END, "epoch end", span, args);
            }
            let place = (self.pid, of.info.thread);
            let span = (of.info.start, of.info.end);
            let mut args = args;
            if self.looped.insert(of.info.loader) {
                args.push((arg::NEW_LOADER, Value::Bool(true)));
            }
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
            let raised = call.outcome == Outcome::Error;
            let told = raised.then(|| self.failures.of_call(self.pid, call, i));
            if let Some(told) = &told {
                self.raised.insert((call.tid, told.text.clone()));
            }
            if self.last.as_ref().is_none_or(|last| last.0 <= call.start) {
                self.last = Some((call.start, told.clone()));
            }
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
                if let Some(message) = self.failures.of_early_end(call, i) {
                    self.drawing.fault(place, call.end, &message);
                }
                self.drawing
                    .slice(place, cat::EPOCH_END, "epoch end", span, args);
                continue;
            }
            args.push((arg::STEP, Value::U64(step)));
            if self.keep.contains(&of.info.loader) {
                args.push((arg::PERSISTENT, Value::Bool(true)));
            }
            if let Some(&workers) = self.workers.get(&of.info.loader).filter(|&&n| n > 0) {
                args.push((arg::NUM_WORKERS, Value::U64(workers)));
            }
            if let Some(&batches) = self.prefetch.get(&of.info.loader) {
                args.push((arg::PREFETCH, Value::U64(batches)));
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
                    let message = told.map_or(String::new(), |told| told.message);
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
                StepEnd::Cut(end) => {
                    args.push((arg::UNFINISHED, Value::Bool(true)));
                    end.min(self.drawing.end())
                }
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

    /// What else the trainer's threads did.
    fn functions(&mut self, trainer: &Recording) {
        let mut ends: HashMap<u32, u64> = HashMap::new();
        let mut optimizers: Vec<&Mark> = Vec::new();
        for mark in &trainer.marks {
            let (category, name) = match mark.kind {
                Kind::Sampled => (cat::PYTHON_FUNCTION, vocab::SAMPLE_INDICES),
                Kind::Stopped if !self.left.contains(&mark.a) => {
                    (cat::PYTHON_FUNCTION, vocab::STOP_WORKERS)
                }
                Kind::Pinned => (cat::PYTHON_FUNCTION, "pin memory"),
                Kind::Saved => (cat::PHASE, "checkpoint"),
                Kind::Optimized => {
                    optimizers.push(mark);
                    continue;
                }
                _ => continue,
            };
            let place = (self.pid, mark.tid);
            let span = (mark.start, mark.end);
            self.drawing.slice(place, category, name, span, Vec::new());
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
