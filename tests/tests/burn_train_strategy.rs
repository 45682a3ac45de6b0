//! burn-train's learner with our training strategy: one line more, and every part of a step is known.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn_core::tensor::TensorReadError;
use burn_train::checkpoint::{Checkpoint, Checkpointer, CheckpointerError, KeepLastNCheckpoints};
use burn_train::metric::{
    LossInput, LossMetric, Metric, MetricMetadata, MetricName, SerializedEntry,
};
use burn_train::{
    Learner, MultiDeviceOptim, SupervisedLearningStrategy, SupervisedTraining,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingStrategy,
    ValidLoader,
};
use gpustall::instrument;
use gpustall_tests::tiny_training::{
    BATCH, EPOCHS, ITEMS, Line, launch, plain, several, traced_loader, training,
};
use gpustall_tests::{
    alone, assert_well_formed, named, number, record, slices, slices_of, track_name,
};
use gpustall_trace::Trace;
use gpustall_trace::vocab::{arg, cat};
use std::sync::Arc;
use std::time::Duration;

const BATCHES: usize = ITEMS / BATCH;

fn steps(trace: &Trace, loader: &str) -> Vec<(Option<u64>, Option<u64>)> {
    let found = slices_of(trace, cat::STEP, loader);
    let place =
        |s: &&gpustall_trace::Slice| (number(trace, s, arg::EPOCH), number(trace, s, arg::STEP));
    found.iter().map(place).collect()
}

fn all_steps() -> Vec<(Option<u64>, Option<u64>)> {
    let of = |epoch| (0..BATCHES as u64).map(move |step| (Some(epoch), Some(step)));
    (0..EPOCHS as u64).flat_map(of).collect()
}

#[test]
fn one_line_marks_every_part_of_a_step() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (trace, summary, _) = record("learner", || {
        let training = plain(directory.path())
            .with_default_checkpointers()
            .with_training_strategy(instrument::training_strategy());
        launch(training)
    });
    for loader in ["train", "valid"] {
        assert_eq!(steps(&trace, loader), all_steps(), "{loader}");
        let waits = slices_of(&trace, cat::DATA_WAIT, loader).len();
        assert_eq!(waits, EPOCHS * BATCHES, "{loader}");
    }
    for phase in ["train step", "optimizer", "valid step"] {
        assert_eq!(named(&trace, phase).len(), EPOCHS * BATCHES, "{phase}");
    }
    // Both splits begin and end in each epoch, and the epoch ends.
    let pushes = EPOCHS * (2 * BATCHES + 5);
    assert_eq!(named(&trace, "metrics: push").len(), pushes);
    assert_eq!(named(&trace, "metrics: flush").len(), EPOCHS);
    assert_eq!(named(&trace, "checkpoint: save").len(), EPOCHS);
    assert_eq!(named(&trace, "checkpoint: finish").len(), 1);
    let report = summary.report().unwrap();
    assert!(!report.evaluation, "the training loader gives the steps");
    let of_log = report.notes.iter().filter(|n| n.contains("experiment.log"));
    assert_eq!(of_log.count(), 1, "{:?}", report.notes);
    assert_well_formed(&trace);
}

#[test]
fn loaders_that_the_program_wrapped_are_not_wrapped_again() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (trace, ..) = record("learner", || {
        let loaders = (traced_loader("images", 1), traced_loader("valid images", 0));
        launch(
            training(directory.path(), loaders.0, loaders.1)
                .with_training_strategy(instrument::training_strategy()),
        )
    });
    for loader in ["images", "valid images"] {
        assert_eq!(steps(&trace, loader), all_steps(), "{loader}");
    }
    assert_eq!(slices(&trace, cat::STEP).len(), 2 * EPOCHS * BATCHES);
    assert_eq!(
        slices(&trace, cat::DATA_COLLATE).len(),
        2 * EPOCHS * BATCHES
    );
}

