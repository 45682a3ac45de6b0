//! Batches that one thread takes of a loader and hands on to another one, which trains.
//!
//! The hook marks the first put into a `queue.Queue` after each `next()`, and the get that gives what was
//! put there. Where the thread that gets steps an optimizer, and the one that takes does not, what the
//! training waits for is the get: it is the wait of the loop, and `next()` a part of how the batch is made.

use super::ahead::Optimized;
use super::calls::{Call, Outcome};
use super::loops::Loop;
use super::mark::{Kind, Mark};
use super::record::Recording;
use std::collections::{BTreeMap, HashMap};

/// A place in a queue: its number, and that of what was put there.
type Place = (u32, u64);

/// Puts the gets in the place of the calls of `next()` whose batches they give. A loop whose batches were
/// handed to several threads becomes one for each.
pub(super) fn hand_over(
    recording: &Recording,
    loops: Vec<Loop>,
    optimized: &Optimized,
) -> Vec<Loop> {
    let queues = Queues::of(recording);
    if queues.got.is_empty() {
        return loops;
    }
    let one = |of: Loop| {
        let own = of.calls.first().map_or(0, |call| call.tid);
        if optimized.contains_key(&own) {
            return vec![of];
        }
        let parts = queues.parts(&of, optimized);
        let loops = parts.into_values().map(|calls| of.handed(calls));
        let loops: Vec<Loop> = loops.collect();
        if loops.is_empty() { vec![of] } else { loops }
    };
    let mut loops: Vec<Loop> = loops.into_iter().flat_map(one).collect();
    let mut next: HashMap<u32, u64> = HashMap::new();
    for of in loops.iter_mut().rev() {
        let handed = of.calls.first().filter(|call| call.inner.is_some());
        let Some(Call { tid, start, .. }) = handed.copied() else {
            continue;
        };
        // A thread that only gets batches does not see where a loop ends.
        let open = of
            .calls
            .last()
            .is_some_and(|call| call.outcome == Outcome::Batch);
        if let Some(next) = next.insert(tid, start).filter(|_| open) {
            of.goes_on_to(next);
        }
    }
    loops
}

struct Queues {
    /// By thread and iteration, in order: when it put something where.
    put: HashMap<(u32, u32), Vec<(u64, Place)>>,
    /// Who got it, from when to when.
    got: HashMap<Place, (u32, u64, u64)>,
}

impl Queues {
    fn of(recording: &Recording) -> Self {
        let mut put: HashMap<(u32, u32), Vec<(u64, Place)>> = HashMap::new();
        let mut got = HashMap::new();
        for mark in &recording.marks {
            let place = |mark: &Mark| (mark.a, mark.n);
            match mark.kind {
                Kind::Handed => {
                    let list = put.entry((mark.tid, mark.b)).or_default();
                    list.push((mark.start, place(mark)));
                }
                Kind::Received => {
                    got.insert(place(mark), (mark.tid, mark.start, mark.end));
                }
                _ => {}
            }
        }
        put.values_mut().for_each(|list| list.sort_unstable());
        Self { put, got }
    }

    /// The calls of a loop as those see them whom the batches were handed to.
    fn parts(&self, of: &Loop, optimized: &Optimized) -> BTreeMap<u32, Vec<Call>> {
        let mut parts: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
        let mut waiting = 0;
        let mut ends = Vec::new();
        for (i, call) in of.calls.iter().enumerate() {
            let until = of.calls.get(i + 1).map_or(u64::MAX, |next| next.start);
            let taker = self.taker(of.info.number, call, until);
            let taker = taker.filter(|(tid, ..)| *tid != call.tid && optimized.contains_key(tid));
            match (call.outcome, taker) {
                (Outcome::Open | Outcome::Cut { .. }, _) => ends.push(*call),
                (Outcome::Batch, None) => waiting += 1,
                (_, None) => {}
                (_, Some((tid, start, end))) => parts.entry(tid).or_default().push(Call {
                    tid,
                    start,
                    end,
                    gradients: true,
                    inner: Some((call.tid, (call.start, call.end))),
                    ..*call
                }),
            }
        }
        parts.retain(|_, calls| calls.iter().any(|call| call.outcome == Outcome::Batch));
        // What the one thread is in, the other waits for, once it has used up all that was handed to it.
        if let ([end], [(tid, calls)]) = (
            ends.as_slice(),
            parts.iter_mut().collect::<Vec<_>>().as_mut_slice(),
        ) && waiting == 0
        {
            let last = calls.last().map_or(0, |call| call.end);
            let spans = optimized.get(tid).map_or(&[][..], Vec::as_slice);
            let used = spans.last().filter(|&&(start, ..)| start >= last);
            let ended = end.end == 0 || used.is_some_and(|&(_, used, _)| used < end.end);
            if let Some(&(_, used, _)) = used.filter(|_| ended) {
                calls.push(Call {
                    tid: **tid,
                    start: end.start.max(used),
                    inner: Some((end.tid, (end.start, end.end))),
                    ..*end
                });
            }
        }
        for calls in parts.values_mut() {
            calls.sort_by_key(|call| call.start);
        }
        parts
    }

