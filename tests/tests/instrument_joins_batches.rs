//! A batch is followed from the thread that made it to the wait that took it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::DataLoaderBuilder;
use gpustall::instrument;
use gpustall_tests::{
    Collect, Numbers, alone, assert_well_formed, batch_flows, depths, eventually, flag, inside,
    number, numbers_loader, record, slices, slices_of, text, track_name, track_tid,
};
use gpustall_trace::{Slice, Trace, TrackKind, vocab::arg, vocab::cat};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn of_batch<'t>(trace: &'t Trace, cat: &str, batch: u64) -> &'t Slice {
    let mut found = slices(trace, cat);
    found.retain(|s| number(trace, s, arg::BATCH) == Some(batch));
    assert_eq!(found.len(), 1, "{cat} slices of batch {batch}");
    found[0]
}

#[test]
fn a_wait_is_joined_to_the_worker_and_the_stages_that_made_its_batch() {
    let _alone = alone();
    for shuffle in [false, true] {
        let (trace, ..) = record("joined", || {
            let collect = Collect {
                delay: Duration::from_millis(1),
                ..Collect::default()
            };
            let mut builder = DataLoaderBuilder::new(instrument::batcher(collect))
                .batch_size(4)
                .num_workers(2);
            if shuffle {
                builder = builder.shuffle(3);
            }
            let numbers = Numbers::slow(42, Duration::from_micros(300));
            let loader = instrument::loader("train", builder.build(instrument::dataset(numbers)));
            loader.iter().for_each(drop);
        });
        assert_well_formed(&trace);
        let waits = slices(&trace, cat::DATA_WAIT);
        assert_eq!(waits.len(), 11);
        let mut batches = HashSet::new();
        let mut items = 0;
        for wait in waits {
            let batch = number(&trace, wait, arg::BATCH).unwrap();
            assert!(batches.insert(batch), "a batch is taken once");
            let get = of_batch(&trace, cat::DATA_GET, batch);
            let collate = of_batch(&trace, cat::DATA_COLLATE, batch);
            assert_eq!(get.track, collate.track);
            assert!(get.span.end <= collate.span.start, "read before collated");
            assert!(collate.span.end <= wait.span.end, "made before taken");
            let worker = number(&trace, wait, arg::WORKER);
            assert_eq!(worker, Some(u64::from(track_tid(&trace, collate))));
            let name = track_name(&trace, collate);
            assert!(name.starts_with("dataloader-"), "{name}");
            assert_ne!(wait.track, collate.track);
            let of_get = number(&trace, get, arg::ITEMS);
            assert_eq!(of_get, number(&trace, collate, arg::ITEMS));
            items += of_get.unwrap();

            let mut flows = batch_flows(&trace).into_iter().filter(|f| f.id == batch);
            let flow = flows.next().unwrap();
            assert!(flows.next().is_none());
            assert_eq!(
                (flow.from.track, flow.to.track),
                (collate.track, wait.track)
            );
            assert!(collate.span.contains(flow.from.at), "it leaves the stage");
            assert!(wait.span.contains(flow.to.at), "it reaches the wait");
            assert!(flow.from.at <= flow.to.at, "never back in time");

            let mut queued = trace.async_slices.iter().filter(|a| a.id == batch);
            let queued = queued.next().unwrap();
            assert_eq!(queued.span.start, collate.span.end);
            assert_eq!(queued.span.end, wait.span.end);
        }
        assert_eq!(items, 42);
        assert_eq!(batch_flows(&trace).len(), 11);
        let cpu = |s: &&Slice| number(&trace, s, arg::CPU_NS).unwrap() <= s.span.len().get() * 2;
        assert!(slices(&trace, cat::DATA_GET).iter().all(cpu), "CPU time");
    }
}

