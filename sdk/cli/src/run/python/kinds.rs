//! Whether a loader's batches train the model.

use super::loops::{Loop, Outcome, StepEnd};
use super::record::{Kind, Recording};
use gpustall_trace::vocab::kind::{TRAIN, VALID};
use std::collections::{BTreeMap, BTreeSet};

/// What each loader of a process is for: one of [`kind`](gpustall_trace::vocab::kind).
///
/// A loader in whose steps an optimizer stepped trains. Of the others, those evaluate that stand beside
/// one that trains, and those that were only asked while no gradients were wanted.
pub(super) fn kinds(recording: &Recording, loops: &[Loop]) -> BTreeMap<u32, &'static str> {
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
    loops.iter().map(kind).collect()
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
