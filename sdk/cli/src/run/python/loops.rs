//! From the marks of a process to its loops over loaders, and their steps.

use super::calls::{Call, Outcome};
use super::mark::{Kind, Mark};
use super::record::{IterationInfo, Recording};
use std::collections::{BTreeMap, HashMap};

/// One iteration over a loader.
#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub(super) info: IterationInfo,
    pub(super) calls: Vec<Call>,
    /// When its iterator was dropped, or its workers were told to stop.
    dropped: Option<u64>,
    /// When its workers were stopped as it was left, if that was in no call of a loader.
    pub(super) left: Option<Mark>,
    /// When the program was about to end by an exception that nobody caught, if it had not left the loop before.
    raised: Option<u64>,
    /// If it gave one batch and was left: when the next one of a chain of such began.
    succeeded: Option<u64>,
    /// Whether the loader was iterated again on its thread, or there was no room for more marks.
    again: bool,
    /// Whether it only gave one batch and was left, and is no part of a chain.
    peek: bool,
    /// If each batch is used after the next one is asked for: when the last one was used up.
    pub(super) ahead: Option<u64>,
}

/// A step of a loop. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopStep {
    pub(super) tid: u32,
    pub(super) start: u64,
    pub(super) end: StepEnd,
}

/// How the end of a step is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepEnd {
    At(u64),
    /// The program ended in it, by an exception that nobody caught.
    Cut(u64),
    /// The recording ended in it.
    Open,
    /// The loop was left, nobody knows when.
    Unknown,
}

impl Loop {
    /// Its steps: one for each batch, from the call that gave it to the next one. Where batches are asked
    /// for ahead, from the call after it to the one after that.
    pub(super) fn steps(&self) -> Vec<LoopStep> {
        let mut steps = Vec::new();
        let batch = |(_, call): &(usize, &Call)| call.outcome == Outcome::Batch && !self.peek;
        for (i, call) in self.calls.iter().enumerate().filter(batch) {
            let start = |i: usize| self.calls.get(i).map(|call| call.start);
            let (first, next) = match self.ahead {
                Some(_) if i > 0 => (start(i + 1), start(i + 2)),
                Some(_) => (Some(call.start), start(2)),
                None => (Some(call.start), start(i + 1)),
            };
            let end = next.or(self.ahead).or(self.succeeded);
            let end = match (end, self.raised) {
                (None, Some(raised)) => StepEnd::Cut(raised),
                (end, _) => end.or(self.dropped).map_or(self.left(), StepEnd::At),
            };
            steps.push(LoopStep {
                tid: call.tid,
                start: first.unwrap_or(call.start),
                end,
            });
        }
        steps
    }

    /// When its iterator was dropped, if that is known.
    pub(super) fn dropped(&self) -> Option<u64> {
        self.dropped
    }

    /// The step that the call at this position belongs to.
    pub(super) fn step_of(&self, call: usize) -> u64 {
        call.saturating_sub(usize::from(self.ahead.is_some())) as u64
    }

    /// A loop in which the thread of `calls` waits for what another one handed on.
    pub(super) fn handed(&self, calls: Vec<Call>) -> Self {
        Self {
            info: self.info.clone(),
            calls,
            dropped: None,
            left: None,
            raised: None,
            succeeded: None,
            again: self.again || self.dropped.is_some(),
            peek: false,
            ahead: None,
        }
    }

    /// Its last step goes on to `start`, when its thread waits in another loop.
    pub(super) fn goes_on_to(&mut self, start: u64) {
        self.succeeded = Some(start);
    }

    /// The end of the last step where nothing tells it.
    fn left(&self) -> StepEnd {
        match self.again {
            true => StepEnd::Unknown,
            false => StepEnd::Open,
        }
    }

    /// Whether it gave one batch, and was left before its end.
    fn single(&self) -> bool {
        matches!(self.calls.as_slice(), [one] if one.outcome == Outcome::Batch)
    }
}