#[test]
fn in_process_the_stages_lie_inside_the_wait_and_there_is_no_flow() {
    let _alone = alone();
    for shuffle in [false, true] {
        let (trace, summary, ()) = record("in process", || {
            let mut builder = DataLoaderBuilder::new(instrument::batcher(Collect::default()))
                .batch_size(4)
                .num_workers(0);
            if shuffle {
                builder = builder.shuffle(3);
            }
            let numbers = Numbers::slow(42, Duration::from_micros(100));
            let loader = instrument::loader("train", builder.build(instrument::dataset(numbers)));
            loader.iter().for_each(drop);
        });
        assert_well_formed(&trace);
        let waits = slices(&trace, cat::DATA_WAIT);
        assert_eq!(waits.len(), 11);
        for wait in waits {
            let batch = number(&trace, wait, arg::BATCH).unwrap();
            for stage in [cat::DATA_GET, cat::DATA_COLLATE] {
                let stage = of_batch(&trace, stage, batch);
                assert_eq!(stage.track, wait.track);
                assert!(inside(stage, wait));
            }
            let own = u64::from(track_tid(&trace, wait));
            assert_eq!(number(&trace, wait, arg::WORKER), Some(own));
        }
        assert!(
            batch_flows(&trace).is_empty(),
            "no arrow from a slice to its own"
        );
        assert!(trace.async_slices.is_empty(), "no queue");
        assert_eq!(depths(&trace, "queue depth train"), [0.0; 0]);
        let report = summary.report().unwrap();
        assert_eq!(report.loaders[0].in_process, Some(true));
    }
}

#[test]
fn the_queue_depth_rises_with_batches_made_and_is_0_at_the_end_of_an_epoch() {
    let _alone = alone();
    let (trace, ..) = record("depth", || {
        let collect = Collect::default();
        let made = collect.made.clone();
        let builder = DataLoaderBuilder::new(instrument::batcher(collect))
            .batch_size(4)
            .num_workers(1);
        let loader = builder.build(instrument::dataset(Numbers::new(40)));
        let loader = instrument::loader("train", loader);
        let mut batches = loader.iter();
        eventually("all batches are made", || {
            (made.load(Ordering::Relaxed) == 10).then_some(())
        });
        assert_eq!(batches.by_ref().count(), 10);
    });
    let depths = depths(&trace, "queue depth train");
    let up = (1..=10).map(f64::from);
    let down = (0..10).rev().map(f64::from);
    assert_eq!(depths, up.chain(down).collect::<Vec<_>>());
}

#[test]
fn the_queue_depth_is_0_after_an_iterator_was_dropped_early() {
    let _alone = alone();
    let (trace, ..) = record("dropped", || {
        let collect = Collect::default();
        let made = collect.made.clone();
        let builder = DataLoaderBuilder::new(instrument::batcher(collect))
            .batch_size(4)
            .num_workers(2);
        let loader = builder.build(instrument::dataset(Numbers::new(400)));
        let loader = instrument::loader("train", loader);
        let mut batches = loader.iter();
        batches.next().unwrap().unwrap();
        eventually("batches wait in the queue", || {
            (made.load(Ordering::Relaxed) >= 20).then_some(())
        });
        drop(batches);
        // Joins the workers.
        drop(loader);
    });
    let depths = depths(&trace, "queue depth train");
    assert!(depths.iter().any(|&d| d >= 10.0), "{depths:?}");
    assert!(depths.iter().all(|&d| d >= 0.0), "{depths:?}");
    assert_eq!(depths.last(), Some(&0.0), "{depths:?}");
    assert_well_formed(&trace);
}

#[test]
fn a_clone_of_a_batcher_serves_another_loader_with_a_queue_of_its_own() {
    let _alone = alone();
    let (trace, ..) = record("clones", || {
        let batcher = instrument::batcher(Collect::default());
        let build = |batcher: instrument::TracedBatcher<Collect>, name: &str, items| {
            let builder = DataLoaderBuilder::new(batcher).batch_size(4).num_workers(1);
            instrument::loader(
                name,
                builder.build(instrument::dataset(Numbers::new(items))),
            )
        };
        let train = build(batcher.clone(), "train", 40);
        let valid = build(batcher, "valid", 8);
        let mut training = train.iter();
        training.next().unwrap().unwrap();
        assert_eq!(valid.iter().count(), 2);
        assert_eq!(training.count(), 9);
    });
    let (train, valid) = (
        depths(&trace, "queue depth train"),
        depths(&trace, "queue depth valid"),
    );
    assert_eq!((train.len(), valid.len()), (20, 4));
    assert_eq!((train.last(), valid.last()), (Some(&0.0), Some(&0.0)));
    assert!(valid.iter().all(|&d| d <= 2.0), "{valid:?}");
    assert_well_formed(&trace);
}

