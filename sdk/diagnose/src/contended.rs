//! Waits for workers that were ready to run and waited for a CPU.

use crate::cause::Cause;
use crate::chain::made_at;
use crate::events::LoaderKey;
use crate::maker::{Maker, maker};
use crate::stages::Busy;
use crate::tally::waited_for_cpu;
use crate::timeline::Timeline;
use crate::workers::CONTENDED_MIN_RUNNABLE_SHARE;
use gpustall_trace::{Interval, TraceTime, TrackId};
use std::collections::HashMap;

/// Time of stages that say how long they waited for a CPU, and how long they did, nanoseconds.
type Waited = (f64, f64);

/// Marks the waits of `causes` that lie on workers which waited for a CPU: on their own evidence,
/// or with half of that on the evidence of all waits for the loader together.
pub(crate) fn mark(timeline: &Timeline<'_>, causes: &mut [Cause]) {
    let mut states = HashMap::new();
    if timeline.stages.iter().any(|stage| stage.runnable.is_some()) {
        let lanes = timeline.stages.lanes();
        states.extend(lanes.map(|(track, lane)| (track, States::of(timeline, lane))));
    }
    let mut found: Vec<(usize, Waited)> = Vec::new();
    let mut all: HashMap<(LoaderKey, TrackId), Waited> = HashMap::new();
    for (i, wait) in timeline.waits.iter().enumerate() {
        if states.is_empty() || causes.get(i) != Some(&Cause::Data) {
            continue;
        }
        let Maker::Worker(track) = maker(timeline, wait) else {
            continue;
        };
        let Some(states) = states.get(&track) else {
            continue;
        };
        let made = wait.batch.and_then(|batch| made_at(timeline, batch, track));
        let made = made.unwrap_or(wait.span.end);
        let made = made.clamp(wait.span.start, wait.span.end);
        let (known, waited) = states.during(Interval::new(wait.span.start, made));
        // What most of the wait was spent on must be known.
        if known * 2.0 >= wait.span.len().get() as f64 && known > 0.0 {
            found.push((i, (known, waited)));
            let sum = all.entry((wait.loader, wait.track)).or_default();
            sum.0 += known;
            sum.1 += waited;
        }
    }
    let enough = |(known, waited): Waited, least: f64| waited >= known * least;
    for (i, own) in found {
        let wait = timeline.waits.get(i);
        let all = wait.and_then(|wait| all.get(&(wait.loader, wait.track)));
        let with_others = all.is_some_and(|&all| enough(all, CONTENDED_MIN_RUNNABLE_SHARE))
            && enough(own, CONTENDED_MIN_RUNNABLE_SHARE / 2.0);
        if enough(own, CONTENDED_MIN_RUNNABLE_SHARE) || with_others {
            causes[i] = Cause::DataContended;
        }
    }
}

/// What a thread's stages say, summed up from its first one.
struct States<'a> {
    lane: &'a [Busy],
    /// Before each of the lane, and after the last one.
    sums: Vec<Waited>,
    /// Share of each in which it waited for a CPU.
    shares: Vec<Option<f64>>,
}

impl<'a> States<'a> {
    fn of(timeline: &Timeline<'_>, lane: &'a [Busy]) -> Self {
        let shares: Vec<Option<f64>> = lane
            .iter()
            .map(|busy| waited_for_cpu(timeline, busy.stage))
            .collect();
        let mut sum = (0.0, 0.0);
        let mut sums = vec![sum];
        for (busy, share) in lane.iter().zip(&shares) {
            let (known, waited) = part(busy.span, *share);
            sum = (sum.0 + known, sum.1 + waited);
            sums.push(sum);
        }
        Self { lane, sums, shares }
    }

    fn during(&self, span: Interval) -> Waited {
        let (until_start, until_end) = (self.until(span.start), self.until(span.end));
        let less = |end: f64, start: f64| (end - start).max(0.0);
        (
            less(until_end.0, until_start.0),
            less(until_end.1, until_start.1),
        )
    }

    fn until(&self, at: TraceTime) -> Waited {
        let before = self.lane.partition_point(|busy| busy.span.end <= at);
        let sum = self.sums.get(before).copied().unwrap_or_default();
        let Some(busy) = self.lane.get(before).filter(|busy| busy.span.start < at) else {
            return sum;
        };
        let cut = Interval::new(busy.span.start, at);
        let (known, waited) = part(cut, self.shares.get(before).copied().flatten());
        (sum.0 + known, sum.1 + waited)
    }
}

fn part(span: Interval, share: Option<f64>) -> Waited {
    let length = span.len().get() as f64;
    share.map_or((0.0, 0.0), |share| (length, length * share))
}
