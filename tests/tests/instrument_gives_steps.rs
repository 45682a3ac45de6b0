//! Steps follow the loader.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::DataLoader;
use burn_core::data::dataloader::split::split_dataloader;
use burn_core::tensor::Device;
use gpustall::instrument::{self, LoaderKind};
use gpustall_tests::{
    Numbers, alone, assert_well_formed, number, numbers_loader, only, os_tid, record, slices,
    slices_of, text, track_name,
};
use gpustall_trace::{Slice, Trace, vocab::arg, vocab::cat};
use std::time::Duration;

/// Epoch and step of each slice.
fn positions(trace: &Trace, slices: &[&Slice]) -> Vec<(u64, u64)> {
    let position = |s: &&Slice| {
        let number = |key| number(trace, s, key).unwrap();
        (number(arg::EPOCH), number(arg::STEP))
    };
    slices.iter().map(position).collect()
}

fn expected(epochs: u64, steps: u64) -> Vec<(u64, u64)> {
    let epoch = |epoch| (0..steps).map(move |step| (epoch, step));
    (0..epochs).flat_map(epoch).collect()
}

#[test]
fn steps_last_from_one_next_to_the_following_one() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, _, tid) = record("steps", || {
            let loader = numbers_loader("train", Numbers::new(40), workers);
            for batch in loader.iter() {
                batch.unwrap();
                let _forward = instrument::phase("forward");
            }
            os_tid()
        });
        let steps = slices(&trace, cat::STEP);
        let waits = slices(&trace, cat::DATA_WAIT);
        assert_eq!(positions(&trace, &steps), expected(1, 10));
        assert_eq!(positions(&trace, &waits), expected(1, 10));
        for (step, wait) in steps.iter().zip(&waits) {
            assert_eq!(step.span.start, wait.span.start, "it begins with next()");
            assert_eq!(number(&trace, step, arg::THREAD), Some(tid.into()));
            assert_eq!(text(&trace, step, arg::KIND), Some("train"));
        }
        for pair in steps.windows(2) {
            assert_eq!(pair[0].span.end, pair[1].span.start, "without a gap");
        }
        let ends = slices(&trace, cat::EPOCH_END);
        assert_eq!(ends.len(), 1, "the next() that returned None is no wait");
        assert_eq!(
            steps[9].span.end, ends[0].span.start,
            "it ends the last step"
        );
        assert_eq!(number(&trace, ends[0], arg::STEP), None);
        assert_eq!(number(&trace, ends[0], arg::EPOCH), Some(0));
        let starts = slices(&trace, cat::EPOCH_START);
        assert_eq!(starts.len(), 1);
        assert!(starts[0].span.end <= steps[0].span.start);
        assert_well_formed(&trace);
    }
}

#[test]
fn a_break_out_of_the_loop_ends_the_step_at_the_break() {
    let _alone = alone();
    let (trace, ..) = record("break", || {
        let loader = numbers_loader("train", Numbers::new(40), 2);
        for (step, batch) in loader.iter().enumerate() {
            batch.unwrap();
            let _work = gpustall::span("work");
            if step == 3 {
                break;
            }
        }
        let _after = gpustall::span("after");
        std::thread::sleep(Duration::from_millis(20));
    });
    let steps = slices(&trace, cat::STEP);
    assert_eq!(positions(&trace, &steps), expected(1, 4));
    let (last, after) = (steps[3], only(&trace, "after"));
    assert!(
        last.span.end <= after.span.start,
        "not at the end of the run"
    );
    let work = gpustall_tests::named(&trace, "work");
    assert!(work[3].span.end <= last.span.end, "the work is in the step");
    assert!(slices(&trace, cat::EPOCH_END).is_empty());
    assert_well_formed(&trace);
}

