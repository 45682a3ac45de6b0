//! Steps of a file of PyTorch that marks none: the loop is known by what it calls.

use crate::events::{Kind, LoaderKey, Step, Wait};
use crate::foreign::{Meaning, is_optimizer_step};
use crate::timeline::Timeline;
use gpustall_trace::{Interval, TraceTime, TrackId};
use std::collections::BTreeMap;

impl Timeline<'_> {
    /// Takes the steps from the calls of a loop that PyTorch names, where the file marks none: a step
    /// begins with the first wait for data after an optimizer's step; without an optimizer, with each
    /// `next()` of a loader; without waits, where an optimizer's step ends. The part before the first
    /// and after the last is none.
    pub(crate) fn take_steps_of_loop(&mut self) {
        if !self.steps.is_empty() || self.waits.iter().any(|wait| !wait.annotated) {
            return;
        }
        let Some(track) = self.looping() else { return };
        let Some(thread) = self.trace.track(track).map(|track| track.tid) else {
            return;
        };
        let begins = self.begins(track);
        let spans = begins.windows(2).map(|two| Interval::new(two[0], two[1]));
        for (number, span) in (1..).zip(spans.filter(|span| !span.is_empty())) {
            self.steps.push(Step {
                loader: LoaderKey {
                    name: None,
                    kind: Kind::Train,
                },
                epoch: None,
                index: Some(number),
                thread: Some(thread),
                span,
                whole: span.len(),
                recorded: span.len(),
                cut: false,
            });
        }
        self.steps_of_loop = !self.steps.is_empty();
    }

    /// The thread that calls optimizers the most, else the one that calls loaders the most.
    fn looping(&self) -> Option<TrackId> {
        let most = |tracks: &mut dyn Iterator<Item = TrackId>| {
            let mut calls: BTreeMap<TrackId, usize> = BTreeMap::new();
            tracks.for_each(|track| *calls.entry(track).or_default() += 1);
            calls.retain(|_, calls| *calls > 1);
            let most = calls
                .into_iter()
                .max_by_key(|&(track, calls)| (calls, std::cmp::Reverse(track)));
            most.map(|(track, _)| track)
        };
        let optimizers = self.phases.iter().filter(|phase| self.is_step(phase.name));
        most(&mut optimizers.map(|phase| phase.track)).or_else(|| {
            let waits = self.waits.iter().filter(|wait| self.is_loader(wait));
            most(&mut waits.map(|wait| wait.track))
        })
    }

    /// Whether it is PyTorch that says what is waited for, and not the user.
    fn is_loader(&self, wait: &Wait) -> bool {
        let meaning = wait.loader.name.and_then(|name| self.meanings.get(&name));
        matches!(meaning, Some(Meaning::Loader(_)))
    }

    fn is_step(&self, name: gpustall_trace::Symbol) -> bool {
        is_optimizer_step(self.trace.text(name))
    }

    /// When the steps of a thread begin, in order.
    fn begins(&self, track: TrackId) -> Vec<TraceTime> {
        let optimizers = self
            .phases
            .iter()
            .filter(|of| of.track == track && self.is_step(of.name));
        let first = optimizers
            .clone()
            .min_by_key(|of| of.span.start)
            .map(|of| of.name);
        let mut ends: Vec<TraceTime> = optimizers.clone().map(|of| of.span.end).collect();
        ends.sort_unstable();
        let waits = self.waits.iter().filter(|wait| wait.track == track);
        let mut waits: Vec<TraceTime> = waits.map(|wait| wait.span.start).collect();
        waits.sort_unstable();
        if waits.is_empty() {
            // Of several optimizers in one loop, one.
            let one = optimizers.filter(|of| Some(of.name) == first);
            let mut ends: Vec<TraceTime> = one.map(|of| of.span.end).collect();
            ends.sort_unstable();
            return ends;
        }
        let mut begins: Vec<TraceTime> = Vec::new();
        for wait in waits {
            let stepped = begins.last().is_none_or(|&last| {
                let after = ends.partition_point(|&end| end <= last);
                ends.is_empty() || ends.get(after).is_some_and(|&end| end <= wait)
            });
            if stepped {
                begins.push(wait);
            }
        }
        begins
    }
}
