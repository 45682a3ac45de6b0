//! burn-train's learner: its own loops, with every part of a step marked.
//!
//! burn-train's strategies are private to it and cannot be wrapped, so the loops for one device and
//! for several stand here again, in the same order of the same calls of [`Learner`]: the model, the
//! optimizer, the metrics and the checkpoints are what they are without us.

mod delegate;
mod epochs;
mod events;
mod multi;
mod single;
mod workers;

use crate::instrument::{LoaderKind, traced_loader};
use burn_core::tensor::Device;
use burn_train::{
    ExecutionStrategy, Learner, LearnerModel, SupervisedLearningStrategy,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingStrategy,
    ValidLoader,
};
use delegate::Delegate;
use std::sync::Arc;

/// Trains as burn-train's learner does when no strategy is given, on the device of the model, with
/// every part of a step recorded:
///
/// ```
/// # use burn_train::{Learner, LearnerModel, LearningResult, SupervisedTraining};
/// # fn launch<M: LearnerModel>(
/// #     training: SupervisedTraining<M>,
/// #     learner: Learner<M>,
/// # ) -> LearningResult<M> {
/// use gpustall::instrument;
///
/// training
///     .num_epochs(10)
///     .with_training_strategy(instrument::training_strategy())
///     .launch(learner)
/// # }
/// ```
///
/// The trace gets a phase for each `train step`, `optimizer` step, `valid step`, `metrics` event that
/// is handed to the metrics' thread (which may make the trainer wait) and `checkpoint`. The loaders
/// are wrapped by [`untagged_loader`](crate::instrument::untagged_loader) under the names `train` and
/// `valid` where the program did not wrap them itself.
///
/// The builder does not tell a strategy of its `gradient_checkpointing()`: ask the device for it, as in
/// `training_strategy_on(ExecutionStrategy::single(device.autodiff().gradient_checkpointing()))`.
pub fn training_strategy<M: LearnerModel>() -> TrainingStrategy<M> {
    custom(Devices::OfTheModel)
}

/// As [`training_strategy`], for a program that has a strategy.
///
/// - One device or several, with either way of optimizing: recorded in full. Of several devices, each
///   step is recorded on the thread that runs it, too.
/// - A strategy of the program's own runs as it is. Its loaders are wrapped, so there are steps and
///   data waits; it marks its phases itself.
/// - Distributed data parallel is given back as it is, with a warning: only burn-train can run it.
///   Wrap its loaders for steps and data waits.
pub fn training_strategy_on<M: LearnerModel>(
    strategy: impl Into<TrainingStrategy<M>>,
) -> TrainingStrategy<M> {
    match strategy.into() {
        TrainingStrategy::Custom(own) => TrainingStrategy::Custom(Arc::new(Delegate::new(own))),
        TrainingStrategy::Default(ExecutionStrategy::SingleDevice(device)) => {
            custom(Devices::One(device))
        }
        TrainingStrategy::Default(ExecutionStrategy::MultiDevice(devices, optim)) => {
            match <[Device; 1]>::try_from(devices) {
                Ok([device]) => custom(Devices::One(device)),
                Err(devices) => TrainingStrategy::Custom(Arc::new(multi::MultiDevice {
                    devices: devices.into_iter().map(with_gradients).collect(),
                    optim,
                })),
            }
        }
        other @ TrainingStrategy::Default(ExecutionStrategy::DistributedDataParallel { .. }) => {
            tracing::warn!(
                "gpustall does not record the phases of distributed data parallel training: wrap its \
                 loaders with instrument::loader for its steps and data waits"
            );
            other
        }
    }
}

fn custom<M: LearnerModel>(devices: Devices) -> TrainingStrategy<M> {
    TrainingStrategy::Custom(Arc::new(SingleDevice(devices)))
}

/// The device, able to compute gradients.
fn with_gradients(device: Device) -> Device {
    match device.is_autodiff() {
        true => device,
        false => device.autodiff(),
    }
}

/// Where one device trains.
enum Devices {
    OfTheModel,
    One(Device),
}

/// Trains on one device.
struct SingleDevice(Devices);

impl<M: LearnerModel> SupervisedLearningStrategy<M> for SingleDevice {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let device = with_gradients(match &self.0 {
            Devices::One(device) => device.clone(),
            // burn-train does the same, and fails as well for a model without parameters.
            Devices::OfTheModel => learner.model().devices()[0].clone(),
        });
        let train = traced_loader(LoaderKind::Train, train).to_device(&device);
        let valid = traced_loader(LoaderKind::Valid, valid).to_device(&device.clone().inner());
        learner.fork(&device);
        let items = train.num_items();
        let epoch = single::TrainEpoch {
            loader: train,
            accumulation: components.grad_accumulation,
        };
        epochs::run(components, learner, epoch, items, valid, starting_epoch)
    }
}
