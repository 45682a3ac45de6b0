//! The steps of one loader among those of several: an evaluation between epochs, or a second training set.
//! What a loader costs is judged by its own.

use crate::charge::Stall;
use crate::events::{LoaderKey, Step};
use crate::finding::{Run, group_of};
use crate::ranks;
use crate::steps::{MIN_STEPS, Prediction, Steps, step_of, tell_apart};
use crate::window::Trainer;
use gpustall_trace::Nanos;

/// The threads that train with the steps of one loader only.
pub(crate) struct OwnSteps {
    trainers: Vec<Trainer>,
    pub(crate) steps: Steps,
    /// What its steps take, with what is lost to its loader between them.
    time: Nanos,
}

impl Run<'_> {
    /// Those of this loader. `None` where all steps of the run are, or too few.
    pub(crate) fn own_steps(&self, loader: Option<LoaderKey>) -> Option<OwnSteps> {
        let loader = loader?;
        let is_own = |step: &&Step| step.loader == loader;
        let all = || self.trainers.iter().flat_map(|trainer| &trainer.steps);
        let counts = all().any(|step| is_own(&step));
        if counts && all().all(|step| is_own(&step)) {
            return None;
        }
        // Steps of an evaluation are none of a run that trains.
        let beside = |trainer: &Trainer| -> Vec<Step> {
            let steps = self.timeline.steps.iter().filter(is_own);
            let runs = |step: &&Step| {
                step.thread == Some(trainer.tid)
                    && !step.cut
                    && trainer.span.contains(step.span.start)
            };
            steps.filter(runs).copied().collect()
        };
        let with_own = |trainer: &Trainer| Trainer {
            steps: match counts {
                true => trainer.steps.iter().filter(is_own).copied().collect(),
                false => beside(trainer),
            },
            ..trainer.clone()
        };
        let trainers: Vec<Trainer> = self.trainers.iter().map(with_own).collect();
        let lockstep = ranks::in_lockstep(self.timeline.trace);
        let steps = tell_apart(&trainers, self.accounts, lockstep);
        let between = |stall: &&Stall| {
            let trainer = trainers.get(stall.trainer);
            group_of(self.timeline, stall).1 == Some(loader)
                && trainer.is_none_or(|trainer| step_of(&trainer.steps, stall).is_none())
        };
        let all = self.accounts.iter().flat_map(|account| &account.stalls);
        let between: Nanos = all.filter(between).map(|stall| stall.lost).sum();
        (steps.count >= MIN_STEPS).then(|| OwnSteps {
            time: steps.device_time(&trainers) + between,
            trainers,
            steps,
        })
    }
}

impl OwnSteps {
    /// The mean step without the loss of `stalls`: of the steady steps if most of the loss lies in them, else of
    /// all.
    pub(crate) fn without(&self, stalls: &[&Stall]) -> Option<Prediction> {
        let prediction = self.steps.without(&self.trainers, stalls, self.time);
        prediction.map(own)
    }

    /// The same over all of them, without what was lost elsewhere.
    pub(crate) fn over_all(&self, stalls: &[&Stall], elsewhere: Nanos) -> Option<Prediction> {
        self.steps.over_all(stalls, self.time - elsewhere).map(own)
    }

    /// Whether a stall begins in one of them.
    pub(crate) fn has(&self, stall: &Stall) -> bool {
        let trainer = self.trainers.get(stall.trainer);
        trainer.is_some_and(|trainer| step_of(&trainer.steps, stall).is_some())
    }

    /// Whether these begin in more than half of them.
    pub(crate) fn recur<'a>(&self, stalls: impl Iterator<Item = &'a Stall>) -> bool {
        self.steps.recur(&self.trainers, stalls)
    }

    /// The mean steady step without what of `stalls` lies in steady steps.
    pub(crate) fn steady_without(&self, stalls: &[&Stall]) -> Option<Nanos> {
        self.steps.steady_without(&self.trainers, stalls)
    }
}

fn own(prediction: Prediction) -> Prediction {
    Prediction {
        own: true,
        ..prediction
    }
}
