//! Whether a loader's batches train the model, and what the steps of the training are.

use super::ahead::{Optimized, any};
use super::calls::{Call, Outcome};
use super::loaders::{Identities, Identity};
use super::loops::{Loop, LoopStep, StepEnd};
use super::record::Recording;
use gpustall_trace::vocab::kind::{TRAIN, VALID};
use std::collections::{BTreeMap, BTreeSet};

/// What the loaders of a process are for.
pub(super) struct Kinds {
    /// Of each, one of [`kind`](gpustall_trace::vocab::kind).
    pub(super) of: BTreeMap<u32, &'static str>,
    /// Steps that are in none of a loader, from an optimizer's to its next one: when, by thread.
    pub(super) steps: Vec<(u32, u64, u64)>,
    /// Whether those are all steps of the training: its batches come in a way that is not known.
    pub(super) apart: bool,
}

/// What the loaders of a process are for.
///
/// A loader in whose steps an optimizer stepped trains, unless it was only asked while no gradients were
/// wanted, and another one was not. Of the others, those evaluate that stand beside one that trains, and
/// those that were only asked while no gradients were wanted. Where optimizers step in no step of a loader,
/// no training loop is that of a thread on which no optimizer steps, if it is known that the program
/// started the one that does.
pub(super) fn kinds(recording: &Recording, loops: &[Loop], optimized: &Optimized) -> Kinds {
    let mut gradients = BTreeSet::new();
    let mut near = BTreeSet::new();
    let mut stepped = BTreeSet::new();
    let known = optimized
        .keys()
        .all(|tid| recording.threads.contains_key(tid));
    let may_train =
        |tid: u32| optimized.contains_key(&tid) || (tid == recording.process.pid && !known);
    for of in loops {
        let loader = of.info.loader;
        if of.calls.iter().any(|call| may_train(call.tid)) {
            near.insert(loader);
        }
        if of.steps().iter().any(|step| trains_in(optimized, step)) {
            stepped.insert(loader);
        }
        let mut batches = of.calls.iter().filter(|c| c.outcome == Outcome::Batch);
        if batches.any(|call| call.gradients) {
            gradients.insert(loader);
        }
    }
    let wanted: BTreeSet<u32> = stepped.intersection(&gradients).copied().collect();
    let trains = if wanted.is_empty() { stepped } else { wanted };
    let steps = steps(optimized, loops, &trains);
    let apart = trains.is_empty() && !steps.is_empty();
    let kind = |of: &Loop| {
        let loader = of.info.loader;
        let is_train = match trains.is_empty() {
            true => gradients.contains(&loader) && (!apart || near.contains(&loader)),
            false => trains.contains(&loader),
        };
        (loader, if is_train { TRAIN } else { VALID })
    };
    Kinds {
        of: loops.iter().map(kind).collect(),
        steps,
        apart,
    }
}

impl Kinds {
    /// A loader that is made anew for each epoch may have come to no step in the last one: it is what it was
    /// before.
    pub(super) fn follow(&mut self, loops: &[Loop], loaders: &Identities) {
        let complete = |of: &Loop| {
            of.steps()
                .iter()
                .any(|step| matches!(step.end, StepEnd::At(_)))
        };
        let complete: BTreeSet<u32> = loops
            .iter()
            .filter(|of| complete(of))
            .map(|of| of.info.loader)
            .collect();
        let train: BTreeSet<&Identity> = (self.of.iter())
            .filter(|(loader, kind)| **kind == TRAIN && complete.contains(loader))
            .filter_map(|(loader, _)| loaders.get(loader))
            .collect();
        for (loader, kind) in &mut self.of {
            let same = loaders.get(loader).is_some_and(|of| train.contains(of));
            if same && !complete.contains(loader) {
                *kind = TRAIN;
            }
        }
    }
}

/// Whether a loop gave batches to a thread on which no optimizer steps.
pub(super) fn hands_on(of: &Loop, optimized: &Optimized) -> bool {
    let gave = |call: &&Call| call.outcome == Outcome::Batch && call.gradients;
    let mut calls = of.calls.iter().filter(gave);
    calls.any(|call| !optimized.contains_key(&call.tid))
}

fn trains_in(optimized: &Optimized, step: &LoopStep) -> bool {
    let spans = optimized.get(&step.tid).map_or(&[][..], Vec::as_slice);
    match step.end {
        StepEnd::At(end) => any(spans, step.start, end),
        _ => false,
    }
}

