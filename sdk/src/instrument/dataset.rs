//! A data set whose reads are recorded.

use super::get;
use super::stage::{self, PanicWitness};
use crate::recorder::ring::push;
use crate::recorder::{Category, Record, Text};
use burn_core::data::dataset::Dataset;
use gpustall_trace::{MonotonicClock, vocab::arg};
use std::error::Error;

/// Wraps a data set so that the time in which items are read is recorded, batch by batch.
///
/// Every method is forwarded. Reads of single items are not recorded one by one unless
/// [`sample_items`](crate::SessionBuilder::sample_items) asks for it: they cost about 2 ns each.
pub fn dataset<D>(inner: D) -> TracedDataset<D> {
    TracedDataset { inner }
}

/// Made by [`dataset`].
#[derive(Debug, Clone)]
pub struct TracedDataset<D> {
    inner: D,
}

impl<D> TracedDataset<D> {
    /// The data set inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Gives the data set back.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn read<T, E: Error>(
        index: Option<usize>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(generation) = stage::reading() else {
            return read();
        };
        let sampled = stage::sampled();
        let witness = PanicWitness::of_get();
        let outcome = read();
        witness.disarm();
        get::leave_read();
        if let Some(start) = sampled
            && let Some(index) = index
        {
            push(
                generation,
                Record::Slice {
                    cat: Category::DataItem,
                    name: "item",
                    start,
                    end: MonotonicClock::read(),
                    args: Some(Box::new([(arg::INDEX, Text::U64(index as u64))])),
                },
            );
        }
        if let Err(error) = &outcome
            && let Some(begun) = get::take()
        {
            let error = Text::Owned(error.to_string().into());
            let args = std::iter::once((arg::ERROR, error)).chain(begun.spent());
            let args = Some(args.collect());
            stage::close(&begun, Category::DataGet, MonotonicClock::read(), args);
        }
        outcome
    }
}

impl<D, I, E> Dataset<I, E> for TracedDataset<D>
where
    D: Dataset<I, E>,
    E: Error + Send + Sync + 'static,
{
    #[inline]
    fn get(&self, index: usize) -> Result<I, E> {
        Self::read(Some(index), || self.inner.get(index))
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<I>, E> {
        Self::read(None, || self.inner.get_many(indexes))
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }
}
