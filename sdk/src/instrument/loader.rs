//! A loader whose waits and steps are recorded.

use super::batcher::{Tag, Tagged};
use super::epochs::{Epochs, Pass};
use super::get;
use super::stage::{self, Begun, InNext, PanicWitness};
use super::steps::{LoaderKind, Position, Steps};
use super::traced;
use crate::recorder::record::BatchTaken;
use crate::recorder::ring::push;
use crate::recorder::{Args, Category, Record, Text};
use burn_core::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn_core::data::dataset::DatasetError;
use burn_core::tensor::Device;
use gpustall_trace::{MonoTime, MonotonicClock, vocab::arg};
use parking_lot::Mutex;
use std::sync::Arc;

/// Wraps a loader whose batcher is wrapped by [`batcher`](super::batcher), under a name that
/// tells it from the program's other loaders. The result is a loader of the plain batches.
///
/// Steps follow the loader: one lasts from one call of `next()` to the following one. Names whose
/// first word is `valid`, `eval`, `test` or the like make it a loader for validation
/// ([`LoaderKind::from_name`]); [`loader_of_kind`] says it outright.
pub fn loader<O: Send + 'static>(
    name: &str,
    inner: Arc<dyn DataLoader<Tagged<O>>>,
) -> Arc<dyn DataLoader<O>> {
    loader_of_kind(LoaderKind::from_name(name), name, inner)
}

/// As [`loader`], with its kind said outright.
pub fn loader_of_kind<O: Send + 'static>(
    kind: LoaderKind,
    name: &str,
    inner: Arc<dyn DataLoader<Tagged<O>>>,
) -> Arc<dyn DataLoader<O>> {
    TracedLoader {
        inner,
        steps: Arc::new(Steps::new(name, kind)),
        epochs: Arc::default(),
        next_epoch: Mutex::new(None),
        unwrap: Tagged::into_parts,
    }
    .shared()
}

/// As [`loader`], for a loader whose batcher is not wrapped: its waits and steps are recorded,
/// but not which worker a wait was for.
pub fn untagged_loader<O: Send + 'static>(
    name: &str,
    inner: Arc<dyn DataLoader<O>>,
) -> Arc<dyn DataLoader<O>> {
    untagged_loader_of_kind(LoaderKind::from_name(name), name, inner)
}

/// As [`untagged_loader`], with its kind said outright.
pub fn untagged_loader_of_kind<O: Send + 'static>(
    kind: LoaderKind,
    name: &str,
    inner: Arc<dyn DataLoader<O>>,
) -> Arc<dyn DataLoader<O>> {
    get::expect_untagged_batches();
    TracedLoader {
        inner,
        steps: Arc::new(Steps::new(name, kind)),
        epochs: Arc::default(),
        next_epoch: Mutex::new(None),
        unwrap: |batch| (batch, None),
    }
    .shared()
}

/// A loader of `T` that yields the `O` inside.
struct TracedLoader<T, O> {
    inner: Arc<dyn DataLoader<T>>,
    /// Shared with the slices of this loader.
    steps: Arc<Steps>,
    /// Shared as well.
    epochs: Arc<Epochs>,
    /// The epoch that the next iteration over this slice begins, once there was one.
    next_epoch: Mutex<Option<u64>>,
    unwrap: fn(T) -> (O, Option<Tag>),
}

impl<T: 'static, O: 'static> TracedLoader<T, O> {
    /// A loader that came from this one: the same loop, other data or another device.
    fn derive(&self, inner: Arc<dyn DataLoader<T>>) -> Arc<dyn DataLoader<O>>
    where
        O: Send,
    {
        Self {
            inner,
            steps: self.steps.clone(),
            epochs: self.epochs.clone(),
            next_epoch: Mutex::new(None),
            unwrap: self.unwrap,
        }
        .shared()
    }

    fn shared(self) -> Arc<dyn DataLoader<O>>
    where
        O: Send,
    {
        let shared = Arc::new(self);
        traced::remember(Arc::as_ptr(&shared).cast());
        shared
    }
}

impl<T, O> Drop for TracedLoader<T, O> {
    fn drop(&mut self) {
        traced::forget(std::ptr::from_ref(self).cast());
    }
}

