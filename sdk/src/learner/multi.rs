//! Several devices: each has a slice of the loader and a thread; all of them make one step together.

use super::epochs::{self, Train};
use super::events::Events;
use super::workers::{Answer, Output, Workers};
use crate::instrument::{LoaderKind, phase, traced_loader};
use burn_core::data::dataloader::split::split_dataloader;
use burn_core::tensor::Device;
use burn_optim::{GradientsAccumulator, MultiGradientsParams};
use burn_train::{
    Learner, LearnerEvent, LearnerModel, MultiDeviceOptim, SupervisedLearningStrategy,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingItem, ValidLoader,
};

/// Trains on several devices; the first is the main one.
pub(super) struct MultiDevice {
    pub(super) devices: Vec<Device>,
    pub(super) optim: MultiDeviceOptim,
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for MultiDevice {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let main = &self.devices[0];
        let train = traced_loader(LoaderKind::Train, train);
        let valid = traced_loader(LoaderKind::Valid, valid).to_device(&main.clone().inner());
        let items = train.num_items();
        learner.fork(main);
        let epoch = TrainEpoch::<M> {
            loaders: split_dataloader(train, &self.devices),
            accumulation: components.grad_accumulation.unwrap_or(1),
            workers: Workers::start(&self.devices),
            devices: self.devices.clone(),
            optim: self.optim,
        };
        epochs::run(components, learner, epoch, items, valid, starting_epoch)
    }
}

struct TrainEpoch<M: LearnerModel> {
    loaders: Vec<TrainLoader<M>>,
    /// Over how many steps gradients are summed up before the optimizer steps.
    accumulation: usize,
    workers: Workers<M>,
    devices: Vec<Device>,
    optim: MultiDeviceOptim,
}

impl<M: LearnerModel> Train<M> for TrainEpoch<M> {
    fn run(&mut self, learner: &mut Learner<M>, events: &mut Events<M>) {
        let mut slices: Vec<_> = self.loaders.iter().map(|loader| loader.iter()).collect();
        let mut gradients = Gradients::<M>::new(self.optim, &self.devices);
        let (mut iteration, mut accumulated) = (0, 0);
        loop {
            let (answers, progress) = match self.workers.step(&mut slices, &learner.model()) {
                Ok(step) => step,
                Err(error) => {
                    events.interrupter.fail(error);
                    break;
                }
            };
            if answers.is_empty() {
                break;
            }
            let mut outputs = Vec::with_capacity(answers.len());
            {
                let _optimizer = phase("optimizer");
                for answer in answers {
                    outputs.push(gradients.add(learner, answer));
                }
                accumulated += 1;
                if self.accumulation <= accumulated || progress.is_completed() {
                    gradients.apply(learner);
                    accumulated = 0;
                }
            }
            for output in outputs {
                iteration += 1;
                let lr = Some(learner.lr_current());
                let item = TrainingItem::new(output, progress.clone(), Some(iteration), lr);
                events.train(LearnerEvent::ProcessedItem(item));
            }
            if events.interrupter.should_stop() {
                break;
            }
        }
    }

    fn gather(&self, learner: &mut Learner<M>) {
        // The parameters lie scattered over the devices that optimized them.
        if matches!(self.optim, MultiDeviceOptim::OptimSharded) {
            learner.fork(&self.devices[0]);
        }
    }
}

/// The gradients of all devices.
enum Gradients<'a, M: LearnerModel> {
    /// Summed up on the main device.
    OnMain(GradientsAccumulator<M>, &'a Device),
    /// Summed up on each device.
    Sharded(Vec<(GradientsAccumulator<M>, &'a Device)>),
}

impl<'a, M: LearnerModel> Gradients<'a, M> {
    fn new(optim: MultiDeviceOptim, devices: &'a [Device]) -> Self {
        match optim {
            MultiDeviceOptim::OptimMainDevice => {
                Self::OnMain(GradientsAccumulator::new(), &devices[0])
            }
            MultiDeviceOptim::OptimSharded => {
                let new = |device| (GradientsAccumulator::new(), device);
                Self::Sharded(devices.iter().map(new).collect())
            }
        }
    }

    /// Adds those of one device; gives back the rest of its output.
    fn add(&mut self, learner: &Learner<M>, answer: Answer<M>) -> Output<M> {
        let model = learner.model();
        let gradients = answer.output.grads;
        match self {
            Self::OnMain(sum, main) => sum.accumulate(&model, gradients.to_device(main, &model)),
            Self::Sharded(sums) => sums[answer.device].0.accumulate(&model, gradients),
        }
        answer.output.item
    }

    fn apply(&mut self, learner: &mut Learner<M>) {
        match self {
            Self::OnMain(sum, _) => {
                let sum = sum.grads();
                learner.lr_step();
                learner.optimizer_step(sum);
            }
            Self::Sharded(sums) => {
                let mut all = MultiGradientsParams::default();
                for (sum, device) in sums {
                    all.grads.push((sum.grads(), device.clone()));
                }
                learner.lr_step();
                learner.optimizer_step_multi(all);
            }
        }
    }
}
