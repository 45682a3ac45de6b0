//! A batcher that tags each batch, so that the consumer knows who made it.

use super::get;
use super::queue::Queue;
use super::stage::{self, Begun, PanicWitness};
use crate::recorder::gate::Generation;
use crate::recorder::ring::{current_tid, push};
use crate::recorder::{Args, Category, Record, Text};
use burn_core::data::dataloader::batcher::Batcher;
use burn_core::tensor::Device;
use gpustall_trace::{BatchId, MonoTime, MonotonicClock, Tid, vocab::arg};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Wraps a batcher so that its work is recorded and its batches are tagged. A loader built on it
/// yields [`Tagged`] batches; [`loader`](super::loader) unwraps them.
pub fn batcher<B>(inner: B) -> TracedBatcher<B> {
    get::expect_tagged_batches();
    TracedBatcher {
        inner,
        queue: Arc::default(),
    }
}

/// Made by [`batcher`].
#[derive(Debug)]
pub struct TracedBatcher<B> {
    inner: B,
    queue: Arc<Queue>,
}

/// A clone serves another loader, which has a queue of its own.
impl<B: Clone> Clone for TracedBatcher<B> {
    fn clone(&self) -> Self {
        batcher(self.inner.clone())
    }
}

/// A batch and, while a session records, where it came from.
#[derive(Debug, Clone)]
pub struct Tagged<O> {
    batch: O,
    tag: Option<Tag>,
}

impl<O> Tagged<O> {
    /// The batch, without its tag.
    pub fn into_inner(self) -> O {
        self.batch
    }

    pub(crate) fn into_parts(self) -> (O, Option<Tag>) {
        (self.batch, self.tag)
    }
}

/// Where a batch came from.
#[derive(Debug, Clone)]
pub(crate) struct Tag {
    pub(crate) id: BatchId,
    /// Session in which it was made.
    pub(crate) generation: Generation,
    /// Thread that made it.
    pub(crate) worker: Tid,
    /// The stage that finished it.
    pub(crate) made: (MonoTime, MonoTime),
    /// Its place in the queue; freed when the tag is dropped, also if nobody takes the batch.
    /// `None` for a batch made inside `next()`, which passes through no queue.
    pub(crate) place: Option<Place>,
}

/// A place in a queue that one batch takes up.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) queue: Arc<Queue>,
    begun: Begun,
}

impl Place {
    fn take_up(queue: &Arc<Queue>, begun: Begun, now: MonoTime) -> Self {
        let place = Self {
            queue: queue.clone(),
            begun,
        };
        place.record(queue.put(), now);
        place
    }

    fn record(&self, depth: i64, at: MonoTime) {
        if self.begun.generation.is_current() {
            let queue = self.queue.clone();
            push(
                self.begun.generation,
                Record::QueueDepth { queue, at, depth },
            );
        }
    }
}

impl Clone for Place {
    fn clone(&self) -> Self {
        Self::take_up(&self.queue, self.begun, MonotonicClock::read())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.record(self.queue.take(), MonotonicClock::read());
    }
}

impl<I, O, B> Batcher<I, Tagged<O>> for TracedBatcher<B>
where
    B: Batcher<I, O>,
{
    fn batch(&self, items: Vec<I>, device: &Device) -> Tagged<O> {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        let get = get::take();
        let Some(collate) = Begun::stage() else {
            if let Some(get) = &get {
                // It began before the recording was paused.
                let args = Some(get.spent().collect());
                stage::close(get, Category::DataGet, MonotonicClock::read(), args);
            }
            return Tagged {
                batch: self.inner.batch(items, device),
                tag: None,
            };
        };
        let in_next = stage::makes_batch_in_next();
        let id = BatchId(BATCHES.fetch_add(1, Ordering::Relaxed));
        let count = items.len() as u64;
        let args = |begun: &Begun| -> Args {
            let batch = [
                (arg::BATCH, Text::U64(id.0)),
                (arg::ITEMS, Text::U64(count)),
            ];
            Some(batch.into_iter().chain(begun.spent()).collect())
        };
        if let Some(get) = &get {
            stage::close(get, Category::DataGet, collate.at, args(get));
        }
        stage::open(&collate, Category::DataCollate);
        let witness = PanicWitness::new(Some(collate), Category::DataCollate);
        let batch = self.inner.batch(items, device);
        witness.disarm();
        let end = MonotonicClock::read();
        stage::close(&collate, Category::DataCollate, end, args(&collate));
        Tagged {
            batch,
            tag: Some(Tag {
                id,
                generation: collate.generation,
                worker: current_tid(),
                made: (collate.at, end),
                place: (!in_next).then(|| Place::take_up(&self.queue, collate, end)),
            }),
        }
    }
}