impl<T: 'static, O: Send + 'static> DataLoader<O> for TracedLoader<T, O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let pass = {
            let mut next = self.next_epoch.lock();
            let pass = self.epochs.begin(*next);
            *next = Some(pass.epoch + 1);
            pass
        };
        let epoch = pass.epoch;
        get::pass_begins();
        let begun = Begun::wait();
        if let Some(begun) = &begun {
            stage::open_with(begun, Category::EpochStart, epoch_args(&self.steps, epoch));
        }
        // Burn panics here when a worker of the loader panicked in an earlier epoch.
        let witness = PanicWitness::new(begun, Category::EpochStart);
        let inner = self.inner.iter();
        witness.disarm();
        if let Some(begun) = &begun {
            let args = epoch_args(&self.steps, epoch);
            stage::close(begun, Category::EpochStart, MonotonicClock::read(), args);
        }
        Box::new(TracedIterator {
            inner,
            steps: &self.steps,
            position: Position { epoch, step: 0 },
            _pass: pass,
            unwrap: self.unwrap,
        })
    }

    fn num_items(&self) -> usize {
        self.inner.num_items()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        self.derive(self.inner.to_device(device))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        self.derive(self.inner.slice(start, end))
    }
}

struct TracedIterator<'a, T, O> {
    inner: Box<dyn DataLoaderIterator<T> + 'a>,
    steps: &'a Steps,
    /// Of the next call of `next()`.
    position: Position,
    _pass: Pass,
    unwrap: fn(T) -> (O, Option<Tag>),
}

impl<T, O> Iterator for TracedIterator<'_, T, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.position;
        self.position.step += 1;
        let _in_next = InNext::enter();
        let begun = Begun::wait();
        let now = begun.map_or_else(MonotonicClock::read, |begun| begun.at);
        self.steps.reach(position, now);
        let Some(begun) = begun else {
            return self.next_unrecorded(position);
        };
        let args = wait_args(self.steps, position);
        stage::open_with(&begun, Category::DataWait, Some(args.clone().into()));
        let witness = PanicWitness::new(Some(begun), Category::DataWait);
        let next = self.inner.next();
        witness.disarm();
        let end = MonotonicClock::read();
        let mut args = args;
        let (cat, item) = match next {
            None => {
                // Items that were read in process and fill no batch.
                get::abandon();
                args.retain(|(key, _)| *key != arg::STEP);
                (Category::EpochEnd, None)
            }
            Some(Err(error)) => {
                args.push((arg::ERROR, Text::Owned(error.to_string().into())));
                (Category::DataWait, Some(Err(error)))
            }
            Some(Ok(batch)) => {
                let (batch, tag) = (self.unwrap)(batch);
                // A batch that an earlier session saw made has no beginning in this one.
                if let Some(tag) = tag.filter(|tag| tag.generation == begun.generation) {
                    args.push((arg::BATCH, Text::U64(tag.id.0)));
                    args.push((arg::WORKER, Text::U64(tag.worker.0.into())));
                    self.took(&begun, end, &tag);
                }
                self.steps.got_batch(position);
                (Category::DataWait, Some(Ok(batch)))
            }
        };
        args.extend(begun.spent());
        stage::close(&begun, cat, end, Some(args.into()));
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<T, O> TracedIterator<'_, T, O> {
    /// No session records: steps are still counted, so that their numbers are right if one does
    /// later.
    fn next_unrecorded(&mut self, position: Position) -> Option<Result<O, DatasetError>> {
        let item = self.inner.next()?;
        if item.is_ok() {
            self.steps.got_batch(position);
        }
        Some(item.map(|batch| (self.unwrap)(batch).0))
    }

    /// This thread took a batch; if another thread made it, it came through a queue.
    fn took(&self, wait: &Begun, end: MonoTime, tag: &Tag) {
        if let Some(place) = &tag.place {
            let queue = place.queue.name_after(self.steps.name);
            let taken = BatchTaken {
                batch: tag.id.0,
                queue,
                worker: tag.worker,
                made: tag.made,
                wait: (wait.at, end),
            };
            push(wait.generation, Record::BatchTaken(Box::new(taken)));
        }
    }
}

impl<T, O> DataLoaderIterator<O> for TracedIterator<'_, T, O> {
    fn progress(&self) -> Progress {
        self.inner.progress()
    }
}

impl<T, O> Drop for TracedIterator<'_, T, O> {
    fn drop(&mut self) {
        let Some(last) = self.position.step.checked_sub(1) else {
            return;
        };
        let last = Position {
            step: last,
            ..self.position
        };
        self.steps.leave(last, MonotonicClock::read());
    }
}

fn epoch_args(steps: &Steps, epoch: u64) -> Args {
    Some(Box::new([
        (arg::LOADER, Text::Static(steps.name)),
        (arg::KIND, Text::Static(steps.kind.as_str())),
        (arg::EPOCH, Text::U64(epoch)),
    ]))
}

fn wait_args(steps: &Steps, position: Position) -> Vec<(&'static str, Text)> {
    let mut args = Vec::with_capacity(8);
    args.extend([
        (arg::LOADER, Text::Static(steps.name)),
        (arg::KIND, Text::Static(steps.kind.as_str())),
        (arg::EPOCH, Text::U64(position.epoch)),
        (arg::STEP, Text::U64(position.step)),
    ]);
    args
}