#[test]
fn epochs_number_their_steps() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, ..) = record("epochs", || {
            let loader = numbers_loader("train", Numbers::new(20), workers);
            for _ in 0..3 {
                loader.iter().for_each(drop);
                let _checkpoint = gpustall::span("between epochs");
            }
        });
        for cat in [cat::STEP, cat::DATA_WAIT] {
            assert_eq!(positions(&trace, &slices(&trace, cat)), expected(3, 5));
        }
        let steps = slices(&trace, cat::STEP);
        for between in gpustall_tests::named(&trace, "between epochs") {
            let apart = |s: &&Slice| s.span.intersection(between.span).is_empty();
            assert!(steps.iter().all(apart), "the last step ended before");
        }
        assert_eq!(slices(&trace, cat::EPOCH_END).len(), 3);
        assert_well_formed(&trace);
    }
}

#[test]
fn two_loaders_are_told_apart_by_name_and_kind() {
    let _alone = alone();
    let (trace, summary, ()) = record("two", || {
        let train = numbers_loader("train", Numbers::new(40), 2);
        let valid = numbers_loader("valid", Numbers::new(12), 0);
        for _ in 0..2 {
            train.iter().for_each(drop);
            valid.iter().for_each(drop);
        }
    });
    for (loader, steps) in [("train", 10), ("valid", 3)] {
        for cat in [cat::STEP, cat::DATA_WAIT] {
            let found = slices_of(&trace, cat, loader);
            assert_eq!(positions(&trace, &found), expected(2, steps));
            for slice in &found {
                assert_eq!(text(&trace, slice, arg::KIND), Some(loader));
            }
        }
        let steps = slices_of(&trace, cat::STEP, loader);
        assert_eq!(track_name(&trace, steps[0]), format!("steps: {loader}"));
    }
    let report = summary.report().unwrap();
    assert!(!report.evaluation, "training gives the run its steps");
    let mut loaders: Vec<_> = report
        .loaders
        .iter()
        .map(|l| (&*l.name, &*l.kind, l.batches))
        .collect();
    loaders.sort_unstable();
    assert_eq!(loaders[0].0, "train");
    assert_eq!(loaders[1], ("valid", "valid", 6));
    assert_well_formed(&trace);
}

#[test]
fn a_kind_said_outright_overrules_the_name() {
    let _alone = alone();
    let (trace, ..) = record("kinds", || {
        use burn_core::data::dataloader::DataLoaderBuilder;
        let build = || {
            let builder =
                DataLoaderBuilder::new(instrument::batcher(gpustall_tests::Collect::default()));
            builder
                .batch_size(4)
                .build(instrument::dataset(Numbers::new(8)))
        };
        let foreign = || {
            let builder = DataLoaderBuilder::new(gpustall_tests::Collect::default());
            builder.batch_size(4).build(Numbers::new(8))
        };
        let (train, valid) = (LoaderKind::Train, LoaderKind::Valid);
        for loader in [
            instrument::loader_of_kind(train, "test set", build()),
            instrument::untagged_loader_of_kind(valid, "held out", foreign()),
        ] {
            loader.iter().for_each(drop);
        }
    });
    for (loader, kind) in [("test set", "train"), ("held out", "valid")] {
        let steps = slices_of(&trace, cat::STEP, loader);
        assert_eq!(steps.len(), 2);
        assert_eq!(text(&trace, steps[0], arg::KIND), Some(kind));
    }
}

/// Advances all slices once a step, as burn-train's strategy for several devices does.
fn round_robin(parts: &[std::sync::Arc<dyn DataLoader<Vec<usize>>>]) -> Vec<usize> {
    let mut iterators: Vec<_> = parts.iter().map(|part| part.iter()).collect();
    let mut items = Vec::new();
    loop {
        let batches: Vec<_> = iterators.iter_mut().map(Iterator::next).collect();
        if batches.iter().all(Option::is_none) {
            items.sort_unstable();
            return items;
        }
        items.extend(batches.into_iter().flatten().flat_map(Result::unwrap));
    }
}

