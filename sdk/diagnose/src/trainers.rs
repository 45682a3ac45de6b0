//! The threads that run steps.

use crate::at_once;
use crate::events::{Kind, LoaderKey, Role, Step, Wait};
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Pid, Tid, TraceTime, TrackId};
use std::collections::{HashMap, HashSet};

/// A thread that runs training steps. Without a device of its own it is the device.
#[derive(Debug, Clone)]
pub(crate) struct Trainer {
    pub(crate) tid: Tid,
    /// Its track; `None` if the trace has no such thread.
    pub(crate) track: Option<TrackId>,
    pub(crate) name: String,
    /// Its complete steps, in order, none overlapping another; those that another thread began
    /// and that it takes part in too.
    pub(crate) steps: Vec<Step>,
    /// From when to when its time counts.
    pub(crate) span: Interval,
    /// That without the pauses: disjoint, in order.
    pub(crate) parts: Vec<Interval>,
}

impl Trainer {
    /// Whether another thread began this step, with which it counts.
    pub(crate) fn shares(&self, step: &Step) -> bool {
        step.thread != Some(self.tid)
    }
}

/// How many of them train at the same time: of those that succeeded each other one.
pub(crate) fn at_once<'a>(trainers: impl IntoIterator<Item = &'a Trainer>) -> usize {
    at_once::at_once(trainers.into_iter().map(|trainer| trainer.span))
}

/// When a thread trained, as far as its steps and waits say.
#[derive(Debug, Clone)]
struct Stretch {
    /// Start of its account.
    start: Option<TraceTime>,
    /// Start of its first wait.
    waits: Option<TraceTime>,
    /// Start of its first step, or of its first wait, complete or not.
    first: TraceTime,
    /// End of its last step, or of a wait after that.
    last: TraceTime,
    /// Complete steps that another thread began and this one takes part in.
    shared: Vec<Step>,
}

impl Stretch {
    fn new() -> Self {
        Self {
            start: None,
            waits: None,
            first: TraceTime::from_nanos(u64::MAX),
            last: TraceTime::ZERO,
            shared: Vec::new(),
        }
    }

    fn add(&mut self, span: Interval) {
        self.first = self.first.min(span.start);
        self.last = self.last.max(span.end);
    }
}

/// The step that a wait is of.
type StepKey = (LoaderKey, u64, u64);

fn key_of_step(step: &Step) -> Option<StepKey> {
    Some((step.loader, step.epoch?, step.index?))
}

fn key_of_wait(wait: &Wait) -> Option<StepKey> {
    Some((wait.loader, wait.epoch?, wait.step?))
}

/// The threads in the making.
struct Crew<'a> {
    timeline: &'a Timeline<'a>,
    list: Vec<(Trainer, Stretch)>,
    of_tid: HashMap<Tid, usize>,
    of_track: HashMap<TrackId, usize>,
}

/// The threads that run steps of this kind, in the order of their first complete ones; after them
/// those that only wait for batches of such steps: slices of one loader have one step together,
/// and it stands on the thread that asked first. None if no step is complete.
///
/// Each has an account of its own: from the start of its first complete step, or of its first wait
/// in one that another thread began, to `end`. A thread after whose last step another one began
/// its first was succeeded by that one: its account ends where that one begins, or with its own last step where
/// that one is of another process.
///
/// A thread that only takes batches of a loader in whose loops nobody runs steps hands them on to those
/// that do, and has no account; but where devices are `recorded`, what it does says why those wait.
pub(crate) fn trainers(
    timeline: &Timeline<'_>,
    kind: Kind,
    end: TraceTime,
    recorded: bool,
) -> Vec<Trainer> {
    let mut crew = Crew {
        timeline,
        list: Vec::new(),
        of_tid: HashMap::new(),
        of_track: HashMap::new(),
    };
    crew.take_steps(kind);
    if !crew.list.is_empty() && !timeline.foreign {
        crew.take_waits(kind, recorded);
    }
    crew.stretch(kind);
    crew.close(end)
}

