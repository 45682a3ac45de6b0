//! From a trace to what the diagnosis talks about: steps, waits, phases, pauses.

use crate::cause::Cause;
use crate::events::{Kind, LoaderKey, Phase, Role, Step, Wait};
use crate::foreign::{self, Meaning, Meanings};
use crate::framework::marked;
use crate::group::of_rank;
use crate::names::{Names, flag, id, integer, text};
use crate::partition::without;
use crate::ranks;
use crate::sampling::Sampling;
use crate::stages::Stages;
use crate::stopping::Stopping;
use crate::threads::{Lane, Threads, tid_of};
use crate::unseen_kernels::UnseenKernels;
use crate::user_spans::UserSpans;
use crate::window::{during, total};
use gpustall_trace::vocab::kind;
use gpustall_trace::{
    Interval, Nanos, Pid, Slice, Symbol, Tid, Trace, TraceTime, Track, TrackId, TrackKind,
};
use std::collections::{HashMap, HashSet};

/// A step is complete if no more than one part in so many of it was not recorded. Pauses of a device's recording
/// begin and end in the middle of steps: where these are as long as the stretch between two pauses, the rule
/// that none may be touched leaves none of them.
pub const MAX_UNRECORDED: u64 = 5;

/// A trace as the diagnosis sees it. All spans are cut to the recording, `[0, end)`.
pub(crate) struct Timeline<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) names: Names,
    pub(crate) end: TraceTime,
    /// By start.
    pub(crate) steps: Vec<Step>,
    /// By start; those that start and end an epoch too.
    pub(crate) waits: Vec<Wait>,
    pub(crate) phases: Vec<Phase>,
    /// When nothing was recorded.
    pub(crate) pauses: Vec<Interval>,
    /// When kernels were launched and none was recorded.
    pub(crate) unseen: UnseenKernels,
    /// When nothing was recorded of one of several processes.
    pub(crate) pauses_of: HashMap<Pid, Vec<Interval>>,
    pub(crate) stages: Stages,
    /// What each thread that made batches made them for: the loader and the thread that took
    /// them.
    pub(crate) serves: HashMap<TrackId, (LoaderKey, TrackId)>,
    /// Whether the steps are another profiler's.
    pub(crate) foreign: bool,
    /// Whether they are taken from the calls of the loop, as nothing marks them.
    pub(crate) steps_of_loop: bool,
    /// Whether a worker is a Python process, of which one thread makes batches, another sends them,
    /// and only one of them runs at a time.
    pub(crate) sends_aside: bool,
    pub(crate) meanings: Meanings,
    /// What the kernel recorded.
    pub(crate) kernel: Threads,
    /// What the user's own spans say of the making of batches.
    pub(crate) spans: UserSpans,
    /// When threads that take batches were in a sampler.
    pub(crate) sampling: Sampling,
    /// When they stopped workers.
    pub(crate) stopping: Stopping,
    /// Ranks by process, in a trace of several.
    ranks: HashMap<Pid, u32>,
    /// The track of each OS thread id, and why that one.
    threads: HashMap<Tid, (TrackId, (bool, bool))>,
}

