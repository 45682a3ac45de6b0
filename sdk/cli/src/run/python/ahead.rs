//! Loops that ask for a batch before they use the one before it, to know which one is the last.

use super::loops::{Loop, LoopStep, Outcome, StepEnd};
use super::record::{Kind, Mark, Recording};
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
        if leads || 2 * with <= steps.len() - 1 {
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