/// The loops of a process, in the order in which they began. Where marks found no room, they are over
/// with the last one stored: what it left open may have ended.
pub(super) fn loops(recording: &Recording) -> Vec<Loop> {
    let full = recording.full();
    let mut loops: BTreeMap<u32, Loop> = BTreeMap::new();
    let known = |info: &&IterationInfo| full.is_none_or(|full| info.end <= full);
    for info in recording.iterations.iter().filter(known) {
        let of = Loop {
            info: info.clone(),
            calls: Vec::new(),
            dropped: None,
            left: None,
            raised: None,
            succeeded: None,
            again: false,
            peek: false,
            ahead: None,
        };
        loops.insert(info.number, of);
    }
    let mut open: HashMap<(u32, u32), u64> = HashMap::new();
    for mark in &recording.marks {
        let Some(of) = loops.get_mut(&mark.a) else {
            continue;
        };
        match mark.kind {
            Kind::Asked => {
                open.insert((mark.tid, mark.a), mark.start);
            }
            Kind::Next => {
                open.remove(&(mark.tid, mark.a));
                of.calls.push(Call::of(mark));
            }
            Kind::Dropped => of.dropped = of.dropped.or(Some(mark.start)),
            // Where it is not at its end, it is left. Workers that are kept belong to the loader, not to the loop.
            Kind::Stopped
                if !open.contains_key(&(mark.tid, mark.a)) && !keeps(recording, &of.info) =>
            {
                of.dropped = Some(mark.start);
                of.left = Some(*mark);
            }
            _ => {}
        }
    }
    if full.is_some() {
        open.clear();
    }
    for ((tid, number), start) in open {
        if let Some(of) = loops.get_mut(&number) {
            of.calls.push(Call {
                tid,
                start,
                end: 0,
                outcome: Outcome::Open,
                gradients: true,
                made: None,
                inner: None,
            });
        }
    }
    let mut loops: Vec<Loop> = loops.into_values().collect();
    for of in &mut loops {
        of.calls.sort_by_key(|call| call.start);
    }
    loops.sort_by_key(|of| of.info.start);
    chain(&mut loops);
    cut_off(&mut loops, recording);
    raise(&mut loops, recording);
    leave(&mut loops, recording);
    for of in &mut loops {
        // Where workers are kept, the loader holds on to the iterator: when the loop was left is not known.
        let held = of.dropped.is_some() && keeps(recording, &of.info);
        if held {
            of.dropped = None;
        }
        of.again |= full.is_some() || held;
    }
    loops
}

/// Whether the loader of a loop keeps its workers.
fn keeps(recording: &Recording, info: &IterationInfo) -> bool {
    let loader = recording.loaders.get(&info.loader);
    loader.is_some_and(|loader| loader.persistent_workers)
}

/// Says which calls that were cut off were the last thing that their threads did here.
fn cut_off(loops: &mut [Loop], recording: &Recording) {
    let mut last: HashMap<u32, u64> = HashMap::new();
    let active = |mark: &&Mark| matches!(mark.kind, Kind::Asked | Kind::Optimized);
    for mark in recording.marks.iter().filter(active) {
        let at = last.entry(mark.tid).or_default();
        *at = mark.start.max(*at);
    }
    for call in loops.iter_mut().flat_map(|of| &mut of.calls) {
        if let Outcome::Cut { last: is_last } = &mut call.outcome {
            *is_last = last.get(&call.tid).is_none_or(|&at| at <= call.start);
        }
    }
}

/// Keeps when the workers of loops were stopped where that was in no call of another one, and before another one:
/// as the program ends nobody waits for that.
fn leave(loops: &mut [Loop], recording: &Recording) {
    let ends = recording.uncaught.as_ref().map_or(u64::MAX, |of| of.at);
    let began = loops.iter().map(|of| of.info.start);
    let called = loops
        .iter()
        .flat_map(|of| of.calls.iter().map(|call| call.start));
    let last = began.chain(called).max().unwrap_or(0);
    let mut calls: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for of in loops.iter() {
        let iter = (of.info.thread, of.info.start, of.info.end);
        let next = of.calls.iter().map(|call| (call.tid, call.start, call.end));
        for (tid, start, end) in next.chain([iter]) {
            calls.entry(tid).or_default().push((start, end));
        }
    }
    for spans in calls.values_mut() {
        spans.sort_unstable();
    }
    for of in loops {
        of.left = of.left.filter(|stop| {
            let spans = calls.get(&stop.tid).map_or(&[][..], Vec::as_slice);
            let after = spans.partition_point(|&(start, _)| start <= stop.start);
            let inside = after
                .checked_sub(1)
                .is_some_and(|at| stop.start < spans[at].1);
            !inside && stop.start < last.min(ends)
        });
    }
}

/// Says which loops of the main thread were left by the exception that nobody caught.
fn raise(loops: &mut [Loop], recording: &Recording) {
    let Some(uncaught) = &recording.uncaught else {
        return;
    };
    let main = recording.process.pid;
    for of in loops.iter_mut().filter(|of| of.info.thread == main) {
        let left = of.again || of.dropped.is_some_and(|dropped| dropped < uncaught.at);
        of.raised = (!left).then_some(uncaught.at);
    }
}

