//! Batches that one thread takes of a loader and hands on to another one, which trains.
//!
//! The hook marks the first put into a `queue.Queue` after each `next()`, and the get that gives what was
//! put there. Where the thread that gets steps an optimizer, and the one that takes does not, what the
//! training waits for is the get: it is the wait of the loop, and `next()` a part of how the batch is made.

use super::ahead::Optimized;
use super::loops::{Call, Loop, Outcome};
use super::record::{Kind, Mark, Recording};
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
    loops.into_iter().flat_map(one).collect()
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