#[test]
fn slices_of_one_loader_share_its_steps() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, summary, ()) = record("slices", || {
            let loader = numbers_loader("train", Numbers::new(40), workers);
            let devices = [Device::flex(), Device::flex()];
            let parts = split_dataloader(loader, &devices);
            assert_eq!(parts.len(), 2);
            for _ in 0..2 {
                assert_eq!(round_robin(&parts), (0..40).collect::<Vec<_>>());
            }
        });
        let steps = slices_of(&trace, cat::STEP, "train");
        assert_eq!(positions(&trace, &steps), expected(2, 5));
        let waits = slices_of(&trace, cat::DATA_WAIT, "train");
        assert_eq!(waits.len(), 20, "both slices were waited for");
        for step in &steps {
            let of_step = waits.iter().filter(|w| gpustall_tests::inside(w, step));
            let same = |w: &&Slice| positions(&trace, &[w]) == positions(&trace, &[step]);
            assert_eq!(of_step.clone().count(), 2);
            assert!(of_step.copied().all(|w| same(&w)));
        }
        let tracks: std::collections::HashSet<_> = steps.iter().map(|s| s.track).collect();
        assert_eq!(tracks.len(), 1, "one loop, one track");
        assert_eq!(summary.report().unwrap().loaders.len(), 1);
        assert_well_formed(&trace);
    }
}

#[test]
fn slices_of_uneven_length_share_the_steps_of_the_longest() {
    let _alone = alone();
    let (trace, ..) = record("uneven", || {
        let loader = numbers_loader("train", Numbers::new(40), 0);
        let parts = [loader.slice(0, 12), loader.slice(12, 40)];
        assert_eq!(round_robin(&parts).len(), 40);
    });
    let steps = slices(&trace, cat::STEP);
    assert_eq!(positions(&trace, &steps), expected(1, 7));
    assert_well_formed(&trace);
}

#[test]
fn a_loader_moved_to_its_device_anew_in_each_epoch_has_steps_in_all_of_them() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, ..) = record("moved", || {
            let loader = numbers_loader("train", Numbers::new(20), workers);
            for _ in 0..3 {
                let moved = loader.to_device(&Device::flex());
                moved.iter().for_each(drop);
            }
        });
        for cat in [cat::STEP, cat::DATA_WAIT] {
            assert_eq!(positions(&trace, &slices(&trace, cat)), expected(3, 5));
        }
    }
}

#[test]
fn slices_made_anew_in_each_epoch_share_steps_in_all_of_them() {
    let _alone = alone();
    let (trace, ..) = record("split anew", || {
        let loader = numbers_loader("train", Numbers::new(40), 0);
        for _ in 0..3 {
            let devices = [Device::flex(), Device::flex()];
            round_robin(&split_dataloader(loader.clone(), &devices));
        }
    });
    let steps = slices(&trace, cat::STEP);
    assert_eq!(positions(&trace, &steps), expected(3, 5));
    assert_well_formed(&trace);
}

#[test]
fn a_loop_without_a_loader_marks_its_steps() {
    let _alone = alone();
    let (trace, summary, ()) = record("direct", || {
        for _ in 0..8 {
            let _step = instrument::step("direct");
            let _forward = instrument::phase("forward");
        }
        let _after = gpustall::span("after");
    });
    let steps = slices_of(&trace, cat::STEP, "direct");
    assert_eq!(positions(&trace, &steps), expected(1, 8));
    let after = only(&trace, "after");
    for (step, forward) in steps.iter().zip(slices(&trace, cat::PHASE)) {
        assert!(gpustall_tests::inside(forward, step));
        assert!(step.span.end <= after.span.start);
        assert_eq!(text(&trace, step, arg::KIND), Some("train"));
    }
    assert!(slices(&trace, cat::DATA_WAIT).is_empty());
    assert!(summary.report().unwrap().window_ns > 0);
    assert_well_formed(&trace);
}

#[test]
fn an_empty_loader_has_no_steps() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, ..) = record("empty", || {
            let loader = numbers_loader("train", Numbers::new(0), workers);
            assert!(loader.iter().next().is_none());
            drop(loader.iter());
        });
        assert!(slices(&trace, cat::STEP).is_empty());
        assert!(slices(&trace, cat::DATA_WAIT).is_empty());
        assert_eq!(slices(&trace, cat::EPOCH_END).len(), 1);
    }
}
