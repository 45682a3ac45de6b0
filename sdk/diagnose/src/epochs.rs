//! Epochs that are too short for a rate: the workers of a loader have one or two batches each.
//!
//! Workers make nothing before an epoch begins, so the first batch of it is waited for with any number of
//! them, and `w` workers make `b` batches in `b / w` rounds, rounded up: of seven batches four, five and six
//! workers make the last ones as late. What the mean steady step is then says little: with seven workers it
//! is next to nothing, and an epoch still takes as long as a batch. So steps are compared over all of the
//! window, with the first of each epoch, wherever such a loader is the reason. The same is done where it takes
//! a large part of an epoch to start and end workers.

use crate::cause::Cause;
use crate::charge::{Source, Stall};
use crate::events::{LoaderKey, Role};
use crate::finding::{Run, group_of};
use crate::loaders::LoaderFacts;
use crate::own_steps::OwnSteps;
use crate::remedy::Facts;
use crate::steps::{Once, Prediction};
use crate::turnover::Started;
use crate::worker_counts::enough;
use gpustall_trace::{Nanos, TrackId};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Epochs are short that have fewer batches than so many for each worker, of those that there are or that
/// would be enough in a long epoch, whichever are more. With two rounds the last one takes half of the epoch;
/// the longer it goes on, the less does it matter that it ends with a round, and that it begins with one.
pub const SHORT_EPOCH: u64 = 2;

impl Run<'_> {
    /// What is predicted without these stalls, over all steps of the window, where the epochs of the
    /// loader are short; `facts` are then of these steps too.
    pub(crate) fn of_short_epochs(
        &self,
        facts: &mut Facts<'_>,
        (loader, own): (Option<LoaderKey>, Option<&OwnSteps>),
        stalls: &[&Stall],
    ) -> Option<Prediction> {
        let usual = facts.rest;
        facts.rest = self.steady_without_wait(loader, own);
        let Some(batches) = facts.short_epoch() else {
            facts.rest = usual;
            return None;
        };
        let all = || self.accounts.iter().flat_map(|account| &account.stalls);
        let later = all().filter(|stall| {
            let (cause, of) = group_of(self.timeline, stall);
            of == loader && cause.is_batch()
        });
        let later: Vec<&Stall> = later.collect();
        let compiled: Nanos = self.compiled_once(own).map(|stall| stall.lost).sum();
        let starts = facts
            .loader
            .map_or_else(Vec::new, |of| self.started_once(of));
        let started: Nanos = starts.iter().map(|stall| stall.lost).sum();
        let once = compiled + started;
        let recurs = |stall: &&&Stall| !starts.iter().any(|of| std::ptr::eq(*of, **stall));
        let stalls: Vec<&Stall> = stalls.iter().filter(recurs).copied().collect();
        let over_all = |stalls: &[&Stall]| match own {
            Some(own) => own.over_all(stalls, once),
            None => self.steps.over_all(stalls, self.device - once),
        };
        let mut without = over_all(&stalls)?;
        without.but = Once {
            compiling: compiled > Nanos::ZERO,
            starting: started > Nanos::ZERO,
        };
        let least = over_all(&later);
        facts.short = Some(batches);
        facts.reached = Some(without.step);
        facts.least = match facts.in_process {
            true => Nanos::ZERO,
            false => least.map_or(Nanos::ZERO, |least| least.predicted),
        };
        Some(without)
    }

    /// Mean steady step without any wait for this loader: without all time in its calls, whatever that is
    /// charged to, but with that in its sampler, which stays with any number of workers. `None` if most of
    /// that time lies in other steps, which then say more.
    pub(crate) fn step_without_wait(
        &self,
        loader: Option<LoaderKey>,
        own: Option<&OwnSteps>,
    ) -> Option<Nanos> {
        let waits = self.waits_for(loader);
        let waits: Vec<&Stall> = waits.iter().map(Cow::as_ref).collect();
        let steps = match own {
            Some(own) => own.without(&waits)?,
            None => self.steps.without(self.trainers, &waits, self.device)?,
        };
        steps.steady.then_some(steps.predicted)
    }

    /// The same, wherever most of that time lies, and without what was compiled; `None` if the steps are not of
    /// this loader.
    fn steady_without_wait(
        &self,
        loader: Option<LoaderKey>,
        own: Option<&OwnSteps>,
    ) -> Option<Nanos> {
        let mut steps = self.trainers.iter().flat_map(|trainer| &trainer.steps);
        let known = steps.any(|step| Some(step.loader) == loader);
        let waits = self.waits_for(loader);
        let waits = waits.iter().map(Cow::as_ref);
        let lost: Vec<&Stall> = waits.chain(self.compiled_once(own)).collect();
        let without = || self.steps.steady_without(self.trainers, &lost);
        match own {
            Some(own) => own.steady_without(&lost),
            None => known.then(without).flatten(),
        }
    }

    /// What is lost as kernels are compiled and loaded, unless that is so in more than half of the steps: as a job
    /// begins, and not again in a longer one, which has the same epochs.
    fn compiled_once<'a>(&'a self, own: Option<&'a OwnSteps>) -> impl Iterator<Item = &'a Stall> {
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        let compiling = stalls.filter(move |stall| {
            let compiles = group_of(self.timeline, stall).0 == Cause::HostCompile;
            compiles && own.is_none_or(|own| own.has(stall))
        });
        let compiling: Vec<&Stall> = compiling.collect();
        let recurs = match own {
            Some(own) => own.recur(compiling.iter().copied()),
            None => self.steps.recur(self.trainers, compiling.iter().copied()),
        };
        compiling.into_iter().filter(move |_| !recurs)
    }

    /// What of these stalls, `lost` in all, is that a loader starts workers which it keeps.
    pub(crate) fn started(
        &self,
        loader: &LoaderFacts,
        stalls: &[&Stall],
        lost: Nanos,
    ) -> Option<Started> {
        let starts = self.started_once(loader);
        let is_in = |stall: &&&Stall| stalls.iter().any(|of| std::ptr::eq(*of, **stall));
        let time: Nanos = starts.iter().filter(is_in).map(|stall| stall.lost).sum();
        (time > Nanos::ZERO).then(|| Started {
            time,
            share: time.share_of(lost),
        })
    }

    /// What is lost as a loader that keeps its workers starts them, with the first epoch.
    fn started_once(&self, loader: &LoaderFacts) -> Vec<&Stall> {
        if !loader.keeps_workers {
            return Vec::new();
        }
        let loader = loader.key;
        let mut started: BTreeSet<TrackId> = BTreeSet::new();
        let starts = self.timeline.waits.iter().enumerate();
        let starts = starts.filter(|(_, wait)| {
            wait.loader == loader && wait.role == Role::EpochStart && started.insert(wait.track)
        });
        let starts: BTreeSet<usize> = starts.map(|(at, _)| at).collect();
        let is_in = |stall: &&Stall| match stall.source {
            Source::Wait(at) => starts.contains(&at),
            _ => false,
        };
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        stalls.filter(is_in).collect()
    }

    /// The stalls in calls of this loader, outside of its sampler.
    fn waits_for(&self, loader: Option<LoaderKey>) -> Vec<Cow<'_, Stall>> {
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        let waits = stalls.filter_map(|stall| {
            let Source::Wait(i) = stall.source else {
                return None;
            };
            let waits = self.timeline.waits.get(i);
            let wait = waits.filter(|wait| Some(wait.loader) == loader)?;
            let left = self.timeline.sampling.left_of(wait, stall);
            Some(left.map_or(Cow::Borrowed(stall), Cow::Owned))
        });
        waits.collect()
    }
}

