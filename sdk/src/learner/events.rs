//! What the trainer hands to the thread of the metrics.

use crate::instrument::phase;
use burn_train::{
    EventProcessorTraining, InferenceStep, Interrupter, LearnerEvent, LearnerModel,
    SupervisedTrainingEventProcessor, TrainStep,
};

/// The way to the metrics' thread. It has room for one event: while the metrics are slower than the
/// steps, the trainer waits here.
pub(super) struct Events<M: LearnerModel> {
    pub(super) processor: SupervisedTrainingEventProcessor<M>,
    /// Told of what the metrics could not do.
    pub(super) interrupter: Interrupter,
}

impl<M: LearnerModel> Events<M> {
    pub(super) fn train(&mut self, event: LearnerEvent<<M as TrainStep>::Output>) {
        let _push = phase("metrics: push");
        let done = self.processor.process_train(event);
        self.interrupter.fail_on_error(done);
    }

    pub(super) fn valid(&mut self, event: LearnerEvent<<M as InferenceStep>::Output>) {
        let _push = phase("metrics: push");
        let done = self.processor.process_valid(event);
        self.interrupter.fail_on_error(done);
    }

    /// Waits until the metrics have all that was handed over.
    pub(super) fn flush(&mut self) {
        let _flush = phase("metrics: flush");
        let done = self.processor.flush();
        self.interrupter.fail_on_error(done);
    }
}
