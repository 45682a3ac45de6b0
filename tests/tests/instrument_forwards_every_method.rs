//! Wrappers change nothing: every method of Burn's traits reaches what is inside, and its result
//! comes back as it is.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder, DataLoaderIterator, Progress};
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;
use gpustall::instrument::{self, Tagged};
use gpustall_tests::{alone, record};
use std::fmt;
use std::sync::{Arc, Mutex};

type Calls = Arc<Mutex<Vec<String>>>;

fn taken(calls: &Calls) -> Vec<String> {
    std::mem::take(&mut *calls.lock().unwrap())
}

/// Runs `check` while a session records, and while none does.
fn with_and_without_a_session(check: impl Fn()) {
    let _alone = alone();
    check();
    record("forward", check);
}

/// A data set whose answers cannot come from the trait's default methods.
#[derive(Clone, Default)]
struct OddData(Calls);

/// An error of the user's own type.
#[derive(Debug, PartialEq)]
struct OddError(usize);

impl fmt::Display for OddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "odd item {}", self.0)
    }
}

impl std::error::Error for OddError {}

impl Dataset<usize, OddError> for OddData {
    fn get(&self, index: usize) -> Result<usize, OddError> {
        self.0.lock().unwrap().push(format!("get {index}"));
        if index == 99 {
            Err(OddError(index))
        } else {
            Ok(index * 10)
        }
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<usize>, OddError> {
        self.0.lock().unwrap().push(format!("get_many {indexes:?}"));
        if indexes.contains(&99) {
            return Err(OddError(99));
        }
        Ok(indexes.into_iter().rev().map(|i| i * 100).collect())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().push("len".into());
        7
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().push("is_empty".into());
        true
    }
}

#[test]
fn a_wrapped_data_set_forwards_get_get_many_len_and_is_empty() {
    with_and_without_a_session(|| {
        let calls = Calls::default();
        let data = instrument::dataset(OddData(calls.clone()));
        assert_eq!(data.get(3), Ok(30));
        assert_eq!(data.get(99), Err(OddError(99)));
        assert_eq!(data.get_many(vec![5, 1]), Ok(vec![100, 500]));
        assert_eq!(data.get_many(vec![99]), Err(OddError(99)));
        assert_eq!(data.len(), 7);
        assert!(data.is_empty());
        let expected = [
            "get 3",
            "get 99",
            "get_many [5, 1]",
            "get_many [99]",
            "len",
            "is_empty",
        ];
        assert_eq!(taken(&calls), expected);
        let items: Vec<_> = data.iter().take(2).map(Result::unwrap).collect();
        assert_eq!(items, [0, 10]);
        assert!(Arc::ptr_eq(&data.inner().0, &calls));
        assert!(Arc::ptr_eq(&data.into_inner().0, &calls));
    });
}

#[test]
fn an_index_out_of_bounds_panics_as_it_does_without_us() {
    with_and_without_a_session(|| {
        let data = instrument::dataset(gpustall_tests::Numbers {
            panics: Some(7),
            ..gpustall_tests::Numbers::new(7)
        });
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Result<usize, DatasetError> = data.get(7);
        }));
        let panic = panic.unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "planted panic at 7");
    });
}

/// A batcher that says what it was called with.
#[derive(Clone, Default)]
struct OddBatcher(Calls);

impl Batcher<usize, String> for OddBatcher {
    fn batch(&self, items: Vec<usize>, device: &Device) -> String {
        let call = format!("{items:?} on {device:?}");
        self.0.lock().unwrap().push(call.clone());
        call
    }
}

#[test]
fn a_wrapped_batcher_gets_the_items_and_the_device_and_gives_its_batch() {
    with_and_without_a_session(|| {
        let calls = Calls::default();
        let batcher = instrument::batcher(OddBatcher(calls.clone()));
        for device in [Device::flex(), Device::flex().autodiff()] {
            let batch: Tagged<String> = batcher.batch(vec![2, 1], &device);
            let expected = format!("[2, 1] on {device:?}");
            assert_eq!(taken(&calls), std::slice::from_ref(&expected));
            assert_eq!(batch.clone().into_inner(), expected);
            assert_eq!(batch.into_inner(), expected);
        }
    });
}

/// A loader whose iterator's size and progress have nothing to do with its batches.
struct OddLoader<T> {
    calls: Calls,
    batch: fn(usize) -> T,
}

impl<T: 'static> DataLoader<T> for OddLoader<T> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<T> + 'a> {
        self.calls.lock().unwrap().push("iter".into());
        Box::new(OddIterator {
            calls: self.calls.clone(),
            batch: self.batch,
            next: 0,
        })
    }

    fn num_items(&self) -> usize {
        self.calls.lock().unwrap().push("num_items".into());
        42
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<T>> {
        self.derive(format!("to_device {device:?}"))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<T>> {
        self.derive(format!("slice {start} {end}"))
    }
}

impl<T: 'static> OddLoader<T> {
    fn derive(&self, call: String) -> Arc<dyn DataLoader<T>> {
        self.calls.lock().unwrap().push(call);
        Arc::new(Self {
            calls: self.calls.clone(),
            batch: self.batch,
        })
    }
}

struct OddIterator<T> {
    calls: Calls,
    batch: fn(usize) -> T,
    next: usize,
}

