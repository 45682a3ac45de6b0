//! With our training strategy burn-train's learner trains, saves, resumes, stops and fails as it does
//! without.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn_core::tensor::Device;
use burn_train::checkpoint::KeepLastNCheckpoints;
use burn_train::metric::LossMetric;
use burn_train::metric::store::{Aggregate, Direction, Split};
use burn_train::{
    ExecutionStrategy, MetricEarlyStoppingStrategy, MultiDeviceOptim, StoppingCondition,
    SupervisedTraining, TrainingStrategy,
};
use gpustall::instrument;
use gpustall_tests::tiny_training::{
    BATCH, EPOCHS, ITEMS, Line, Points, ToPoints, launch, learner, plain, plain_loader, several,
    training,
};
use gpustall_tests::{Numbers, alone, named, record};
use std::path::Path;
use std::sync::Arc;

/// Every file under `directory`, by its name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = directory.read_dir().unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_model_and_its_checkpoints_are_what_they_are_without_it() {
    let _alone = alone();
    let on_main = || several(MultiDeviceOptim::OptimMainDevice).into();
    let sharded = || several(MultiDeviceOptim::OptimSharded).into();
    let single = || ExecutionStrategy::single(Device::flex()).into();
    // The main device sums up the gradients in the order in which they come: over more than one step
    // of two devices, that is not the same sum each time.
    type Strategy = fn() -> TrainingStrategy<Line>;
    let cases: [(Strategy, Option<usize>); 5] = [
        (single, None),
        (single, Some(4)),
        (on_main, None),
        (sharded, None),
        (sharded, Some(2)),
    ];
    for (strategy, accumulation) in cases {
        let run = |strategy| {
            let directory = tempfile::tempdir().unwrap();
            let mut training = plain(directory.path())
                .with_default_checkpointers()
                .with_checkpointing_strategy(KeepLastNCheckpoints::new(EPOCHS))
                .with_training_strategy(strategy);
            if let Some(accumulation) = accumulation {
                training = training.grads_accumulation(accumulation);
            }
            let weights = launch(training);
            (weights, files(&directory.path().join("checkpoint")))
        };
        let without = run(strategy());
        let (.., with) = record("learner", || {
            run(instrument::training_strategy_on(strategy()))
        });
        assert_ne!(without.0, [0.5, 0.25], "it did train");
        assert_eq!(with.0, without.0, "the same weights, bit for bit");
        let names = without.1.iter().map(|(name, _)| name.as_str());
        let expected = ["model", "optim", "scheduler"]
            .iter()
            .flat_map(|kind| (1..=EPOCHS).map(move |epoch| format!("{kind}-{epoch}.bpk")));
        assert!(names.eq(expected), "a checkpoint for each epoch");
        assert_eq!(with.1, without.1, "the same files, byte for byte");
    }
}

/// Runs a training without our strategy and with it, each in a directory of its own. The second time
/// in a session; gives back how many training steps it recorded.
fn both<T: PartialEq + std::fmt::Debug>(
    strategy: fn() -> TrainingStrategy<Line>,
    run: impl Fn(&Path, TrainingStrategy<Line>) -> T,
) -> (T, usize) {
    let directory = || tempfile::tempdir().unwrap();
    let without = run(directory().path(), strategy());
    let (trace, _, with) = record("learner", || {
        let strategy = instrument::training_strategy_on(strategy());
        run(directory().path(), strategy)
    });
    assert_eq!(with, without);
    let steps = named(&trace, "train step");
    (with, steps.len())
}

fn on_one() -> TrainingStrategy<Line> {
    ExecutionStrategy::single(Device::flex()).into()
}

fn on_two() -> TrainingStrategy<Line> {
    several(MultiDeviceOptim::OptimMainDevice).into()
}

#[test]
fn a_training_resumes_from_its_checkpoint() {
    let _alone = alone();
    let (_, steps) = both(on_one, |directory, strategy| {
        let saved = launch(plain(directory).with_default_checkpointers());
        let resumed = plain(directory)
            .with_default_checkpointers()
            .num_epochs(EPOCHS + 1)
            .checkpoint(EPOCHS)
            .with_training_strategy(strategy);
        let resumed = launch(resumed);
        assert_ne!(saved, resumed);
        resumed
    });
    assert_eq!(steps, ITEMS / BATCH, "one epoch more");
}

#[test]
fn a_training_that_no_longer_improves_stops_early() {
    let _alone = alone();
    let (_, steps) = both(on_one, |directory, strategy| {
        // The loss only falls: it never is the highest again.
        let stop = MetricEarlyStoppingStrategy::new(
            &LossMetric::new(),
            Aggregate::Mean,
            Direction::Highest,
            Split::Valid,
            StoppingCondition::NoImprovementSince { n_epochs: 1 },
        );
        launch(
            plain(directory)
                .metrics((LossMetric::new(),))
                .num_epochs(20)
                .early_stopping(stop)
                .with_training_strategy(strategy),
        )
    });
    assert!(steps < 20 * ITEMS / BATCH, "{steps} steps");
}

/// What the learner says of a training that fails.
fn failure(training: SupervisedTraining<Line>) -> String {
    let result = training.launch(learner());
    result.error.expect("it fails").to_string()
}

fn broken_loader() -> Arc<dyn DataLoader<Points>> {
    let mut numbers = Numbers::new(ITEMS);
    numbers.broken = Some(ITEMS - 1);
    DataLoaderBuilder::new(ToPoints)
        .batch_size(BATCH)
        .build(numbers)
}

#[test]
fn an_item_that_cannot_be_read_ends_the_training() {
    let _alone = alone();
    for strategy in [on_one, on_two] {
        let (error, _) = both(strategy, |directory, strategy| {
            let valid = plain_loader(0);
            let training = training(directory, broken_loader(), valid);
            failure(training.with_training_strategy(strategy))
        });
        assert!(error.contains("planted failure"), "{error}");
        both(strategy, |directory, strategy| {
            let training = training(directory, plain_loader(0), broken_loader());
            failure(training.with_training_strategy(strategy))
        });
    }
}

#[test]
fn a_training_that_was_interrupted_says_so() {
    let _alone = alone();
    for strategy in [on_one, on_two] {
        let ((), steps) = both(strategy, |directory, strategy| {
            let training = plain(directory).with_training_strategy(strategy);
            training.interrupter().stop(Some("enough"));
            let result = training.launch(learner());
            let interruption = result.interrupted.expect("it was stopped");
            assert_eq!(interruption.reason.as_deref(), Some("enough"));
        });
        assert!(
            (1..=3).contains(&steps),
            "one step, on each device: {steps}"
        );
    }
}
