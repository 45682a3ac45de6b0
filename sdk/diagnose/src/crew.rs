//! Who makes and who takes the batches of a loader, and what they cost, as far as a finding is about them.

use crate::charge::Stall;
use crate::events::{LoaderKey, Role};
use crate::finding::Run;
use crate::loaders::{LoaderFacts, taken_by};
use crate::ranks;
use crate::report::Worker;
use crate::trainers::{self, Trainer};
use crate::workers::together;
use gpustall_trace::{Nanos, TrackId};
use std::collections::HashSet;

/// The workers of a finding's loader.
pub(crate) struct Crew<'a> {
    pub(crate) workers: Vec<&'a Worker>,
    /// How many there were at the same time.
    pub(crate) together: usize,
    /// The same for each thread that takes batches: what a program sets.
    pub(crate) have: u64,
    /// The threads that take batches at the same time.
    pub(crate) takers: usize,
    /// Of several ranks what the batches cost of those that lose the time.
    pub(crate) cost: Option<LoaderFacts>,
}

impl Run<'_> {
    /// The workers of a loader whose waits are these stalls, `lost` in all. Of several ranks only those
    /// of the ranks that lose the time: what the batches of others cost is no matter to them.
    pub(crate) fn crew(
        &self,
        loader: Option<LoaderKey>,
        stalls: &[&Stall],
        lost: Nanos,
    ) -> Crew<'_> {
        let lockstep = ranks::in_lockstep(self.timeline.trace);
        let losers = self.that_matter(stalls, lost, |stall| stall.trainer);
        let losers = losers.iter().filter_map(|&at| self.trainers.get(at)?.track);
        let losers: HashSet<TrackId> = losers.collect();
        let loses = |track: TrackId| !lockstep || losers.contains(&track);
        let cost = loader.filter(|_| lockstep);
        let hands = self.workers.iter().filter(|hand| hand.loader == loader);
        let hands = hands.filter(|hand| hand.taker.is_none_or(loses));
        let all = together(hands.clone());
        Crew {
            together: all,
            have: all.div_ceil(self.takers(loader, loses)) as u64,
            takers: self.takers(loader, |_| true),
            workers: hands.map(|hand| &hand.row).collect(),
            cost: cost.map(|key| taken_by(self.timeline, self.judged, key, &losers)),
        }
    }

    /// How many of these threads take batches of a loader at the same time.
    fn takers(&self, loader: Option<LoaderKey>, which: impl Fn(TrackId) -> bool) -> usize {
        let waits = self.timeline.waits.iter();
        let takes: HashSet<TrackId> = waits
            .filter(|wait| Some(wait.loader) == loader && wait.role == Role::Batch)
            .map(|wait| wait.track)
            .collect();
        let takes = |track: TrackId| takes.contains(&track) && which(track);
        let known = |of: &&Trainer| of.track.is_some_and(&takes);
        trainers::at_once(self.trainers.iter().filter(known)).max(1)
    }
}