#[test]
fn a_loader_with_a_foreign_batcher_has_waits_and_steps_but_no_batches() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, summary, ()) = record("foreign", || {
            let inner = DataLoaderBuilder::new(Collect::default())
                .batch_size(4)
                .num_workers(workers)
                .build(Numbers::new(40));
            let loader = instrument::untagged_loader("train", inner);
            let items: usize = loader.iter().map(|batch| batch.unwrap().len()).sum();
            assert_eq!(items, 40);
        });
        let waits = slices_of(&trace, cat::DATA_WAIT, "train");
        assert_eq!(waits.len(), 10);
        assert_eq!(slices_of(&trace, cat::STEP, "train").len(), 10);
        let batch = |w: &&Slice| number(&trace, w, arg::BATCH);
        assert!(waits.iter().all(|w| batch(w).is_none()));
        assert!(batch_flows(&trace).is_empty());
        assert_eq!(summary.report().unwrap().loaders[0].batches, 10);
        assert_well_formed(&trace);
    }
}

#[test]
fn a_wrapped_data_set_under_a_foreign_batcher_shows_no_stage_that_never_ended() {
    let _alone = alone();
    for workers in [0, 2] {
        let (trace, summary, _loader) = record("half", || {
            let inner = DataLoaderBuilder::new(Collect::default())
                .batch_size(4)
                .num_workers(workers)
                .build(instrument::dataset(Numbers::new(40)));
            let loader = instrument::untagged_loader("train", inner);
            assert_eq!(loader.iter().count(), 10);
            // Its workers live on.
            loader
        });
        let unfinished = |s: &&&Slice| flag(&trace, s, arg::UNFINISHED);
        let gets = slices(&trace, cat::DATA_GET);
        let open = gets.iter().filter(unfinished).count();
        assert_eq!(open, 0, "{workers} workers: the reads have all ended");
        assert!(summary.report().unwrap().unfinished.is_empty());
    }
}

#[test]
fn reads_outside_of_a_loader_belong_to_no_batch() {
    let _alone = alone();
    let (trace, ..) = record("mean", || {
        use burn_core::data::dataset::Dataset;
        let data = instrument::dataset(Numbers::new(100));
        let sum: usize = data.iter().map(Result::unwrap).sum();
        assert_eq!(sum, 4950);
    });
    assert!(slices(&trace, cat::DATA_GET).is_empty());
}

#[test]
fn single_items_are_sampled_only_when_asked_for() {
    let _alone = alone();
    let (trace, ..) = record("unsampled", || {
        numbers_loader("train", Numbers::new(100), 0)
            .iter()
            .for_each(drop);
    });
    assert!(slices(&trace, cat::DATA_ITEM).is_empty());

    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("sampled")
        .output(&output)
        .sample_items(10)
        .start()
        .unwrap();
    let batcher = instrument::batcher(Collect::default());
    let inner = DataLoaderBuilder::new(batcher)
        .batch_size(4)
        .shuffle(1)
        .build(instrument::dataset(Numbers::new(100)));
    let loader = instrument::loader("train", inner);
    loader.iter().for_each(drop);
    session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap().trace;
    let items = slices(&trace, cat::DATA_ITEM);
    assert_eq!(items.len(), 10, "every tenth of 100 reads");
    for item in &items {
        assert!(number(&trace, item, arg::INDEX).unwrap() < 100);
        let get = slices(&trace, cat::DATA_GET);
        assert!(get.iter().any(|g| g.track == item.track && inside(item, g)));
    }
    let different: HashSet<_> = items
        .iter()
        .map(|i| number(&trace, i, arg::INDEX))
        .collect();
    assert_eq!(different.len(), 10);
    assert_well_formed(&trace);
}

#[test]
fn tracks_of_workers_are_threads_and_the_waits_name_their_loader() {
    let _alone = alone();
    let (trace, ..) = record("tracks", || {
        numbers_loader("train", Numbers::new(16), 2)
            .iter()
            .for_each(drop);
    });
    for wait in slices(&trace, cat::DATA_WAIT) {
        assert_eq!(text(&trace, wait, arg::LOADER), Some("train"));
        assert_eq!(text(&trace, wait, arg::KIND), Some("train"));
        assert_eq!(trace.track(wait.track).unwrap().kind, TrackKind::Thread);
    }
    for step in slices(&trace, cat::STEP) {
        assert_eq!(trace.track(step.track).unwrap().kind, TrackKind::Synthetic);
    }
}
