//! Items that were read and never made a batch: the reading is shown, and nothing beyond it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::{
    BatchDataLoader, BatchStrategy, DataLoader, MultiThreadDataLoader,
};
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;
use gpustall::instrument::{self, Tagged};
use gpustall_tests::{
    Collect, alone, assert_well_formed, flag, inside, number, slices, track_name,
};
use gpustall_trace::{Nanos, Slice, Trace, partial_path, vocab::arg, vocab::cat};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BATCH: usize = 4;
/// Five batches, and two items that are read and thrown away.
const ITEMS: usize = 22;
/// How long reading one of those two takes: the partial file shows their stage as begun.
const SLOW: Duration = Duration::from_millis(400);
/// How long the job does something else after an epoch.
const PAUSE: Duration = Duration::from_millis(1_500);

/// The numbers below [`ITEMS`]; the last two take long to read.
struct SlowAtTheEnd;

impl Dataset<usize> for SlowAtTheEnd {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        if index >= ITEMS - 2 {
            std::thread::sleep(SLOW);
        }
        Ok(index)
    }

    fn len(&self) -> usize {
        ITEMS
    }
}

/// Whole batches only.
#[derive(Default)]
struct DropLast(Vec<usize>);

impl BatchStrategy<usize> for DropLast {
    fn add(&mut self, item: usize) {
        self.0.push(item);
    }

    fn batch(&mut self, _force: bool) -> Option<Vec<usize>> {
        (self.0.len() == BATCH).then(|| std::mem::take(&mut self.0))
    }

    fn clone_dyn(&self) -> Box<dyn BatchStrategy<usize>> {
        Box::new(Self::default())
    }

    fn batch_size(&self) -> Option<usize> {
        Some(BATCH)
    }
}

fn loader(workers: usize) -> Arc<dyn DataLoader<Vec<usize>>> {
    let batcher = Arc::new(instrument::batcher(Collect::default()));
    let numbers = Arc::new(instrument::dataset(SlowAtTheEnd));
    let (strategy, device) = (Box::new(DropLast::default()), Device::default());
    let inner: Arc<dyn DataLoader<Tagged<Vec<usize>>>> = match workers {
        0 => Arc::new(BatchDataLoader::new(
            strategy, numbers, batcher, device, None,
        )),
        _ => Arc::new(MultiThreadDataLoader::new(
            strategy, numbers, batcher, workers, device, None,
        )),
    };
    instrument::loader("train", inner)
}

/// Two epochs with a pause after each; the trace, the partial file as it was in the second pause, and
/// what the report has of stages that never ended.
fn record(workers: usize, directory: &Path) -> (Trace, Trace, usize) {
    let output = directory.join("run.trace.json");
    let session = gpustall::session("drop last")
        .sidecar(gpustall::Sidecar::Off)
        .output(&output)
        .start()
        .unwrap();
    let loader = loader(workers);
    for _ in 0..2 {
        assert_eq!(loader.iter().count(), ITEMS / BATCH);
        std::thread::sleep(PAUSE);
    }
    let partial = gpustall_trace::read(&partial_path(&output)).unwrap().trace;
    let summary = session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap().trace;
    (trace, partial, summary.report().unwrap().unfinished.len())
}

/// The get stages of which no batch came.
fn thrown_away(trace: &Trace) -> Vec<&Slice> {
    let mut gets = slices(trace, cat::DATA_GET);
    gets.retain(|get| number(trace, get, arg::BATCH).is_none());
    gets
}

#[test]
fn a_worker_that_waits_for_the_next_epoch_is_not_still_in_get() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (trace, partial, open) = record(2, directory.path());
    assert_eq!(open, 0, "stages that never ended");
    for (name, trace) in [("partial", &partial), ("finished", &trace)] {
        let gets = thrown_away(trace);
        assert_eq!(gets.len(), 2, "{name}: the rest of each epoch");
        let (least, most) = (2 * SLOW, 2 * SLOW + PAUSE / 2);
        for get in gets {
            let length = Duration::from_nanos(get.span.len().get());
            assert!(length >= least && length < most, "{name}: {length:?}");
            assert!(!flag(trace, get, arg::UNFINISHED), "{name}");
            assert_eq!(track_name(trace, get), "dataloader-1");
        }
        let made = slices(trace, cat::DATA_GET).len() - 2;
        assert_eq!(made, 2 * (ITEMS / BATCH), "{name}: batches that were made");
        // And those that were made were not begun in the epoch before.
        let longest = slices(trace, cat::DATA_GET)
            .into_iter()
            .filter(|get| number(trace, get, arg::BATCH).is_some())
            .map(|get| get.span.len())
            .max();
        assert!(longest < Some(Nanos::new(300_000_000)), "{longest:?}");
        assert_well_formed(trace);
    }
}

#[test]
fn items_that_were_read_in_process_and_thrown_away_are_shown_in_the_end_of_the_epoch() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (trace, _, open) = record(0, directory.path());
    assert_eq!(open, 0);
    let (gets, ends) = (thrown_away(&trace), slices(&trace, cat::EPOCH_END));
    assert_eq!((gets.len(), ends.len()), (2, 2));
    for (get, end) in gets.iter().zip(ends) {
        assert!(inside(get, end));
        assert!(Duration::from_nanos(get.span.len().get()) >= 2 * SLOW);
    }
    assert_well_formed(&trace);
}
