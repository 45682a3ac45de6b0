//! Which steps are steady, and what each of them lost.

use crate::charge::{Account, Stall};
use crate::events::Step;
use crate::report::FirstSteps;
use crate::stats::{Distribution, mean};
use crate::trainers;
use crate::window::Trainer;
use gpustall_trace::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// A step at the start of the run is warm-up while what it did not lose to stalls is more than
/// this many times the median of all steps.
pub const WARMUP_FACTOR: u64 = 2;

/// No more steps than this are called warm-up.
pub const WARMUP_MAX_STEPS: usize = 20;

/// With fewer complete steps than this there is no finding,
pub const MIN_STEPS: usize = 5;

/// unless at least so many kernels of a device were recorded in the window,
pub const MIN_KERNELS: u64 = 30;

/// or they are long: so many complete ones,
pub const MIN_LONG_STEPS: usize = 2;

/// that take so long together, and one cause has more than half of what was lost. What may mislead in few
/// steps is what happens once as a job begins (kernels that are loaded, caches that are cold), which takes a
/// few seconds at most. In `inmemory_mlp.py` with 7 million rows on an H200 a step takes 5.1 to 6.9 s, and
/// each pair of steps in a row has the cause of all seven with 90 % or more of what it loses.
pub const MIN_LONG_TIME: Nanos = Nanos::new(10_000_000_000);

/// A run's steps, told apart.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Those that the means and predictions are of.
    pub(crate) steady: Distribution,
    pub(crate) first: FirstSteps,
    /// All complete ones.
    pub(crate) count: usize,
    /// How long those take together.
    pub(crate) time: Nanos,
    /// Of each trainer, of each of its steps, whether it is steady.
    steady_of: Vec<Vec<bool>>,
    /// Devices that compute one step together.
    devices: u64,
    /// Steady steps, once for each trainer that takes part, and all of them.
    taken: (u64, u64),
    /// Whether a step of one trainer takes as long as that of all: the largest loss of any counts.
    lockstep: bool,
}

/// Tells the steps of the trainers apart.
///
/// `lockstep`: they train one model together, each in a process of its own.
pub(crate) fn tell_apart(trainers: &[Trainer], accounts: &[Account], lockstep: bool) -> Steps {
    let recorded = accounts.iter().filter(|of| of.device.is_some()).count();
    // Each trainer stands for a device of its own where none was recorded.
    let devices = (recorded / trainers::at_once(trainers).max(1)).max(1) as u64;
    let mut steps = Steps {
        devices,
        lockstep,
        ..Steps::default()
    };
    let (mut steady, mut first) = (Vec::new(), Vec::new());
    for (trainer, lost) in trainers.iter().zip(lost(trainers, accounts)) {
        let own = own_time(&trainer.steps, lost, devices);
        let median = Distribution::of(own.iter().copied()).p50_ns;
        let limit = Nanos::new(median.saturating_mul(WARMUP_FACTOR));
        let mut warm = 0;
        let is_steady: Vec<bool> = trainer
            .steps
            .iter()
            .zip(&own)
            .enumerate()
            .map(|(i, (s, own))| {
                let leads = s.index.map_or(i == 0, |index| index == 0);
                let warms = !leads && warm == i && i < WARMUP_MAX_STEPS && *own > limit;
                // A recording that starts within an epoch has no warm-up.
                if warms || (leads && i == 0) {
                    warm = i + 1;
                }
                steps.first.warmup += u64::from(warms && !trainer.shares(s));
                !leads && !warms
            })
            .collect();
        for (step, &is_steady) in trainer.steps.iter().zip(&is_steady) {
            steps.taken.0 += u64::from(is_steady);
            steps.taken.1 += 1;
            if trainer.shares(step) {
                continue;
            }
            steps.count += 1;
            steps.time += step.recorded;
            let lengths = if is_steady { &mut steady } else { &mut first };
            lengths.push(step.recorded);
        }
        steps.steady_of.push(is_steady);
    }
    steps.steady = Distribution::of(steady);
    steps.first.length = Distribution::of(first);
    steps
}

/// What each step of each trainer lost to stalls, of all devices that compute it.
fn lost(trainers: &[Trainer], accounts: &[Account]) -> Vec<Vec<Nanos>> {
    let none = |of: &Trainer| vec![Nanos::ZERO; of.steps.len()];
    let mut lost: Vec<Vec<Nanos>> = trainers.iter().map(none).collect();
    for stall in accounts.iter().flat_map(|account| &account.stalls) {
        let trainer = trainers.get(stall.trainer).zip(lost.get_mut(stall.trainer));
        if let Some((trainer, lost)) = trainer
            && let Some(step) = step_of(&trainer.steps, stall)
        {
            lost[step] += stall.lost;
        }
    }
    lost
}

/// What each step did not lose.
fn own_time(steps: &[Step], lost: Vec<Nanos>, devices: u64) -> Vec<Nanos> {
    let own = |(step, lost): (&Step, Nanos)| step.recorded - mean(lost, devices);
    steps.iter().zip(lost).map(own).collect()
}

fn sum(stalls: &[&Stall]) -> Nanos {
    stalls.iter().map(|stall| stall.lost).sum()
}

/// The step in which a stall begins.
pub(crate) fn step_of(steps: &[Step], stall: &Stall) -> Option<usize> {
    let start = stall.start();
    let at = steps
        .partition_point(|step| step.span.start <= start)
        .checked_sub(1)?;
    steps[at].span.contains(start).then_some(at)
}