impl<'a> Timeline<'a> {
    /// Reads the trace once. Slices of categories that are not named here are left alone.
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let mut timeline = Self {
            trace,
            names: Names::of(trace),
            end: trace.meta.end,
            steps: Vec::new(),
            waits: Vec::new(),
            phases: Vec::new(),
            pauses: Vec::new(),
            unseen: UnseenKernels::default(),
            pauses_of: HashMap::new(),
            stages: Stages::default(),
            serves: HashMap::new(),
            foreign: false,
            steps_of_loop: false,
            sends_aside: marked(trace),
            meanings: foreign::meanings(trace),
            kernel: Threads::default(),
            spans: UserSpans::default(),
            sampling: Sampling::default(),
            stopping: Stopping::default(),
            ranks: ranks::by_process(trace),
            threads: HashMap::new(),
        };
        for slice in &trace.slices {
            timeline.take(slice);
        }
        timeline.take_annotations();
        timeline.steps.sort_by_key(|s| (s.span.start, s.span.end));
        timeline.waits.sort_by_key(|w| (w.span.start, w.span.end));
        timeline.stages.finish(timeline.end);
        timeline.share_pauses();
        timeline.pauses.extend(ranks::common_pauses(&timeline));
        timeline.unseen = UnseenKernels::of(&timeline);
        timeline.pauses.extend_from_slice(timeline.unseen.pauses());
        timeline.mark_first_waits();
        timeline.mark_failed_waits();
        timeline.mark_cut_steps();
        timeline.find_threads();
        timeline.find_what_workers_serve();
        let makers = timeline.stages.lanes();
        let makers = makers
            .filter_map(|(track, _)| tid_of(trace, track))
            .collect();
        timeline.kernel = Threads::of(trace, &makers);
        timeline.spans = UserSpans::of(&timeline);
        timeline.sampling = Sampling::of(&timeline);
        timeline.stopping = Stopping::of(&timeline);
        timeline
    }

    fn take(&mut self, slice: &Slice) {
        let cat = Some(slice.cat);
        let span = self.clip(slice.span);
        if let Some(role) = self.role(slice.cat) {
            let wait = self.wait(role, slice, span);
            self.waits.push(wait);
        } else if cat == self.names.cat.data_get || cat == self.names.cat.data_collate {
            self.stages.take(&self.names, slice, span);
        } else if cat == self.names.cat.step {
            self.steps.push(Step {
                loader: self.loader(slice),
                epoch: integer(&slice.args, self.names.key.epoch),
                index: integer(&slice.args, self.names.key.step),
                thread: id(&slice.args, self.names.key.thread).map(Tid),
                span,
                whole: slice.span.len(),
                recorded: span.len(),
                cut: flag(&slice.args, self.names.key.unfinished),
            });
        } else if cat == self.names.cat.phase {
            self.phases.push(Phase {
                track: slice.track,
                name: slice.name,
                span,
            });
        } else if cat == self.names.cat.pause {
            match id(&slice.args, self.names.key.process).map(Pid) {
                Some(pid) => self.pauses_of.entry(pid).or_default().push(span),
                None => self.pauses.push(span),
            }
        }
    }

    /// The call that a slice of this category is; `None` if it is none.
    pub(crate) fn role(&self, cat: Symbol) -> Option<Role> {
        let cat = Some(cat);
        if cat == self.names.cat.data_wait {
            Some(Role::Batch)
        } else if cat == self.names.cat.epoch_end {
            Some(Role::EpochEnd)
        } else if cat == self.names.cat.epoch_start {
            Some(Role::EpochStart)
        } else {
            None
        }
    }

    fn wait(&self, role: Role, slice: &Slice, span: Interval) -> Wait {
        let key = &self.names.key;
        let args = &slice.args;
        Wait {
            role,
            track: slice.track,
            loader: self.loader(slice),
            epoch: integer(args, key.epoch),
            step: integer(args, key.step),
            batch: integer(args, key.batch),
            worker: id(args, key.worker).map(Tid),
            keeps_workers: flag(args, key.persistent),
            num_workers: integer(args, key.num_workers),
            new_loader: flag(args, key.new_loader),
            prefetch: integer(args, key.prefetch),
            iterable: flag(args, key.iterable),
            span,
            cpu: integer(args, key.cpu_ns).map(Nanos::new),
            unfinished: flag(args, key.unfinished),
            failed: text(args, key.error).is_some(),
            until: span.end,
            first: false,
            annotated: false,
            aside: false,
            in_process: None,
        }
    }

    fn loader(&self, slice: &Slice) -> LoaderKey {
        let valid = text(&slice.args, self.names.key.kind)
            .is_some_and(|symbol| self.trace.text(symbol) == kind::VALID);
        LoaderKey {
            name: text(&slice.args, self.names.key.loader),
            kind: if valid { Kind::Valid } else { Kind::Train },
        }
    }

    pub(crate) fn clip(&self, span: Interval) -> Interval {
        span.intersection(Interval::new(TraceTime::ZERO, self.end))
    }

    /// A wait says its step; where it does not, the first one seen of an epoch is its first.
    fn mark_first_waits(&mut self) {
        let mut seen = HashSet::new();
        // Another profiler may have started within an epoch.
        let batches = |wait: &&mut Wait| wait.role == Role::Batch && !wait.annotated;
        for wait in self.waits.iter_mut().filter(batches) {
            let new = seen.insert((wait.loader, wait.track, wait.epoch));
            wait.first = wait.step.map_or(new, |step| step == 0);
        }
    }

    /// A wait that failed waits in vain from when the first thing went wrong that its thread was told of.
    fn mark_failed_waits(&mut self) {
        let instants = self.trace.instants.iter();
        let faults = instants.filter(|instant| Some(instant.cat) == self.names.cat.fault);
        let mut faults: Vec<(TrackId, TraceTime)> = faults.map(|of| (of.track, of.at)).collect();
        faults.sort_unstable();
        let mut before: HashMap<TrackId, TraceTime> = HashMap::new();
        for wait in &mut self.waits {
            let before = before.insert(wait.track, wait.span.end).unwrap_or_default();
            if !wait.failed {
                continue;
            }
            // It may have gone wrong while the thread did something else.
            let since = before.min(wait.span.start);
            let first = faults.partition_point(|&of| of < (wait.track, since));
            let first = faults.get(first).filter(|of| of.0 == wait.track);
            let until = first.map_or(wait.span.end, |of| of.1.min(wait.span.end));
            wait.until = until.max(wait.span.start);
        }
    }

    /// A pause of one process is one of all, unless several ranks were recorded, or several processes
    /// that run steps and no device.
    fn share_pauses(&mut self) {
        if self.pauses_of.is_empty() || self.trace.meta.members.len() > 1 {
            return;
        }
        let process = |step: &Step| {
            let mut tracks = self.trace.tracks.iter();
            let runs =
                |track: &&Track| Some(track.tid) == step.thread && track.kind == TrackKind::Thread;
            tracks.find(runs).map(|track| track.pid)
        };
        let threads: HashMap<Option<Tid>, &Step> =
            self.steps.iter().map(|step| (step.thread, step)).collect();
        let processes: HashSet<Option<Pid>> = threads.values().map(|step| process(step)).collect();
        if self.names.cat.kernel.is_some() || processes.len() < 2 {
            let of = std::mem::take(&mut self.pauses_of);
            self.pauses.extend(of.into_values().flatten());
        }
    }

    /// A step is complete if hardly any of it lies in pauses or after the end of the recording.
    fn mark_cut_steps(&mut self) {
        let all = [Interval::new(TraceTime::ZERO, self.end)];
        let recorded = without(&all, &self.pauses);
        let of_process = |(pid, pauses): (&Pid, &Vec<Interval>)| {
            let pauses: Vec<Interval> = pauses.iter().chain(&self.pauses).copied().collect();
            (*pid, without(&all, &pauses))
        };
        let recorded_of: HashMap<Pid, Vec<Interval>> =
            self.pauses_of.iter().map(of_process).collect();
        let process = |tid: Tid| {
            let mut tracks = self.trace.tracks.iter();
            let thread = tracks.find(|track| track.tid == tid && track.kind == TrackKind::Thread);
            recorded_of.get(&thread?.pid)
        };
        let mut known: HashMap<Tid, &Vec<Interval>> = HashMap::new();
        for step in &mut self.steps {
            let recorded = match step.thread.filter(|_| !recorded_of.is_empty()) {
                Some(tid) => known
                    .entry(tid)
                    .or_insert_with(|| process(tid).unwrap_or(&recorded)),
                None => &recorded,
            };
            step.recorded = total(&during(recorded, step.span));
            let missing = step.whole - step.recorded;
            step.cut |= missing.get() > step.whole.get() / MAX_UNRECORDED;
        }
    }

    /// Of several threads with one id, the one that ran a loop; then the recorded process's.
    fn find_threads(&mut self) {
        let loops: HashSet<TrackId> = self.waits.iter().map(|wait| wait.track).collect();
        for (i, track) in self.trace.tracks.iter().enumerate() {
            let Ok(i) = u32::try_from(i) else { break };
            if track.kind != TrackKind::Thread {
                continue;
            }
            let rank = (
                loops.contains(&TrackId(i)),
                track.pid == self.trace.meta.pid,
            );
            let best = self.threads.entry(track.tid).or_insert((TrackId(i), rank));
            if rank > best.1 {
                *best = (TrackId(i), rank);
            }
        }
    }

    fn find_what_workers_serve(&mut self) {
        for wait in &self.waits {
            for &stage in wait.batch.map_or(&[][..], |b| self.stages.of_batch(b)) {
                if let Some(stage) = self.stages.get(stage).filter(|s| s.track != wait.track) {
                    self.serves
                        .entry(stage.track)
                        .or_insert((wait.loader, wait.track));
                }
            }
        }
    }

    /// The cause that the name of a phase stands for.
    pub(crate) fn cause_of_phase(&self, name: Symbol) -> Option<Cause> {
        match self.meanings.get(&name) {
            Some(&Meaning::Marked(cause)) => Some(cause),
            _ => Cause::of_phase(self.trace.text(name)),
        }
    }

    /// The name of a loader, for people.
    pub(crate) fn loader_name(&self, loader: LoaderKey) -> &'a str {
        match loader.name.map(|symbol| self.trace.text(symbol)) {
            Some(name) if !name.is_empty() => foreign::loader_name(name),
            _ => "(unnamed)",
        }
    }

    /// The name of a thread, for people; in a trace of several ranks with its own, or with that of the
    /// thread that it makes batches for.
    pub(crate) fn thread_name(&self, track: TrackId) -> String {
        let Some(thread) = self.trace.track(track) else {
            return "unknown thread".to_owned();
        };
        let name = match self.trace.text(thread.name) {
            "" => format!("thread {}", thread.tid),
            name => name.to_owned(),
        };
        if self.ranks.is_empty() {
            return name;
        }
        let taker = || self.trace.track(self.serves.get(&track)?.1);
        let rank = |pid: Pid| self.ranks.get(&pid).copied();
        match rank(thread.pid).or_else(|| rank(taker()?.pid)) {
            Some(rank) => of_rank(&name, rank),
            None => name,
        }
    }

    /// What the kernel recorded of the thread of a track.
    pub(crate) fn lane(&self, track: TrackId) -> Option<&Lane> {
        self.kernel.get(tid_of(self.trace, track)?)
    }

    /// The OS thread with this id.
    pub(crate) fn thread(&self, tid: Tid) -> Option<TrackId> {
        self.threads.get(&tid).map(|&(track, _)| track)
    }
}
