//! A strategy of the program's own, with its loaders recorded.

use crate::instrument::{LoaderKind, traced_loader};
use burn_train::{
    CustomLearningStrategy, Learner, LearnerModel, LearningResult, SupervisedLearningStrategy,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, ValidLoader,
};

/// Runs the strategy inside.
pub(super) struct Delegate<M: LearnerModel> {
    own: CustomLearningStrategy<M>,
}

impl<M: LearnerModel> Delegate<M> {
    pub(super) fn new(own: CustomLearningStrategy<M>) -> Self {
        Self { own }
    }
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for Delegate<M> {
    fn train(
        &self,
        learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        components: TrainingComponents<M>,
    ) -> LearningResult<M> {
        let train = traced_loader(LoaderKind::Train, train);
        let valid = traced_loader(LoaderKind::Valid, valid);
        self.own.train(learner, train, valid, components)
    }

    fn fit(
        &self,
        components: TrainingComponents<M>,
        learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let train = traced_loader(LoaderKind::Train, train);
        let valid = traced_loader(LoaderKind::Valid, valid);
        self.own
            .fit(components, learner, train, valid, starting_epoch)
    }
}