/// What a job does once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Once {
    /// It compiles and loads kernels.
    pub(crate) compiling: bool,
    /// It starts workers that are kept.
    pub(crate) starting: bool,
}

/// A predicted mean step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prediction {
    pub(crate) step: Nanos,
    pub(crate) predicted: Nanos,
    /// Whether the means are over steady steps; else over the whole window, by its steps.
    pub(crate) steady: bool,
    /// Whether the steps are those of one loader among several.
    pub(crate) own: bool,
    /// What is left out of the whole window, since a longer job has it once too.
    pub(crate) but: Once,
}

impl Prediction {
    /// The same, where only this share of the loss goes away.
    pub(crate) fn only(&mut self, share: f64) {
        let loss = (self.step - self.predicted).get() as f64 * share.clamp(0.0, 1.0);
        self.predicted = self.step - Nanos::new(loss as u64);
    }
}

impl Steps {
    /// The lengths of the steady steps of the trainer at this position.
    pub(crate) fn steady_of<'a>(
        &'a self,
        at: usize,
        trainer: &'a Trainer,
    ) -> impl Iterator<Item = Nanos> + 'a {
        let steady = self.steady_of.get(at).map_or(&[][..], Vec::as_slice);
        let steps = trainer.steps.iter().zip(steady);
        steps
            .filter(|(_, steady)| **steady)
            .map(|(step, _)| step.recorded)
    }

    /// The mean loss of a steady step of the trainer that has the largest.
    fn largest_loss<'a>(&self, stalls: impl Iterator<Item = &'a Stall>) -> Nanos {
        let mut by: BTreeMap<usize, Nanos> = BTreeMap::new();
        for stall in stalls {
            *by.entry(stall.trainer).or_default() += stall.lost;
        }
        let one = |(trainer, lost): (usize, Nanos)| {
            let steady = self.steady_of.get(trainer).map_or(&[][..], Vec::as_slice);
            let count = steady.iter().filter(|steady| **steady).count() as u64;
            mean(lost, count.saturating_mul(self.devices))
        };
        by.into_iter().map(one).max().unwrap_or_default()
    }

    /// The mean step without the loss of `stalls`: of the steady steps if most of the loss lies
    /// in them, else device time of the window per step.
    pub(crate) fn without(
        &self,
        trainers: &[Trainer],
        stalls: &[&Stall],
        device: Nanos,
    ) -> Option<Prediction> {
        let steady = self.in_steady(trainers, stalls);
        if self.steady.count > 0 && sum(&steady).get() >= sum(stalls).get() / 2 {
            let step = Nanos::new(self.steady.mean_ns);
            return Some(Prediction {
                step,
                predicted: step - self.steady_loss(&steady),
                steady: true,
                own: false,
                but: Once::default(),
            });
        }
        self.over_all(stalls, device)
    }

    /// Device time of all steps of these trainers, of which they are.
    pub(crate) fn device_time(&self, trainers: &[Trainer]) -> Nanos {
        let steps = trainers.iter().flat_map(|trainer| &trainer.steps);
        let time: Nanos = steps.map(|step| step.recorded).sum();
        Nanos::new(time.get().saturating_mul(self.devices))
    }

    /// Whether these begin in more than half of all steps.
    pub(crate) fn recur<'a>(
        &self,
        trainers: &[Trainer],
        stalls: impl Iterator<Item = &'a Stall>,
    ) -> bool {
        let step = |stall: &Stall| {
            let trainer = trainers.get(stall.trainer)?;
            Some((stall.trainer, step_of(&trainer.steps, stall)?))
        };
        let touched: BTreeSet<_> = stalls.filter_map(step).collect();
        touched.len() as u64 * 2 > self.taken.1
    }

    /// The same over all steps: device time of the window per step.
    pub(crate) fn over_all(&self, stalls: &[&Stall], device: Nanos) -> Option<Prediction> {
        let count = self.taken.1.saturating_mul(self.devices);
        let step = mean(device, count);
        (count > 0).then(|| Prediction {
            step,
            predicted: step - mean(sum(stalls), count),
            steady: false,
            own: false,
            but: Once::default(),
        })
    }

    /// The mean steady step without what of `stalls` lies in steady steps.
    pub(crate) fn steady_without(&self, trainers: &[Trainer], stalls: &[&Stall]) -> Option<Nanos> {
        let steady = self.in_steady(trainers, stalls);
        (self.steady.count > 0).then(|| Nanos::new(self.steady.mean_ns) - self.steady_loss(&steady))
    }

    /// Those that begin in steady steps.
    fn in_steady<'a>(&self, trainers: &[Trainer], stalls: &[&'a Stall]) -> Vec<&'a Stall> {
        let is_in = |stall: &&Stall| {
            let steps = trainers
                .get(stall.trainer)
                .map_or(&[][..], |t| t.steps.as_slice());
            let steady = self.steady_of.get(stall.trainer);
            step_of(steps, stall).is_some_and(|i| steady.is_some_and(|s| s.get(i) == Some(&true)))
        };
        stalls.iter().copied().filter(is_in).collect()
    }

    /// What a steady step loses to these, which begin in steady steps.
    fn steady_loss(&self, stalls: &[&Stall]) -> Nanos {
        match self.lockstep {
            true => self.largest_loss(stalls.iter().copied()),
            false => mean(sum(stalls), self.taken.0.saturating_mul(self.devices)),
        }
    }
}