impl<T> Iterator for OddIterator<T> {
    type Item = Result<T, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.calls.lock().unwrap().push("next".into());
        self.next += 1;
        match self.next {
            1 => Some(Ok((self.batch)(1))),
            2 => Some(Err(DatasetError::new(OddError(2)))),
            // An iterator may go on after an error, and after its end.
            3 => None,
            _ => Some(Ok((self.batch)(self.next))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.calls.lock().unwrap().push("size_hint".into());
        (3, Some(5))
    }
}

impl<T> DataLoaderIterator<T> for OddIterator<T> {
    fn progress(&self) -> Progress {
        self.calls.lock().unwrap().push("progress".into());
        Progress::new(self.next, 9, Some("things".into()))
    }
}

fn check_loader(loader: &dyn DataLoader<String>, calls: &Calls) {
    assert_eq!(loader.num_items(), 42);
    assert_eq!(taken(calls), ["num_items"]);
    let mut batches = loader.iter();
    assert_eq!(batches.size_hint(), (3, Some(5)));
    let progress = batches.progress();
    assert_eq!((progress.items_processed, progress.items_total), (0, 9));
    assert_eq!(progress.unit.as_deref(), Some("things"));
    assert_eq!(batches.next().unwrap().unwrap(), "[1] on a device");
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "odd item 2");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(
        source.downcast_ref(),
        Some(&OddError(2)),
        "the error itself"
    );
    assert!(batches.next().is_none());
    assert_eq!(batches.next().unwrap().unwrap(), "[4] on a device");
    assert_eq!(batches.progress().items_processed, 4);
    let expected = [
        "iter",
        "size_hint",
        "progress",
        "next",
        "next",
        "next",
        "next",
        "progress",
    ];
    assert_eq!(taken(calls), expected);
}

fn check_derived(loader: &dyn DataLoader<String>, calls: &Calls) {
    check_loader(loader, calls);
    let device = Device::flex().autodiff();
    let moved = loader.to_device(&device);
    assert_eq!(taken(calls), [format!("to_device {device:?}")]);
    check_loader(&*moved, calls);
    let part = moved.slice(3, 8);
    assert_eq!(taken(calls), ["slice 3 8"]);
    check_loader(&*part, calls);
}

#[test]
fn a_wrapped_loader_forwards_iter_num_items_to_device_slice_progress_and_size_hint() {
    with_and_without_a_session(|| {
        let calls = Calls::default();
        let inner: Arc<dyn DataLoader<Tagged<String>>> = Arc::new(OddLoader {
            calls: calls.clone(),
            batch: |n| instrument::batcher(Named).batch(vec![n], &Device::flex()),
        });
        check_derived(&*instrument::loader("odd", inner), &calls);
    });
}

#[test]
fn an_untagged_loader_forwards_the_same() {
    with_and_without_a_session(|| {
        let calls = Calls::default();
        let inner: Arc<dyn DataLoader<String>> = Arc::new(OddLoader {
            calls: calls.clone(),
            batch: |n| Named.batch(vec![n], &Device::flex()),
        });
        check_derived(&*instrument::untagged_loader("odd", inner), &calls);
    });
}

#[derive(Clone)]
struct Named;

impl Batcher<usize, String> for Named {
    fn batch(&self, items: Vec<usize>, _: &Device) -> String {
        format!("{items:?} on a device")
    }
}

/// Counts the two ways of being read.
#[derive(Clone, Default)]
struct Counted(Calls);

impl Dataset<usize> for Counted {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        self.0.lock().unwrap().push("get".into());
        Ok(index)
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<usize>, DatasetError> {
        self.0.lock().unwrap().push("get_many".into());
        Ok(indexes)
    }

    fn len(&self) -> usize {
        20
    }
}

/// What a loader over `data` reads, and the items it gives in all, sorted.
fn read_through<D>(
    data: D,
    calls: &Calls,
    workers: usize,
    shuffle: bool,
) -> (Vec<String>, Vec<usize>)
where
    D: Dataset<usize> + 'static,
{
    let batcher = instrument::batcher(gpustall_tests::Collect::default());
    let mut builder = DataLoaderBuilder::new(batcher)
        .batch_size(5)
        .num_workers(workers);
    if shuffle {
        builder = builder.shuffle(7);
    }
    let loader = instrument::loader("train", builder.build(data));
    let mut items: Vec<usize> = loader.iter().flat_map(|b| b.unwrap()).collect();
    items.sort_unstable();
    (taken(calls), items)
}

#[test]
fn a_loader_reads_through_the_wrapper_as_it_reads_without_it() {
    with_and_without_a_session(|| {
        for (workers, shuffle) in [(0, false), (2, false), (0, true), (2, true)] {
            let calls = Calls::default();
            let plain = read_through(Counted(calls.clone()), &calls, workers, shuffle);
            let wrapped = instrument::dataset(Counted(calls.clone()));
            let through = read_through(wrapped, &calls, workers, shuffle);
            assert_eq!(plain, through);
            let kind = if shuffle { "get" } else { "get_many" };
            assert!(
                through.0.iter().all(|call| call == kind),
                "{workers} workers, shuffle {shuffle}: {:?}",
                through.0
            );
            assert_eq!(through.1, (0..20).collect::<Vec<_>>());
        }
    });
}
