//! A data set of numbers, and batches that are lists of them.

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The numbers from 0 to `len`, each read after a pause.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    /// How many.
    pub len: usize,
    /// How long reading one takes.
    pub delay: Duration,
    /// The number that cannot be read.
    pub broken: Option<usize>,
    /// The number whose reader panics.
    pub panics: Option<usize>,
    /// The number whose reader never returns.
    pub hangs: Option<usize>,
    /// How many were read; shared by clones.
    pub reads: Arc<AtomicUsize>,
}

impl Numbers {
    /// `len` numbers that read at once.
    pub fn new(len: usize) -> Self {
        Self {
            len,
            ..Self::default()
        }
    }

    /// The same, each read taking `delay`.
    pub fn slow(len: usize, delay: Duration) -> Self {
        Self {
            delay,
            ..Self::new(len)
        }
    }
}

impl Dataset<usize> for Numbers {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        assert!(self.panics != Some(index), "planted panic at {index}");
        if self.broken == Some(index) {
            return Err(DatasetError::new(std::io::Error::other("planted failure")));
        }
        while self.hangs == Some(index) {
            std::thread::park();
        }
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(index)
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Makes a batch of the items themselves, after a pause.
#[derive(Debug, Clone, Default)]
pub struct Collect {
    /// How long making one batch takes.
    pub delay: Duration,
    /// How many batches were made; shared by clones.
    pub made: Arc<AtomicUsize>,
}

impl<I: Send> Batcher<I, Vec<I>> for Collect {
    fn batch(&self, items: Vec<I>, _: &Device) -> Vec<I> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        items
    }
}

/// An instrumented loader of `numbers` called `name`, four to a batch, in their order.
pub fn numbers_loader(
    name: &str,
    numbers: Numbers,
    workers: usize,
) -> Arc<dyn DataLoader<Vec<usize>>> {
    let batcher = gpustall::instrument::batcher(Collect::default());
    let inner = DataLoaderBuilder::new(batcher)
        .batch_size(4)
        .num_workers(workers)
        .build(gpustall::instrument::dataset(numbers));
    gpustall::instrument::loader(name, inner)
}