impl Facts<'_> {
    /// Batches of an epoch of the loader, if its epochs are short.
    fn short_epoch(&mut self) -> Option<u64> {
        let batches = self.loader?.epoch?;
        let counts = self.costs()?.counts();
        let enough = enough(&counts).map_or(0, |enough| enough.workers);
        self.few = batches < SHORT_EPOCH * enough.max(self.have);
        let turnover = self.is_of_turnover(&counts, batches);
        // One epoch says nothing of the next.
        self.keep = turnover && self.turnover.is_some_and(|turnover| turnover.epochs > 1);
        (self.few || turnover).then_some(batches)
    }

    /// What is to be said of this number of workers, where epochs are short.
    pub(crate) fn rounds(&self, workers: u64) -> String {
        let few = self.short.filter(|_| self.few && workers != self.have);
        let Some((batches, made)) = few.zip(self.made()) else {
            return String::new();
        };
        let word = |n: u64| if n == 1 { "" } else { "s" };
        let rounds = |of: u64| {
            let rounds = batches.div_ceil(of.max(1));
            format!("{rounds} round{}", word(rounds))
        };
        let make = |n: u64| match n {
            1 => "1 worker makes".to_owned(),
            n => format!("{n} workers make"),
        };
        let then = match self.have {
            0 => format!("{} in {}", make(workers), rounds(workers)),
            have => format!(
                "{} in {} and {workers} in {}",
                make(have),
                rounds(have),
                rounds(workers)
            ),
        };
        let more = match workers >= batches {
            true => " More have nothing to do.",
            false => "",
        };
        format!(
            " An epoch has {batches} batches, which {then}.{more} The first one takes {made} with any number \
             of workers."
        )
    }

    /// What to change where the first batch of a short epoch is waited for while a worker makes it: `begins`
    /// says when it does, `set` how a number of workers is set.
    pub(crate) fn first_of_few(
        &self,
        begins: &str,
        set: impl Fn(u64) -> String,
        cheaper: &str,
    ) -> Option<String> {
        let (batches, made) = self.short.filter(|_| self.few).zip(self.made())?;
        if self.cause != Cause::DataStartup || self.by_makers <= 0.5 {
            return None;
        }
        let then = enough(&self.counts).filter(|then| then.workers > self.have);
        let more = then.map_or(String::new(), |then| {
            format!(
                " The others come sooner with {} instead of {}{}: a step {} is predicted.",
                set(then.workers),
                self.have,
                self.and_kept(),
                then.in_words()
            )
        });
        Some(format!(
            "an epoch has {batches} batches, and {begins}, so that the first one takes {made} with any number \
             of them. Have fewer, longer epochs, or smaller batches: the first is made sooner then, and more \
             workers have a part in the others. Or {cheaper}.{more}"
        ))
    }

    /// More workers than there are, the least with which an epoch has a round less; `None` if there is a
    /// worker for each batch.
    pub(crate) fn a_round_less(&self) -> Option<u64> {
        let Some(batches) = self.loader.and_then(|loader| loader.epoch) else {
            return Some(self.have + 1);
        };
        let rounds = batches.div_ceil(self.have.max(1));
        (rounds > 1).then(|| batches.div_ceil(rounds - 1))
    }

    /// Time to make a batch.
    fn made(&self) -> Option<Nanos> {
        self.loader?.production
    }
}