/// `next(iter(loader))` in every step makes a loop of each step, which goes on to the next one. A
/// single such loop only looks at a batch.
fn chain(loops: &mut [Loop]) {
    let mut of_loader: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (i, of) in loops.iter().enumerate() {
        let key = (of.info.loader, of.info.thread);
        of_loader.entry(key).or_default().push(i);
    }
    for chained in of_loader.into_values() {
        let mut before = false;
        for (at, &i) in chained.iter().enumerate() {
            let single = loops[i].single();
            let next = chained.get(at + 1).copied();
            let start = next.map(|next| loops[next].info.start);
            let goes_on = single && next.is_some_and(|next| loops[next].single());
            loops[i].peek = single && !before && !goes_on;
            loops[i].succeeded = start.filter(|_| goes_on);
            loops[i].again = start.is_some();
            before = single;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::{CUT, END};
    use super::super::record::Uncaught;
    use super::*;

    fn mark(kind: Kind, number: u32, start: u64, end: u64, d: u32) -> Mark {
        Mark {
            a: number,
            d,
            ..Mark::at(kind, 7, (start, end))
        }
    }

    /// The calls of `next()` in a loop, from when to when and how they ended, and when it was dropped.
    type Calls<'a> = (&'a [(u64, u64, u32)], Option<u64>);

    /// Loops of one loader.
    fn recording(of: &[Calls<'_>]) -> Recording {
        let mut recording = Recording::default();
        for (number, (calls, dropped)) in (1..).zip(of) {
            let start = calls[0].0 - 1;
            recording.iterations.push(IterationInfo {
                number,
                loader: 1,
                thread: 7,
                start,
                end: start + 1,
                workers: Vec::new(),
            });
            for &(start, end, how) in *calls {
                let asked = mark(Kind::Asked, number, start, 0, 0);
                recording.marks.push(asked);
                if end > 0 {
                    let next = mark(Kind::Next, number, start, end, how);
                    recording.marks.push(next);
                }
            }
            let dropped = dropped.map(|at| mark(Kind::Dropped, number, at, at, 0));
            recording.marks.extend(dropped);
        }
        recording
    }

    fn ends(recording: &Recording) -> Vec<(u64, StepEnd)> {
        let loops = loops(recording);
        let steps = loops.iter().flat_map(Loop::steps);
        steps.map(|step| (step.start, step.end)).collect()
    }

    #[test]
    fn a_step_goes_from_one_call_to_the_next_and_the_last_one_to_the_end_of_the_loop() {
        let whole = recording(&[(&[(10, 12, 0), (20, 21, 0), (30, 33, END)], Some(34))]);
        let expected = [(10, StepEnd::At(20)), (20, StepEnd::At(30))];
        assert_eq!(ends(&whole), expected);
        let left = recording(&[(&[(10, 12, 0), (20, 21, 0)], Some(25))]);
        assert_eq!(ends(&left)[1], (20, StepEnd::At(25)));
    }

    #[test]
    fn a_step_that_an_exception_left_for_good_is_not_complete() {
        let mut raised = recording(&[(&[(10, 12, 0), (20, 21, 0)], Some(40))]);
        raised.process.pid = 7;
        assert_eq!(ends(&raised)[1], (20, StepEnd::At(40)));
        // The exception holds the iterator until after it was told.
        raised.uncaught = Some(Uncaught {
            at: 30,
            texts: vec!["KeyError: 3".to_owned()],
            code: None,
            outlived: false,
        });
        let expected = [(10, StepEnd::At(20)), (20, StepEnd::Cut(30))];
        assert_eq!(ends(&raised), expected);
        // One that was raised after the loop was left has no part in it.
        raised.marks.last_mut().expect("it was dropped").start = 25;
        assert_eq!(ends(&raised)[1], (20, StepEnd::At(25)));
    }

    #[test]
    fn workers_are_stopped_after_the_last_step() {
        let mut left = recording(&[(&[(10, 12, 0), (20, 21, 0)], Some(90))]);
        let at = left.marks.len() - 1;
        left.marks.insert(at, mark(Kind::Stopped, 1, 25, 88, 0));
        assert_eq!(ends(&left)[1], (20, StepEnd::At(25)));
        let stopped = |of: &Recording| loops(of)[0].left.map(|stop| (stop.start, stop.end));
        // As the last thing of a program they are no end of the loop.
        assert_eq!(stopped(&left), None);
        let mut next = left.iterations[0].clone();
        (next.number, next.start, next.end) = (2, 95, 96);
        left.iterations.push(next);
        assert_eq!(stopped(&left), Some((25, 88)));
        // Nor are those that are kept.
        let mut kept = left.clone();
        let loader = kept.loaders.entry(kept.iterations[0].loader).or_default();
        loader.persistent_workers = true;
        assert_eq!(stopped(&kept), None);
        assert_ne!(ends(&kept)[1], (20, StepEnd::At(25)));
        // In the iter() of a later loop, and as the program ends, they are no end of the loop.
        let mut later = left.clone();
        let mut next = later.iterations[0].clone();
        (next.number, next.start, next.end) = (2, 24, 89);
        later.iterations.push(next);
        assert_eq!(stopped(&later), None);
        left.uncaught = Some(Uncaught {
            at: 24,
            ..Uncaught::default()
        });
        assert_eq!(stopped(&left), None);
        // Those of a loop that came to its end are stopped in its last call.
        let mut whole = recording(&[(&[(10, 12, 0), (20, 33, END)], Some(34))]);
        let at = whole.marks.len() - 2;
        whole.marks.insert(at, mark(Kind::Stopped, 1, 22, 30, 0));
        assert_eq!(loops(&whole)[0].dropped(), Some(34));
    }

    #[test]
    fn a_recording_that_ends_in_a_step_or_a_call_leaves_it_open() {
        let step = recording(&[(&[(10, 12, 0), (20, 21, 0)], None)]);
        assert_eq!(ends(&step)[1], (20, StepEnd::Open));
        let call = recording(&[(&[(10, 12, 0), (20, 0, 0)], None)]);
        assert_eq!(ends(&call), [(10, StepEnd::At(20))]);
        let of = &loops(&call)[0];
        assert_eq!(of.calls[1].outcome, Outcome::Open);
    }

    #[test]
    fn a_call_that_was_cut_off_is_the_last_one_unless_its_thread_goes_on() {
        let mut cut = recording(&[(&[(10, 12, 0), (20, 25, CUT)], Some(26))]);
        let outcome = |of: &Recording| loops(of)[0].calls[1].outcome;
        assert_eq!(outcome(&cut), Outcome::Cut { last: true });
        assert_eq!(ends(&cut), [(10, StepEnd::At(20))]);
        cut.marks.push(mark(Kind::Optimized, 9, 30, 31, 0));
        cut.marks.last_mut().expect("it is there").tid = 8;
        assert_eq!(outcome(&cut), Outcome::Cut { last: true });
        cut.marks.push(mark(Kind::Optimized, 9, 30, 31, 0));
        assert_eq!(outcome(&cut), Outcome::Cut { last: false });
    }

    #[test]
    fn where_marks_found_no_room_nothing_is_left_open_and_later_loops_are_not_known() {
        let mut cut = recording(&[
            (&[(10, 12, 0), (20, 21, 0), (30, 0, 0)], None),
            (&[(50, 0, 0)], None),
        ]);
        cut.marks.pop();
        cut.lost = 2;
        assert_eq!(cut.full(), Some(30));
        let found = loops(&cut);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].calls.len(), 2);
        assert_eq!(ends(&cut)[1], (20, StepEnd::Unknown));
        cut.lost = 0;
        assert_eq!(loops(&cut)[0].calls[2].outcome, Outcome::Open);
    }

    #[test]
    fn a_loop_of_persistent_workers_that_was_left_ends_nobody_knows_when() {
        let two = recording(&[
            (&[(10, 12, 0), (20, 21, 0)], None),
            (&[(50, 52, 0), (60, 61, 0), (70, 71, END)], None),
        ]);
        assert_eq!(ends(&two)[1], (20, StepEnd::Unknown));
        // As the program ends, the loader lets go of the iterator.
        let mut last = recording(&[(&[(10, 12, 0), (20, 21, 0)], Some(90))]);
        assert_eq!(ends(&last)[1], (20, StepEnd::At(90)));
        last.loaders.entry(1).or_default().persistent_workers = true;
        assert_eq!(ends(&last)[1], (20, StepEnd::Unknown));
    }

    #[test]
    fn one_batch_from_each_of_many_loops_is_a_loop_and_from_one_alone_a_look() {
        let chain = recording(&[
            (&[(10, 12, 0)], Some(13)),
            (&[(20, 22, 0)], Some(23)),
            (&[(30, 32, 0)], Some(33)),
        ]);
        let expected = [
            (10, StepEnd::At(19)),
            (20, StepEnd::At(29)),
            (30, StepEnd::At(33)),
        ];
        assert_eq!(ends(&chain), expected);
        let look = recording(&[
            (&[(10, 12, 0)], Some(13)),
            (&[(20, 22, 0), (25, 26, 0), (30, 31, END)], None),
        ]);
        assert_eq!(ends(&look), [(20, StepEnd::At(25)), (25, StepEnd::At(30))]);
    }
}