    /// Who got what the thread of `call` put into a queue after it and before `until`.
    fn taker(&self, number: u32, call: &Call, until: u64) -> Option<(u32, u64, u64)> {
        let list = self.put.get(&(call.tid, number))?;
        let first = list.partition_point(|&(at, _)| at < call.end);
        let (_, place) = list.get(first).filter(|(at, _)| *at < until)?;
        self.got.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ahead;
    use super::super::loops::{StepEnd, loops};
    use super::*;

    const TAKES: u32 = 8;
    const TRAINS: u32 = 9;

    /// Batches that one thread takes from 10 to 12, 20 to 22 and so on, and puts into queue 3 at once; the
    /// other gets each from `gets`, when it steps its optimizer for 1 ns.
    fn recording(gets: &[(u64, u64)]) -> Recording {
        let mut recording = Recording::of_loop(TAKES, TAKES);
        for (n, &(start, end)) in (0..).zip(gets) {
            let at = 10 + 10 * n;
            let next = Mark::at(Kind::Next, TAKES, (at, at + 2));
            let mut handed = Mark::at(Kind::Handed, TAKES, (at + 3, at + 3));
            (handed.a, handed.b, handed.n) = (3, 1, n);
            let mut received = Mark::at(Kind::Received, TRAINS, (start, end));
            (received.a, received.n) = (3, n);
            let optimized = Mark::at(Kind::Optimized, TRAINS, (end + 1, end + 2));
            recording.marks.extend([next, handed, received, optimized]);
        }
        recording
    }

    fn handed(recording: &Recording) -> Vec<Loop> {
        let loops = loops(recording);
        let optimized = ahead::optimized(recording, &loops);
        hand_over(recording, loops, &optimized)
    }

    #[test]
    fn the_wait_of_a_batch_that_was_handed_on_is_that_of_the_thread_that_trains() {
        let of = &handed(&recording(&[(5, 14), (20, 24), (30, 34)]))[0];
        let waits: Vec<_> = of.calls.iter().map(|c| (c.tid, c.start, c.end)).collect();
        assert_eq!(waits, [(TRAINS, 5, 14), (TRAINS, 20, 24), (TRAINS, 30, 34)]);
        assert_eq!(of.calls[1].inner, Some((TAKES, (20, 22))));
        let steps = of.steps();
        assert_eq!((steps[0].tid, steps[0].start), (TRAINS, 5));
        assert_eq!(steps[0].end, StepEnd::At(20));
        assert_eq!(steps.len(), 3);
    }

    #[test]
    fn a_queue_to_a_thread_that_does_not_train_is_no_hand_over() {
        let mut logs = recording(&[(5, 14), (20, 24)]);
        for mark in &mut logs.marks {
            if mark.kind == Kind::Optimized {
                mark.tid = TAKES;
            }
        }
        let of = &handed(&logs)[0];
        assert!(of.calls.iter().all(|c| c.tid == TAKES && c.inner.is_none()));
    }

    #[test]
    fn a_call_that_never_ended_is_waited_for_once_all_that_was_handed_on_is_used_up() {
        let mut hangs = recording(&[(5, 14), (20, 24)]);
        hangs.marks.push(Mark::at(Kind::Asked, TAKES, (30, 30)));
        let last = handed(&hangs)[0].calls[2];
        assert_eq!((last.tid, last.outcome), (TRAINS, Outcome::Open));
        assert_eq!(last.start, 30);
        // What is left in the queue may be at work.
        hangs.marks.retain(|m| m.kind != Kind::Received || m.n == 0);
        let calls = &handed(&hangs)[0].calls;
        assert!(calls.iter().all(|call| call.outcome == Outcome::Batch));
        assert_eq!(calls.len(), 1);
    }

    #[test]
    fn a_step_goes_on_to_the_get_from_the_next_loop() {
        let mut two = recording(&[(5, 14), (20, 24), (30, 34)]);
        let mut next = two.iterations[0].clone();
        (next.number, next.start, next.end) = (2, 28, 29);
        two.iterations.push(next);
        for mark in &mut two.marks {
            match mark.kind {
                Kind::Next if mark.start == 30 => mark.a = 2,
                Kind::Handed if mark.n == 2 => mark.b = 2,
                _ => {}
            }
        }
        let found = handed(&two);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].steps()[1].end, StepEnd::At(30));
    }
}