#[test]
fn several_devices_make_one_step_together() {
    let _alone = alone();
    for optim in [
        MultiDeviceOptim::OptimMainDevice,
        MultiDeviceOptim::OptimSharded,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (trace, ..) = record("learner", || {
            let strategy = instrument::training_strategy_on(several(optim));
            launch(plain(directory.path()).with_training_strategy(strategy))
        });
        assert_eq!(steps(&trace, "train").len(), EPOCHS * BATCHES / 2);
        assert_eq!(steps(&trace, "valid").len(), EPOCHS * BATCHES);
        let on = |thread: &str| {
            let found = named(&trace, "train step");
            let on = found.iter().filter(|s| track_name(&trace, s) == thread);
            on.count()
        };
        for device in ["trainer-0", "trainer-1"] {
            assert_eq!(on(device), EPOCHS * BATCHES / 2, "{device}");
        }
        assert_eq!(named(&trace, "optimizer").len(), EPOCHS * BATCHES / 2);
        assert_well_formed(&trace);
    }
}

/// Trains nothing, in a way of its own.
struct Own;

impl SupervisedLearningStrategy<Line> for Own {
    fn fit(
        &self,
        components: TrainingComponents<Line>,
        learner: Learner<Line>,
        train: TrainLoader<Line>,
        _: ValidLoader<Line>,
        _: usize,
    ) -> (Line, SupervisedTrainingEventProcessor<Line>) {
        assert_eq!(train.iter().count(), BATCHES);
        (learner.model(), components.event_processor)
    }
}

#[test]
fn a_strategy_of_the_programs_own_gets_steps_and_data_waits() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (trace, ..) = record("learner", || {
        let own = TrainingStrategy::Custom(Arc::new(Own));
        let strategy = instrument::training_strategy_on(own);
        launch(plain(directory.path()).with_training_strategy(strategy))
    });
    assert_eq!(slices_of(&trace, cat::STEP, "train").len(), BATCHES);
    assert_eq!(slices_of(&trace, cat::DATA_WAIT, "train").len(), BATCHES);
}

/// How long what is slow takes; the training itself takes well below a millisecond a step.
const SLOW: Duration = Duration::from_millis(20);

/// The loss, with a long think.
#[derive(Clone)]
struct SlowLoss(LossMetric);

impl Metric for SlowLoss {
    type Input = LossInput;

    fn name(&self) -> MetricName {
        Arc::new("Slow loss".to_owned())
    }

    fn update(
        &mut self,
        loss: &LossInput,
        metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        std::thread::sleep(SLOW);
        self.0.update(loss, metadata)
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        self.0.compute()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The cause that lost most: over half of the window.
fn top_cause(
    training: impl FnOnce(SupervisedTraining<Line>) -> SupervisedTraining<Line>,
) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (_, summary, _) = record("learner", || {
        let strategy = instrument::training_strategy();
        launch(training(plain(directory.path())).with_training_strategy(strategy))
    });
    let report = summary.report().unwrap();
    let top = report.findings.first().expect("something is lost");
    assert!(top.share > 0.5, "{report}");
    top.cause.to_string()
}

#[test]
fn a_slow_metric_makes_the_trainer_wait_for_the_metrics() {
    let _alone = alone();
    let slow = SlowLoss(LossMetric::new());
    assert_eq!(top_cause(|t| t.metric_train(slow)), "host.metrics");
}

/// Saves nothing, slowly.
struct SlowDisk;

impl<R: Checkpoint> Checkpointer<R> for SlowDisk {
    fn save(&self, _: usize, _: R) -> Result<(), CheckpointerError> {
        std::thread::sleep(10 * SLOW);
        Ok(())
    }

    fn delete(&self, _: usize) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn restore(&self, _: usize) -> Result<R, CheckpointerError> {
        Err(CheckpointerError::Unknown("nothing was saved".to_owned()))
    }
}

#[test]
fn a_slow_checkpoint_makes_the_trainer_wait_for_the_checkpoint() {
    let _alone = alone();
    let slow = |t: SupervisedTraining<Line>| {
        t.with_custom_checkpointers(SlowDisk, SlowDisk, SlowDisk)
            .with_checkpointing_strategy(KeepLastNCheckpoints::new(EPOCHS))
    };
    assert_eq!(top_cause(slow), "host.checkpoint");
}
