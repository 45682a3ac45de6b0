//! Errors of the data set reach the user unchanged, panics go their way, and both are in the
//! trace.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::DataLoaderBuilder;
use gpustall::instrument;
use gpustall_tests::{
    Collect, Numbers, alone, assert_well_formed, first_panic, flag, number, numbers_loader, record,
    slices, text,
};
use gpustall_trace::{Slice, Trace, vocab::arg, vocab::cat};
use std::error::Error;

fn broken() -> Numbers {
    Numbers {
        broken: Some(13),
        ..Numbers::new(40)
    }
}

fn panics() -> Numbers {
    Numbers {
        panics: Some(13),
        ..Numbers::new(40)
    }
}

/// The first error of a loader, and that of its source.
fn first_error<O>(
    loader: &dyn burn_core::data::dataloader::DataLoader<O>,
) -> (String, Option<String>) {
    let error = loader.iter().find_map(Result::err).unwrap();
    (error.to_string(), error.source().map(ToString::to_string))
}

fn with_error<'t>(trace: &'t Trace, cat: &str) -> Vec<&'t Slice> {
    let mut found = slices(trace, cat);
    found.retain(|s| text(trace, s, arg::ERROR).is_some());
    found
}

#[test]
fn an_error_reaches_the_user_as_it_does_without_us_and_is_in_the_trace() {
    let _alone = alone();
    for (workers, shuffle) in [(0, false), (0, true), (1, false), (2, true)] {
        let batcher = Collect::default();
        let set = |mut b: DataLoaderBuilder<usize, Vec<usize>>| {
            b = b.batch_size(4).num_workers(workers);
            if shuffle { b.shuffle(3) } else { b }
        };
        let plain = set(DataLoaderBuilder::new(batcher.clone())).build(broken());
        let plain = first_error(&*plain);

        let (trace, _, traced) = record("error", || {
            let mut builder = DataLoaderBuilder::new(instrument::batcher(batcher))
                .batch_size(4)
                .num_workers(workers);
            if shuffle {
                builder = builder.shuffle(3);
            }
            let inner = builder.build(instrument::dataset(broken()));
            first_error(&*instrument::loader("train", inner))
        });
        assert_eq!(traced, plain, "{workers} workers, shuffle {shuffle}");
        assert!(traced.0.contains("planted failure"), "{}", traced.0);

        let waits = with_error(&trace, cat::DATA_WAIT);
        assert_eq!(waits.len(), 1);
        assert_eq!(text(&trace, waits[0], arg::ERROR), Some(&*traced.0));
        let gets = with_error(&trace, cat::DATA_GET);
        assert!(!gets.is_empty(), "the stage that failed");
        for get in gets {
            assert_eq!(text(&trace, get, arg::ERROR), Some("planted failure"));
        }
        assert_well_formed(&trace);
    }
}

#[test]
fn a_batch_after_an_error_is_a_step_again() {
    let _alone = alone();
    let (trace, _, (batches, errors)) = record("goes on", || {
        let loader = numbers_loader("train", broken(), 0);
        let mut batches = loader.iter();
        let mut counts = (0, 0);
        // In process Burn tries the same batch again.
        for _ in 0..6 {
            match batches.next().unwrap() {
                Ok(_) => counts.0 += 1,
                Err(_) => counts.1 += 1,
            }
        }
        counts
    });
    assert_eq!((batches, errors), (3, 3));
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 6);
    assert_eq!(with_error(&trace, cat::DATA_WAIT).len(), 3);
    assert_eq!(slices(&trace, cat::STEP).len(), 3, "a step has a batch");
    assert_well_formed(&trace);
}

/// What the faults of a trace say.
fn faults(trace: &Trace) -> Vec<&str> {
    let of = |i: &&gpustall_trace::Instant| trace.text(i.cat) == cat::FAULT;
    let faults = trace.instants.iter().filter(of);
    faults
        .map(|i| trace.arg_str(&i.args, arg::MESSAGE).unwrap())
        .collect()
}

/// A loader of batches that cannot be made.
#[derive(Clone)]
struct Cursed;

impl burn_core::data::dataloader::batcher::Batcher<usize, Vec<usize>> for Cursed {
    fn batch(&self, items: Vec<usize>, _: &burn_core::tensor::Device) -> Vec<usize> {
        assert!(!items.contains(&13), "cursed batch");
        items
    }
}

#[test]
fn a_panicking_worker_ends_the_epoch_as_without_us_and_the_trace_shows_where() {
    let _alone = alone();
    for stage in [cat::DATA_GET, cat::DATA_COLLATE] {
        let in_get = stage == cat::DATA_GET;
        let numbers = || if in_get { panics() } else { Numbers::new(40) };
        let builder = DataLoaderBuilder::<usize, Vec<usize>>::new(Cursed);
        let plain = builder.batch_size(4).num_workers(2).build(numbers());
        let plain = (plain.iter().count(), first_panic(|| plain.iter().count()));

        let (trace, summary, traced) = record("panic", || {
            let inner = DataLoaderBuilder::new(instrument::batcher(Cursed))
                .batch_size(4)
                .num_workers(2)
                .build(instrument::dataset(numbers()));
            let loader = instrument::loader("train", inner);
            (loader.iter().count(), first_panic(|| loader.iter().count()))
        });
        assert_eq!(
            plain, traced,
            "the epoch ends silently, the next one panics"
        );
        assert_eq!(plain.0, 8, "three batches of one worker, five of the other");

        let mut left = slices(&trace, stage);
        left.retain(|s| flag(&trace, s, arg::PANICKED));
        assert_eq!(left.len(), 1, "the slice that was left by the panic");
        let name = if in_get { "get" } else { "collate" };
        let faults = faults(&trace);
        assert_eq!(faults[0], format!("dataloader-0 panicked in {name}"));
        let report = summary.report().unwrap();
        assert!(
            report.faults.iter().any(|f| f.thread == "dataloader-0"),
            "{:?}",
            report.faults
        );
        let text = summary.to_string();
        assert!(text.contains(&format!("panicked in {name}")), "{text}");
        let mut starts = slices(&trace, cat::EPOCH_START);
        starts.retain(|s| flag(&trace, s, arg::PANICKED));
        assert_eq!(starts.len(), 1, "the iter() that panicked");
        assert_eq!(number(&trace, starts[0], arg::EPOCH), None);
        assert_well_formed(&trace);
    }
}

#[test]
fn a_panic_inside_next_goes_to_the_trainer_unchanged() {
    let _alone = alone();
    let (trace, _, panic) = record("panic", || {
        let loader = numbers_loader("train", panics(), 0);
        first_panic(|| loader.iter().count())
    });
    assert_eq!(panic, "planted panic at 13");
    for cat in [cat::DATA_GET, cat::DATA_WAIT] {
        let mut left = slices(&trace, cat);
        left.retain(|s| flag(&trace, s, arg::PANICKED));
        assert_eq!(left.len(), 1, "{cat}");
    }
    assert_eq!(slices(&trace, cat::STEP).len(), 3);
    assert_well_formed(&trace);
}
