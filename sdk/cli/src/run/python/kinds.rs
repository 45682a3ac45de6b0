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
/// one that trains, and those that were only asked while no gradients were wanted. Where optimizers step
/// in no step of a loader, no training loop is that of a thread that hands batches on: one other than
/// the main thread, on which no optimizer steps.
pub(super) fn kinds(recording: &Recording, loops: &[Loop]) -> Kinds {
    let optimized = optimizer_steps(recording);
    let mut trains = BTreeSet::new();
    let mut gradients = BTreeSet::new();
    // Gradients may be applied while they are computed, on a thread of PyTorch's own: the main thread is
    // no feeder for that.
    let may_train = |tid: u32| tid == recording.process.pid || optimized.contains_key(&tid);
    let mut near = BTreeSet::new();
    for of in loops {
        if of.calls.iter().any(|call| may_train(call.tid)) {
            near.insert(of.info.loader);
        }
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
    let steps = match trains.is_empty() {
        true => steps(recording),
        false => Vec::new(),
    };
    let kind = |of: &Loop| {
        let loader = of.info.loader;
        let is_train = match trains.is_empty() {
            true => gradients.contains(&loader) && (steps.is_empty() || near.contains(&loader)),
            false => trains.contains(&loader),
        };
        (loader, if is_train { TRAIN } else { VALID })
    };
    Kinds {
        of: loops.iter().map(kind).collect(),
        steps,
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

#[cfg(test)]
mod tests {
    use super::super::loops::loops;
    use super::super::record::{IterationInfo, Mark};
    use super::*;

    const MAIN: u32 = 7;

    fn mark(kind: Kind, tid: u32, (start, end): (u64, u64)) -> Mark {
        Mark {
            kind,
            start,
            end,
            cpu: None,
            ready: None,
            n: 0,
            tid,
            a: 1,
            b: 0,
            c: 0,
            d: 0,
        }
    }

    /// Five batches that the thread `takes` asks a loader for, and as many steps of an optimizer
    /// on the thread `trains`.
    fn recording(takes: u32, trains: u32) -> Recording {
        let mut recording = Recording::default();
        recording.process.pid = MAIN;
        recording.iterations.push(IterationInfo {
            number: 1,
            loader: 1,
            thread: takes,
            start: 8,
            end: 9,
            workers: Vec::new(),
        });
        for at in [10, 20, 30, 40, 50] {
            let next = mark(Kind::Next, takes, (at, at + 2));
            let optimized = mark(Kind::Optimized, trains, (at + 6, at + 7));
            recording.marks.extend([next, optimized]);
        }
        recording
    }

    fn told(recording: &Recording) -> (&'static str, usize) {
        let found = kinds(recording, &loops(recording));
        (found.of[&1], found.steps.len())
    }

    #[test]
    fn a_thread_that_hands_batches_on_has_no_loop_of_training() {
        assert_eq!(told(&recording(8, MAIN)), (VALID, 4));
        assert_eq!(told(&recording(8, 9)), (VALID, 4));
    }

    #[test]
    fn a_loader_trains_on_the_thread_of_its_optimizer_and_on_the_main_thread() {
        assert_eq!(told(&recording(8, 8)), (TRAIN, 0));
        assert_eq!(told(&recording(MAIN, MAIN)), (TRAIN, 0));
        assert_eq!(told(&recording(MAIN, 8)), (TRAIN, 4));
    }

    #[test]
    fn without_steps_of_an_optimizer_a_loader_trains_wherever_it_is_asked() {
        let mut none = recording(8, MAIN);
        none.marks.retain(|mark| mark.kind == Kind::Next);
        assert_eq!(told(&none), (TRAIN, 0));
    }
}
