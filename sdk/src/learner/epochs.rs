//! The epochs of a training: train, validate, save, and ask whether to stop.

use super::events::Events;
use crate::instrument::phase;
use burn_core::data::dataloader::Progress;
use burn_train::{
    InferenceStep, Learner, LearnerEvent, LearnerModel, SupervisedTrainingEventProcessor,
    TrainingComponents, TrainingItem, ValidLoader,
};

/// How one epoch trains.
pub(super) trait Train<M: LearnerModel> {
    /// Trains on all batches.
    fn run(&mut self, learner: &mut Learner<M>, events: &mut Events<M>);

    /// Makes the model fit for validation on one device.
    fn gather(&self, learner: &mut Learner<M>) {
        let _ = learner;
    }
}

/// Runs all epochs; `train_items` is how many items one trains on.
pub(super) fn run<M: LearnerModel>(
    components: TrainingComponents<M>,
    mut learner: Learner<M>,
    mut train: impl Train<M>,
    train_items: usize,
    valid: ValidLoader<M>,
    starting_epoch: usize,
) -> (M, SupervisedTrainingEventProcessor<M>) {
    let valid_items = valid.num_items();
    let interrupter = components.interrupter;
    let mut checkpointer = components.checkpointer;
    let mut early_stopping = components.early_stopping;
    let mut events = Events::<M> {
        processor: components.event_processor,
        interrupter: interrupter.clone(),
    };
    let split = |epoch_number, total_items| LearnerEvent::StartSplit {
        epoch_number,
        total_items,
    };
    for epoch in starting_epoch..=components.num_epochs {
        tracing::info!(epoch, "training epoch");
        events.train(split(epoch, train_items));
        train.run(&mut learner, &mut events);
        events.train(LearnerEvent::EndSplit(epoch));
        if interrupter.should_stop() {
            if let Some(interruption) = interrupter.interruption() {
                let reason = interruption.reason.as_deref().unwrap_or("reason unknown");
                tracing::info!("training interrupted: {reason}");
            }
            break;
        }
        train.gather(&mut learner);

        events.valid(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: valid_items,
        });
        validate(&learner, &valid, &mut events);
        events.valid(LearnerEvent::EndSplit(epoch));
        events.train(LearnerEvent::EndEpoch(epoch));
        if checkpointer.is_some() || early_stopping.is_some() {
            events.flush();
        }
        if interrupter.should_stop() {
            break;
        }
        if let Some(checkpointer) = &mut checkpointer {
            let _save = phase("checkpoint: save");
            checkpointer.checkpoint(&learner, epoch, &components.event_store);
        }
        if let Some(early_stopping) = &mut early_stopping {
            let _ask = phase("metrics: early stopping");
            if early_stopping.should_stop(epoch, &components.event_store) {
                break;
            }
        }
    }
    if let Some(checkpointer) = checkpointer {
        // It waits for the files that are still being written.
        let _finish = phase("checkpoint: finish");
        drop(checkpointer);
    }
    (learner.model(), events.processor)
}

fn validate<M: LearnerModel>(
    learner: &Learner<M>,
    loader: &ValidLoader<M>,
    events: &mut Events<M>,
) {
    let model = learner.model().valid();
    let mut batches = loader.iter();
    let mut iteration = 0;
    while let Some(batch) = batches.next() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                events.interrupter.fail(error);
                break;
            }
        };
        let progress: Progress = batches.progress();
        iteration += 1;
        let output = {
            let _step = phase("valid step");
            InferenceStep::step(&model, batch)
        };
        let item = TrainingItem::new(output, progress, Some(iteration), None);
        events.valid(LearnerEvent::ProcessedItem(item));
        if events.interrupter.should_stop() {
            break;
        }
    }
}