impl Crew<'_> {
    fn take_steps(&mut self, kind: Kind) {
        let steps = || self.timeline.steps.iter();
        for step in steps().filter(|step| step.loader.kind == kind && !step.cut) {
            let Some(tid) = step.thread else { continue };
            let at = *self.of_tid.entry(tid).or_insert_with(|| {
                let track = self.timeline.thread(tid);
                let at = self.list.len();
                if let Some(track) = track {
                    self.of_track.insert(track, at);
                }
                let name = track.map_or(format!("thread {tid}"), |t| self.timeline.thread_name(t));
                self.list.push((new(tid, track, name), Stretch::new()));
                at
            });
            let (trainer, stretch) = &mut self.list[at];
            stretch.start.get_or_insert(step.span.start);
            // Two loaders stepped in one loop give two steps that overlap: the first one is the
            // loop's.
            let steps = &mut trainer.steps;
            if steps
                .last()
                .is_none_or(|last| last.span.end <= step.span.start)
            {
                steps.push(*step);
            }
        }
    }

    /// Steps that are not complete count for when a thread began and ended.
    fn stretch(&mut self, kind: Kind) {
        let of_kind = |step: &&Step| step.loader.kind == kind;
        for step in self.timeline.steps.iter().filter(of_kind) {
            let at = step.thread.and_then(|tid| {
                let track = || self.of_track.get(&self.timeline.thread(tid)?);
                self.of_tid.get(&tid).or_else(track)
            });
            if let Some(&at) = at {
                self.list[at].1.add(step.span);
            }
        }
    }

    fn take_waits(&mut self, kind: Kind, recorded: bool) {
        let steps = self.timeline.steps.iter();
        let stepped: HashSet<LoaderKey> = steps.map(|step| step.loader).collect();
        // Whether a thread's own step is complete, and a complete one of any thread.
        let mut own: HashMap<(StepKey, Tid), bool> = HashMap::new();
        let mut any: HashMap<StepKey, Step> = HashMap::new();
        for step in &self.timeline.steps {
            let Some(key) = key_of_step(step) else {
                continue;
            };
            if let Some(tid) = step.thread {
                *own.entry((key, tid)).or_default() |= !step.cut;
            }
            if !step.cut {
                any.entry(key).or_insert(*step);
            }
        }
        for wait in &self.timeline.waits {
            let batch = wait.role == Role::Batch && !wait.annotated;
            // One that did not end is the thread's last, whatever it is for.
            if wait.unfinished
                && !batch
                && let Some(&at) = self.of_track.get(&wait.track)
            {
                self.list[at].1.add(wait.span);
            }
            if !batch || wait.loader.kind != kind {
                continue;
            }
            let hands_on = !recorded && !stepped.contains(&wait.loader);
            if hands_on && !self.of_track.contains_key(&wait.track) {
                continue;
            }
            let Some(at) = self.of_wait(wait) else {
                continue;
            };
            let (trainer, stretch) = &mut self.list[at];
            stretch.add(wait.span);
            stretch.waits.get_or_insert(wait.span.start);
            let Some(key) = key_of_wait(wait) else {
                continue;
            };
            let (counts, shared) = match own.get(&(key, trainer.tid)) {
                Some(&complete) => (complete, None),
                None => (any.contains_key(&key), any.get(&key)),
            };
            if counts {
                let start = wait.span.start;
                stretch.start = Some(stretch.start.map_or(start, |at| at.min(start)));
            }
            if let Some(step) = shared {
                stretch.last = stretch.last.max(step.span.end);
                stretch.shared.push(*step);
            }
        }
    }

    /// The trainer that waits.
    fn of_wait(&mut self, wait: &Wait) -> Option<usize> {
        if let Some(&at) = self.of_track.get(&wait.track) {
            return Some(at);
        }
        let tid = self.timeline.trace.track(wait.track)?.tid;
        let at = self.list.len();
        let name = self.timeline.thread_name(wait.track);
        let trainer = new(tid, Some(wait.track), name);
        self.list.push((trainer, Stretch::new()));
        self.of_track.insert(wait.track, at);
        Some(at)
    }

    fn close(self, end: TraceTime) -> Vec<Trainer> {
        let timeline = self.timeline;
        let pid = |trainer: &Trainer| Some(timeline.trace.track(trainer.track?)?.pid);
        let begun = self.list.iter();
        let begun = begun.map(|(trainer, stretch)| (stretch.first, pid(trainer)));
        let mut begun: Vec<(TraceTime, Option<Pid>)> = begun.collect();
        begun.sort_unstable();
        let one = |(mut trainer, mut stretch): (Trainer, Stretch)| {
            join(&mut trainer.steps, std::mem::take(&mut stretch.shared));
            let start = stretch.start.or(stretch.waits).unwrap_or(end);
            let next = begun.partition_point(|&(of, _)| of < stretch.last || of <= stretch.first);
            // Between two processes nothing trains: one has ended, the other begins.
            let until = begun
                .get(next)
                .map_or(end, |&(at, of)| match of == pid(&trainer) {
                    true => at,
                    false => stretch.last,
                });
            trainer.span = Interval::new(start, until.min(end).max(start));
            trainer
        };
        self.list.into_iter().map(one).collect()
    }
}

fn new(tid: Tid, track: Option<TrackId>, name: String) -> Trainer {
    Trainer {
        tid,
        track,
        name,
        steps: Vec::new(),
        span: Interval::default(),
        parts: Vec::new(),
    }
}

/// Adds the steps of other threads that overlap no step before them.
fn join(steps: &mut Vec<Step>, mut shared: Vec<Step>) {
    shared.sort_by_key(|step| (step.span.start, step.span.end));
    let mut at = TraceTime::ZERO;
    shared.retain(|step| {
        let next = steps.partition_point(|own| own.span.end <= step.span.start);
        let free = steps
            .get(next)
            .is_none_or(|own| step.span.end <= own.span.start);
        let fits = free && step.span.start >= at && !step.span.is_empty();
        if fits {
            at = step.span.end;
        }
        fits
    });
    steps.append(&mut shared);
    steps.sort_by_key(|step| (step.span.start, step.span.end));
}
