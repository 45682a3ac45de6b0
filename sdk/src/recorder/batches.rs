//! How batches got from the workers to their consumer: arrows, time in the queue, its depth.

use super::emit::{Emitter, QUEUES_PID};
use super::record::BatchTaken;
use crate::instrument::queue::Queue;
use gpustall_trace::{EventRef, MonoTime, Tid, ValueRef, vocab};
use std::sync::Arc;

/// Queue depths held back until their queue has a name.
const MAX_NAMELESS_DEPTHS: usize = 4096;

impl Emitter {
    /// A batch reached its consumer; see [`drained`](Self::drained).
    pub(crate) fn batch_taken(&mut self, consumer: Tid, taken: BatchTaken) {
        self.taken[0].push((consumer, taken));
    }

    /// All rings were drained once. The arrows of the batches that were taken before the drain
    /// are written now: viewers want the slices that an arrow joins to stand before it, and the
    /// worker's slice may have lain in a ring that was drained before it came.
    pub(crate) fn drained(&mut self) {
        for (consumer, taken) in std::mem::take(&mut self.taken[1]) {
            self.arrow(consumer, &taken);
        }
        self.taken.swap(0, 1);
    }

    /// The batch's time in the queue, and the arrow from the stage that finished it to the wait
    /// that took it, each end on the last nanosecond of its slice.
    fn arrow(&mut self, consumer: Tid, taken: &BatchTaken) {
        let last = |(start, end): (MonoTime, MonoTime)| {
            let end = MonoTime::from_nanos(end.as_nanos().saturating_sub(1));
            self.time(end.max(start))
        };
        let (from, to) = (last(taken.made), last(taken.wait));
        let span = self.interval((taken.made.1, taken.wait.1));
        self.partial.push(&EventRef::Flow {
            id: taken.batch,
            name: "batch",
            cat: vocab::cat::BATCH,
            from: (self.pid, taken.worker, from),
            to: (self.pid, consumer, to.max(from)),
        });
        self.partial.push(&EventRef::Async {
            pid: QUEUES_PID,
            name: taken.queue,
            cat: vocab::cat::BATCH,
            id: taken.batch,
            span,
            args: &[(vocab::arg::BATCH, ValueRef::U64(taken.batch))],
        });
    }

    /// A queue's depth. Held back while the queue has no name: it gets one when its loader takes
    /// the first batch.
    pub(crate) fn queue_depth(&mut self, queue: Arc<Queue>, at: MonoTime, depth: i64) {
        match queue.counter() {
            Some(name) => self.counter(name, at, depth as f64),
            None if self.nameless.len() < MAX_NAMELESS_DEPTHS => {
                self.nameless.push((queue, at, depth));
            }
            // A queue that nobody takes from: its depth starves no one.
            None => {}
        }
    }

    /// Writes the depths of queues that have got their name.
    pub(crate) fn held_back_depths(&mut self) {
        for (queue, at, depth) in std::mem::take(&mut self.nameless) {
            self.queue_depth(queue, at, depth);
        }
    }
}
