//! The waits for one loader as a whole, of which the scheduler may make several causes.

use crate::cause::{Cause, Severity};
use crate::charge::Stall;
use crate::events::LoaderKey;
use crate::finding::{GroupKey, Run, group_of};
use crate::links::percent;
use crate::remedy::{Facts, Remedy};
use gpustall_trace::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Where locks take more than this share of the waits for a loader, no step is predicted for other
/// numbers of workers, and nobody advises more of them: they would wait for each other.
pub const MAX_LOCKED_SHARE: f64 = 0.1;

/// Where the kernel's work for memory takes more than this share of the waits for a loader, the report says that
/// more threads of one process take longer for it each: of rows in memory it took half, and a batch of 0.88 s took
/// 1.2 to 1.3 s on four and on seven threads at once (docs/cases/inmemory-mlp.md).
pub const MAX_FAULTING_SHARE: f64 = 0.25;

impl Run<'_> {
    /// Of each loader whose waits cost enough together, but no cause of them alone, the largest.
    pub(crate) fn divided(&self, groups: &BTreeMap<GroupKey, Vec<&Stall>>) -> BTreeSet<GroupKey> {
        let mut of_loader: BTreeMap<LoaderKey, Vec<(Nanos, GroupKey)>> = BTreeMap::new();
        for (&(cause, loader), stalls) in groups {
            if let Some(loader) = loader.filter(|_| cause.is_batch()) {
                let lost: Nanos = stalls.iter().map(|stall| stall.lost).sum();
                let key = (cause, Some(loader));
                of_loader.entry(loader).or_default().push((lost, key));
            }
        }
        let largest = |causes: Vec<(Nanos, GroupKey)>| {
            let all: Nanos = causes.iter().map(|&(lost, _)| lost).sum();
            Severity::of(all.share_of(self.device))?;
            causes.into_iter().max().map(|(_, key)| key)
        };
        of_loader.into_values().filter_map(largest).collect()
    }

    /// Share of the waits for a loader in which locks hold those up who make its batches, if it is so much
    /// that more workers make no batch sooner.
    pub(crate) fn locked(&self, loader: Option<LoaderKey>) -> Option<f64> {
        Some(self.share_of(Cause::DataLock, loader)).filter(|&share| share > MAX_LOCKED_SHARE)
    }

    /// Whether the kernel's work for memory takes so much of the waits for a loader that threads of one process
    /// hold each other up in it.
    pub(crate) fn faults(&self, loader: Option<LoaderKey>) -> bool {
        self.share_of(Cause::DataMemory, loader) > MAX_FAULTING_SHARE
    }

    /// Share of the waits for the batches of a loader that is charged to this cause.
    fn share_of(&self, cause: Cause, loader: Option<LoaderKey>) -> f64 {
        let (mut all, mut own) = (Nanos::ZERO, Nanos::ZERO);
        for stall in self.accounts.iter().flat_map(|account| &account.stalls) {
            let (charged, of) = group_of(self.timeline, stall);
            if charged.is_batch() && of == loader {
                all += stall.lost;
                if charged == cause {
                    own += stall.lost;
                }
            }
        }
        own.share_of(all)
    }

    /// Share of all waits for a loader that a finding is; `None` of causes that are no waits for batches.
    pub(crate) fn share_of_waits(&self, (cause, loader): GroupKey, lost: Nanos) -> Option<f64> {
        if !cause.is_batch() {
            return None;
        }
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        let waits = stalls.filter(|stall| {
            let (cause, of) = group_of(self.timeline, stall);
            cause.is_batch() && of == loader
        });
        let all: Nanos = waits.map(|stall| stall.lost).sum();
        Some(lost.share_of(all))
    }
}

impl Facts<'_> {
    /// Whether workers make the batches of this finding, and other waits for them are for locks: what would
    /// be said of more workers is not so.
    pub(crate) fn is_beside_locks(&self) -> bool {
        use Cause::{Data, DataCompute, DataIo, DataWorkerLimit};
        let advised = matches!(self.cause, Data | DataCompute | DataIo | DataWorkerLimit);
        let elsewhere = self.in_process || self.is_of_ends() || self.is_handed_over();
        self.locked.is_some() && advised && !elsewhere
    }
}

/// What to change where workers hold each other up at other moments.
pub(crate) fn beside_locks(facts: &Facts<'_>, cheaper: &str) -> Remedy {
    let locked = facts.locked.unwrap_or_default();
    format!(
        "more workers do not help: for {} of the waits for this loader they hold each other up at a lock \
         ({}), and what is done under it is done for one batch at a time. Do less of it there. Or {cheaper}.",
        percent(locked),
        Cause::DataLock,
    )
    .into()
}
