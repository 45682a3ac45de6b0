//! Taking in what another profiler annotated: its steps, its loaders' `next()`, its phases.

use crate::events::{Kind, LoaderKey, Phase, Role, Step, Wait};
use crate::foreign::Meaning;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Slice, TrackId};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

impl Timeline<'_> {
    /// Reads the annotations. Steps of our own come before those of another profiler.
    pub(crate) fn take_annotations(&mut self) {
        let (annotation, op) = (self.names.cat.user_annotation, self.names.cat.cpu_op);
        let python = self.names.cat.python_function;
        if annotation.is_none() && op.is_none() {
            return;
        }
        let own_steps = !self.steps.is_empty();
        // In old files what the user marks stands among the operators.
        let old = self.trace.meta.recorder == "kineto (legacy)";
        let mut trainers = HashSet::new();
        for slice in &self.trace.slices {
            let user = Some(slice.cat) == annotation;
            let frame = python.is_some() && Some(slice.cat) == python;
            if !user && !frame && Some(slice.cat) != op {
                continue;
            }
            match self.meanings.get(&slice.name).copied() {
                Some(Meaning::Step(number)) if !own_steps => {
                    trainers.insert(slice.track);
                    self.foreign_step(slice, number);
                }
                Some(Meaning::Step(_)) => {}
                Some(Meaning::Loader(in_process)) => self.foreign_wait(slice, in_process),
                Some(Meaning::Data) => self.foreign_wait(slice, None),
                Some(Meaning::Framework | Meaning::Compiles) => self.foreign_phase(slice),
                Some(Meaning::Marked(_)) if user || frame || old => self.foreign_phase(slice),
                None if user => self.foreign_phase(slice),
                Some(Meaning::Marked(_)) | None => {}
            }
        }
        self.merge_nested_waits();
        self.take_steps_of_loop();
        if self.steps_of_loop {
            let of_step = self.steps.first().and_then(|step| step.thread);
            let tracks = self.waits.iter().map(|wait| wait.track);
            let of_trainer = |&track: &TrackId| self.trace.track(track).map(|t| t.tid) == of_step;
            trainers.extend(tracks.filter(of_trainer));
        }
        self.foreign = !own_steps && !self.steps.is_empty();
        if self.foreign {
            self.tell_waits_of_trainers(&trainers);
        }
    }

    fn foreign_step(&mut self, slice: &Slice, number: u64) {
        self.steps.push(Step {
            loader: LoaderKey {
                name: None,
                kind: Kind::Train,
            },
            epoch: None,
            index: Some(number),
            thread: self.trace.track(slice.track).map(|track| track.tid),
            span: self.clip(slice.span),
            whole: slice.span.len(),
            recorded: self.clip(slice.span).len(),
            cut: false,
        });
    }

    fn foreign_wait(&mut self, slice: &Slice, in_process: Option<bool>) {
        let span = self.clip(slice.span);
        self.waits.push(Wait {
            role: Role::Batch,
            track: slice.track,
            loader: LoaderKey {
                name: Some(slice.name),
                kind: Kind::Train,
            },
            epoch: None,
            step: None,
            batch: None,
            worker: None,
            keeps_workers: false,
            num_workers: None,
            new_loader: false,
            prefetch: None,
            iterable: false,
            span,
            cpu: None,
            unfinished: false,
            failed: false,
            until: span.end,
            first: false,
            annotated: true,
            aside: false,
            in_process,
        });
    }

    fn foreign_phase(&mut self, slice: &Slice) {
        self.phases.push(Phase {
            track: slice.track,
            name: slice.name,
            span: self.clip(slice.span),
        });
    }

    /// What other threads than those with steps annotate, a prefetcher say, is no wait for a loader.
    fn tell_waits_of_trainers(&mut self, trainers: &HashSet<TrackId>) {
        let annotated = self.waits.iter_mut().filter(|wait| wait.annotated);
        annotated.for_each(|wait| wait.aside = !trainers.contains(&wait.track));
    }

    /// An annotated wait around or inside another wait is the same wait: one of ours stays, else
    /// the outermost, under the name of the loader inside it.
    fn merge_nested_waits(&mut self) {
        self.waits
            .sort_by_key(|wait| (wait.span.start, Reverse(wait.span.end)));
        let meanings = &self.meanings;
        let mut kept: Vec<Wait> = Vec::with_capacity(self.waits.len());
        let mut last: HashMap<TrackId, usize> = HashMap::new();
        for wait in self.waits.drain(..) {
            let inside = |outer: Interval| {
                outer.start <= wait.span.start && wait.span.end <= outer.end && !outer.is_empty()
            };
            let outer = last.get(&wait.track).copied();
            match outer.and_then(|i| kept.get_mut(i)) {
                Some(outer) if inside(outer.span) && wait.annotated => {
                    let loader = wait.loader.name.and_then(|name| meanings.get(&name));
                    if outer.annotated && matches!(loader, Some(Meaning::Loader(_))) {
                        outer.in_process = wait.in_process;
                        outer.loader = wait.loader;
                    }
                }
                Some(outer) if inside(outer.span) && outer.annotated => {
                    *outer = Wait {
                        in_process: outer.in_process,
                        ..wait
                    };
                }
                _ => {
                    last.insert(wait.track, kept.len());
                    kept.push(wait);
                }
            }
        }
        self.waits = kept;
    }
}
