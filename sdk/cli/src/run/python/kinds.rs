//! Whether a loader's batches train the model, and what the steps of the training are.

use super::loops::{Loop, Outcome, StepEnd};
use super::record::{Kind, Recording};
use gpustall_trace::vocab::kind::{TRAIN, VALID};
use std::collections::{BTreeMap, BTreeSet};

/// What the loaders of a process are for.
pub(super) struct Kinds {
    /// Of each, one of [`kind`](gpustall_trace::vocab::kind).
    pub(super) of: BTreeMap<u32, &'static str>,
    /// If optimizers step, but in no step of a loader: from when to when their steps are, by thread.
    pub(super) steps: Vec<(u32, u64, u64)>,
}

/// What the loaders of a process are for.
///
/// A loader in whose steps an optimizer stepped trains. Of the others, those evaluate that stand beside
/// one that trains, and those that were only asked while no gradients were wanted.
pub(super) fn kinds(recording: &Recording, loops: &[Loop]) -> Kinds {
    let optimized = optimizer_steps(recording);
    let mut trains = BTreeSet::new();
    let mut gradients = BTreeSet::new();
    for of in loops {
        for (call, end) in of.steps() {
            if let StepEnd::At(end) = end
                && any_between(&optimized, call.tid, call.start, end)
            {
                trains.insert(of.info.loader);
            }
        }
        let batches = of.calls.iter().filter(|c| c.outcome == Outcome::Batch);
        if batches.into_iter().any(|call| call.gradients) {
            gradients.insert(of.info.loader);
        }
    }
    let kind = |of: &Loop| {
        let loader = of.info.loader;
        let is_train = match trains.is_empty() {
            true => gradients.contains(&loader),
            false => trains.contains(&loader),
        };
        (loader, if is_train { TRAIN } else { VALID })
    };
    Kinds {
        of: loops.iter().map(kind).collect(),
        steps: match trains.is_empty() {
            true => steps(recording),
            false => Vec::new(),
        },
    }
}

/// From one step of an optimizer to its next one. Of several optimizers of a thread, the first one
/// counts.
fn steps(recording: &Recording) -> Vec<(u32, u64, u64)> {
    let mut last: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut found = Vec::new();
    for mark in recording.marks.iter().filter(|m| m.kind == Kind::Optimized) {
        let (optimizer, start) = last.entry(mark.tid).or_insert((mark.a, mark.start));
        if *optimizer == mark.a && mark.start > *start {
            found.push((mark.tid, *start, mark.start));
            *start = mark.start;
        }
    }
    found
}

/// When optimizers began to step, by thread, in order.
fn optimizer_steps(recording: &Recording) -> BTreeMap<u32, Vec<u64>> {
    let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for mark in &recording.marks {
        if mark.kind == Kind::Optimized {
            of.entry(mark.tid).or_default().push(mark.start);
        }
    }
    for starts in of.values_mut() {
        starts.sort_unstable();
    }
    of
}

fn any_between(of: &BTreeMap<u32, Vec<u64>>, tid: u32, start: u64, end: u64) -> bool {
    let starts = of.get(&tid).map_or(&[][..], Vec::as_slice);
    let first = starts.partition_point(|&at| at < start);
    starts.get(first).is_some_and(|&at| at < end)
}
