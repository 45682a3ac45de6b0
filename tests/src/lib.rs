//! What the end-to-end tests share: a small data set and batcher without tensors, and a session
//! in a directory of its own.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;
use gpustall::Summary;
use gpustall_trace::{Slice, Trace};
use std::time::Duration;

/// The numbers from 0 to `len`, each read after a pause.
#[derive(Debug, Clone)]
pub struct Numbers {
    /// How many.
    pub len: usize,
    /// How long reading one takes.
    pub delay: Duration,
    /// The number that cannot be read.
    pub broken: Option<usize>,
    /// The number whose reader panics.
    pub panics: Option<usize>,
}

impl Numbers {
    /// `len` numbers that read at once.
    pub fn new(len: usize) -> Self {
        Self {
            len,
            delay: Duration::ZERO,
            broken: None,
            panics: None,
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
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
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
}

impl<I: Send> Batcher<I, Vec<I>> for Collect {
    fn batch(&self, items: Vec<I>, _: &Device) -> Vec<I> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        items
    }
}

/// Runs `job` in a session and returns the trace it wrote, and the summary.
pub fn record<T>(name: &str, job: impl FnOnce() -> T) -> (Trace, Summary, T) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let session = gpustall::session(name).output(&output).start().unwrap();
    let result = job();
    let summary = session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap();
    assert_eq!(
        trace.warnings, [""; 0],
        "a finished trace reads without warnings"
    );
    (trace.trace, summary, result)
}

/// The slices of category `cat`, by start.
pub fn slices<'t>(trace: &'t Trace, cat: &str) -> Vec<&'t Slice> {
    let of = |slice: &&Slice| trace.text(slice.cat) == cat;
    trace.slices.iter().filter(of).collect()
}

/// The name of a slice's track.
pub fn track_name<'t>(trace: &'t Trace, slice: &Slice) -> &'t str {
    trace.text(trace.track(slice.track).unwrap().name)
}
