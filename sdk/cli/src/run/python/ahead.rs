//! Loops that ask for a batch before they use the one before it, to know which one is the last.

use super::calls::Outcome;
use super::loops::{Loop, LoopStep, StepEnd};
use super::mark::{Kind, Mark};
use super::record::Recording;
use std::collections::{BTreeMap, BTreeSet};

/// A step of an optimizer: from when to when, and of which one.
pub(super) type OptimizerStep = (u64, u64, u32);

/// Steps of optimizers, by thread, in order.
pub(super) type Optimized = BTreeMap<u32, Vec<OptimizerStep>>;

/// The steps of optimizers in a process. Those on threads of PyTorch's own, which applies gradients while it
/// computes them, count for the main thread, or for the only one that asks loaders.
pub(super) fn optimized(recording: &Recording, loops: &[Loop]) -> Optimized {
    let main = recording.process.pid;
    let asks: BTreeSet<u32> = loops
        .iter()
        .flat_map(|of| &of.calls)
        .map(|call| call.tid)
        .collect();
    let receives = |mark: &Mark| mark.kind == Kind::Received && mark.tid == main;
    let owner = match asks.first() {
        Some(&one) if asks.len() == 1 && !recording.marks.iter().any(receives) => one,
        _ => main,
    };
    let mut of = Optimized::new();
    for mark in recording.marks.iter().filter(|m| m.kind == Kind::Optimized) {
        let tid = if recording.is_foreign(mark.tid) {
            owner
        } else {
            mark.tid
        };
        of.entry(tid)
            .or_default()
            .push((mark.start, mark.end, mark.a));
    }
    for spans in of.values_mut() {
        spans.sort_unstable();
    }
    of
}

/// Finds the loops that are one batch ahead: no optimizer steps in the first step, one does in most of the
/// others, and once more after the call that ended the loop, before the thread begins another one.
pub(super) fn find(loops: &mut [Loop], optimized: &Optimized) {
    let begins: Vec<(u32, u64)> = loops
        .iter()
        .map(|of| (of.info.thread, of.info.start))
        .collect();
    for of in loops {
        let Some(end) = of.calls.last().filter(|call| call.outcome == Outcome::End) else {
            continue;
        };
        let spans = optimized.get(&end.tid).map_or(&[][..], Vec::as_slice);
        let steps = of.steps();
        let steps_in = |step: &LoopStep| match step.end {
            StepEnd::At(end) => any(spans, step.start, end),
            _ => false,
        };
        let with = steps.iter().filter(|step| steps_in(step)).count();
        let leads = steps.first().is_none_or(steps_in);
        if leads || 2 * with < steps.len() {
            continue;
        }
        let others = begins
            .iter()
            .filter(|&&(tid, at)| tid == end.tid && at >= end.end);
        let until = others.map(|&(_, at)| at).min().unwrap_or(u64::MAX);
        let first = spans.partition_point(|&(start, ..)| start < end.end);
        let after = spans.get(first).filter(|&&(start, ..)| start < until);
        if let Some(&(_, used, _)) = after {
            of.ahead = Some(used.max(of.dropped().unwrap_or(0).min(until)));
        }
    }
}

/// Whether one of the steps begins in `[start, end)`.
pub(super) fn any(spans: &[OptimizerStep], start: u64, end: u64) -> bool {
    let first = spans.partition_point(|&(at, ..)| at < start);
    spans.get(first).is_some_and(|&(at, ..)| at < end)
}

#[cfg(test)]
mod tests {
    use super::super::loops::loops;
    use super::*;

    const MAIN: u32 = 7;

    fn mark(kind: Kind, span: (u64, u64), d: u32) -> Mark {
        Mark {
            d,
            ..Mark::at(kind, MAIN, span)
        }
    }

    /// A loop of `batches`, which begin at 10, 20 and so on, and its end; steps of an optimizer at `steps`.
    fn recording(batches: u64, steps: &[u64], dropped: Option<u64>) -> Recording {
        let mut recording = Recording::of_loop(MAIN, MAIN);
        for i in 1..=batches {
            let next = mark(Kind::Next, (10 * i, 10 * i + 2), 0);
            recording.marks.push(next);
        }
        let end = 10 * batches + 10;
        recording.marks.push(mark(Kind::Next, (end, end + 1), 1));
        for &at in steps {
            let step = mark(Kind::Optimized, (at, at + 1), 0);
            recording.marks.push(step);
        }
        let dropped = dropped.map(|at| mark(Kind::Dropped, (at, at), 0));
        recording.marks.extend(dropped);
        recording
    }

    fn steps(recording: &Recording) -> Vec<(u64, StepEnd)> {
        let mut loops = loops(recording);
        let optimized = optimized(recording, &loops);
        find(&mut loops, &optimized);
        let steps = loops.iter().flat_map(Loop::steps);
        steps.map(|step| (step.start, step.end)).collect()
    }

    #[test]
    fn a_loop_that_is_one_batch_ahead_has_a_step_for_the_last_one_after_its_end() {
        let ahead = recording(3, &[25, 35, 45], Some(48));
        let expected = [
            (10, StepEnd::At(30)),
            (30, StepEnd::At(40)),
            (40, StepEnd::At(48)),
        ];
        assert_eq!(steps(&ahead), expected);
        // Where the iterator is dropped at once or kept, the step ends with the optimizer's.
        for dropped in [Some(42), None] {
            let ahead = recording(3, &[25, 35, 45], dropped);
            assert_eq!(steps(&ahead)[2], (40, StepEnd::At(46)));
        }
    }

    #[test]
    fn a_step_for_what_was_accumulated_last_is_no_look_ahead() {
        let plain = recording(3, &[15, 25, 35, 45], Some(42));
        assert_eq!(steps(&plain)[0], (10, StepEnd::At(20)));
        let every_second = recording(5, &[25, 45, 65], Some(62));
        assert_eq!(steps(&every_second)[0], (10, StepEnd::At(20)));
        assert_eq!(steps(&every_second).len(), 5);
    }

    #[test]
    fn a_step_that_belongs_to_the_next_loop_is_no_look_ahead() {
        let mut two = recording(3, &[25, 35, 75], Some(42));
        let mut next = two.iterations[0].clone();
        (next.number, next.start, next.end) = (2, 60, 61);
        two.iterations.push(next);
        assert_eq!(steps(&two)[0], (10, StepEnd::At(20)));
    }
}
