//! The training epoch of one device.

use super::epochs::Train;
use super::events::Events;
use crate::instrument::phase;
use burn_optim::GradientsAccumulator;
use burn_train::{Learner, LearnerEvent, LearnerModel, TrainLoader, TrainingItem};

pub(super) struct TrainEpoch<M: LearnerModel> {
    pub(super) loader: TrainLoader<M>,
    /// Over how many batches gradients are summed up before the optimizer steps.
    pub(super) accumulation: Option<usize>,
}

impl<M: LearnerModel> Train<M> for TrainEpoch<M> {
    fn run(&mut self, learner: &mut Learner<M>, events: &mut Events<M>) {
        let mut batches = self.loader.iter();
        let mut accumulator = GradientsAccumulator::new();
        let (mut iteration, mut accumulated) = (0, 0);
        while let Some(batch) = batches.next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    events.interrupter.fail(error);
                    break;
                }
            };
            iteration += 1;
            let progress = batches.progress();
            let output = {
                let _step = phase("train step");
                learner.train_step(batch)
            };
            {
                let _optimizer = phase("optimizer");
                match self.accumulation {
                    Some(accumulation) => {
                        accumulator.accumulate(&learner.model(), output.grads);
                        accumulated += 1;
                        if accumulation <= accumulated || progress.is_completed() {
                            let gradients = accumulator.grads();
                            learner.lr_step();
                            learner.optimizer_step(gradients);
                            accumulated = 0;
                        }
                    }
                    None => {
                        learner.lr_step();
                        learner.optimizer_step(output.grads);
                    }
                }
            }
            let lr = Some(learner.lr_current());
            let item = TrainingItem::new(output.item, progress, Some(iteration), lr);
            events.train(LearnerEvent::ProcessedItem(item));
            if events.interrupter.should_stop() {
                break;
            }
        }
    }
}
