//! Whose stalls a finding is of, and where they were.

use crate::cause::Cause;
use crate::charge::{Source, Stall};
use crate::events::LoaderKey;
use crate::finding::Run;
use crate::ranks;
use gpustall_trace::{Nanos, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// A rank with less than this share of a finding's loss is not named in it.
pub(crate) const SMALLEST_RANK: f64 = 0.05;

impl Run<'_> {
    /// The threads that stalled: those that train, or those that launch for them where the phase is one of
    /// these.
    pub(crate) fn names_of_trainers(&self, stalls: &[&Stall]) -> Vec<String> {
        let lost = stalls.iter().map(|stall| stall.lost).sum();
        let (of_others, own): (Vec<&Stall>, Vec<&Stall>) = stalls
            .iter()
            .partition(|stall| self.thread_of_phase(stall).is_some());
        let trainers = self.that_matter(&own, lost, |stall| stall.trainer);
        let name = |i: usize| Some(self.trainers.get(i)?.name.clone());
        let mut names: Vec<String> = trainers.into_iter().filter_map(name).collect();
        let threads = of_others
            .iter()
            .filter_map(|stall| self.thread_of_phase(stall));
        let threads: BTreeSet<TrackId> = threads.collect();
        names.extend(
            threads
                .into_iter()
                .map(|track| self.timeline.thread_name(track)),
        );
        names
    }

    /// The thread of the phase that a stall is of, if it is none of those that train.
    fn thread_of_phase(&self, stall: &Stall) -> Option<TrackId> {
        let Source::Phase(i) = stall.source else {
            return None;
        };
        let track = self.timeline.phases.get(i)?.track;
        let trains = self.trainers.iter().any(|of| of.track == Some(track));
        (!trains).then_some(track)
    }

    /// The devices, or the threads that stand for them.
    pub(crate) fn names_of_devices(&self, stalls: &[&Stall], lost: Nanos) -> Vec<String> {
        let devices = self.that_matter(stalls, lost, |stall| stall.device);
        let name = |i: usize| Some(self.accounts.get(i)?.name.clone());
        devices.into_iter().filter_map(name).collect()
    }

    /// What the stalls are of. Where several processes train together, only what has a share that
    /// counts: each of them has a little of everything.
    pub(crate) fn that_matter(
        &self,
        stalls: &[&Stall],
        lost: Nanos,
        of: impl Fn(&Stall) -> usize,
    ) -> Vec<usize> {
        let mut by: BTreeMap<usize, Nanos> = BTreeMap::new();
        for stall in stalls {
            *by.entry(of(stall)).or_default() += stall.lost;
        }
        let all = !ranks::in_lockstep(self.timeline.trace);
        let counts = |ns: Nanos| all || ns.share_of(lost) >= SMALLEST_RANK;
        let large = by.into_iter().filter(|&(_, ns)| counts(ns));
        large.map(|(at, _)| at).collect()
    }

    /// Where the threads stalled: `in next() of ...`, `in phase ...`; empty if a device says it.
    pub(crate) fn place(
        &self,
        cause: Cause,
        loader: Option<LoaderKey>,
        stalls: &[&Stall],
    ) -> String {
        if let Some(loader) = loader {
            let calls = if cause == Cause::DataStartup {
                "iter() and the first next()"
            } else {
                "next()"
            };
            return format!("in {calls} of `{}`", self.timeline.loader_name(loader));
        }
        if cause.is_held_up() {
            let recorded = self.accounts.iter().any(|account| account.device.is_some());
            return match cause {
                _ if recorded => String::new(),
                Cause::HostPreempted => "ready to run, without a CPU".to_owned(),
                _ => "blocked outside of the loader".to_owned(),
            };
        }
        if stalls.iter().all(|stall| stall.source == Source::Thread) {
            return match self.timeline.foreign && self.timeline.names.cat.cpu_op.is_some() {
                true => "outside of the operators".to_owned(),
                false => "between the marked phases".to_owned(),
            };
        }
        if stalls.iter().all(|stall| stall.source == Source::Device) {
            return String::new();
        }
        let mut names = BTreeSet::new();
        for stall in stalls {
            if let Source::Phase(i) = stall.source {
                names.extend(self.timeline.phases.get(i).map(|phase| phase.name));
            }
        }
        let mut names: Vec<&str> = names.iter().map(|&n| self.timeline.trace.text(n)).collect();
        names.sort_unstable();
        match names.as_slice() {
            [one] => format!("in phase `{one}`"),
            [one, two] => format!("in phases `{one}` and `{two}`"),
            names => format!(
                "in {} phases, `{}` and others",
                names.len(),
                names.first().unwrap_or(&"")
            ),
        }
    }
}