/// From one step of an optimizer to its next one, where neither is in a step of a loader that trains and
/// none that is lies between. Of several optimizers of a thread, the first one counts.
fn steps(optimized: &Optimized, loops: &[Loop], trains: &BTreeSet<u32>) -> Vec<(u32, u64, u64)> {
    let mut covered: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    let training = loops.iter().filter(|of| trains.contains(&of.info.loader));
    for step in training.flat_map(Loop::steps) {
        let end = match step.end {
            StepEnd::At(end) | StepEnd::Cut(end) => end,
            StepEnd::Open => u64::MAX,
            // Up to the next one.
            StepEnd::Unknown => step.start + 1,
        };
        covered.entry(step.tid).or_default().push((step.start, end));
    }
    for spans in covered.values_mut() {
        spans.sort_unstable();
        let mut until = 0;
        for (_, end) in spans {
            until = until.max(*end);
            *end = until;
        }
    }
    let is_covered = |tid: u32, at: u64| {
        let spans = covered.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = spans.partition_point(|&(start, _)| start <= at);
        after.checked_sub(1).is_some_and(|i| at < spans[i].1)
    };
    let mut found = Vec::new();
    for (&tid, spans) in optimized {
        let mut last = None;
        for &(at, _, optimizer) in spans {
            if is_covered(tid, at) {
                last = None;
                continue;
            }
            let &mut (first, ref mut start) = last.get_or_insert((optimizer, at));
            if first == optimizer && at > *start {
                found.push((tid, *start, at));
                *start = at;
            }
        }
    }
    found.sort_by_key(|&(_, start, _)| start);
    found
}

#[cfg(test)]
mod tests {
    use super::super::ahead::optimized;
    use super::super::loops::loops;
    use super::super::mark::{Kind, Mark};
    use super::super::record::ThreadInfo;
    use super::*;

    const MAIN: u32 = 7;

    /// Five batches that the thread `takes` asks a loader for, and as many steps of an optimizer
    /// on the thread `trains`.
    fn recording(takes: u32, trains: u32) -> Recording {
        let mut recording = Recording::of_loop(MAIN, takes);
        for at in [10, 20, 30, 40, 50] {
            let next = Mark::at(Kind::Next, takes, (at, at + 2));
            let optimized = Mark::at(Kind::Optimized, trains, (at + 6, at + 7));
            recording.marks.extend([next, optimized]);
        }
        recording
    }

    fn told(recording: &Recording) -> (&'static str, usize) {
        let loops = loops(recording);
        let found = kinds(recording, &loops, &optimized(recording, &loops));
        (found.of[&1], found.steps.len())
    }

    /// What is known of the thread: whether the program started it.
    fn with_thread(mut recording: Recording, tid: u32, python: bool) -> Recording {
        let name = String::new();
        recording
            .threads
            .insert(tid, ThreadInfo { tid, name, python });
        recording
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
    fn the_main_thread_hands_on_if_the_program_started_the_thread_that_trains() {
        let started = with_thread(recording(MAIN, 8), 8, true);
        assert_eq!(told(&started), (VALID, 4));
        // PyTorch applies gradients on a thread of its own.
        let backward = with_thread(recording(MAIN, 8), 8, false);
        assert_eq!(told(&backward), (TRAIN, 0));
    }

    #[test]
    fn steps_that_go_on_after_the_last_loop_are_steps_too() {
        let mut cached = recording(MAIN, MAIN);
        let mut end = Mark::at(Kind::Next, MAIN, (60, 61));
        end.d = 1;
        cached.marks.push(end);
        for at in [70, 80, 90] {
            cached
                .marks
                .push(Mark::at(Kind::Optimized, MAIN, (at, at + 1)));
        }
        assert_eq!(told(&cached), (TRAIN, 2));
    }

    #[test]
    fn a_loader_that_is_only_asked_without_gradients_does_not_train_beside_one_that_does() {
        let mut nested = recording(MAIN, MAIN);
        let mut other = nested.iterations[0].clone();
        (other.number, other.loader) = (2, 2);
        nested.iterations.push(other);
        for at in [14, 34] {
            let mut next = Mark::at(Kind::Next, MAIN, (at, at + 1));
            (next.a, next.d) = (2, 4);
            nested.marks.push(next);
        }
        let loops = loops(&nested);
        let found = kinds(&nested, &loops, &optimized(&nested, &loops));
        assert_eq!((found.of[&1], found.of[&2]), (TRAIN, VALID));
    }

    #[test]
    fn without_steps_of_an_optimizer_a_loader_trains_wherever_it_is_asked() {
        let mut none = recording(8, MAIN);
        none.marks.retain(|mark| mark.kind == Kind::Next);
        assert_eq!(told(&none), (TRAIN, 0));
    }
}
