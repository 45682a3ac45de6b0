//! Predicted steps beside the one that a run did reach: what was measured counts more.

use super::{Costs, slower_than};
use crate::report::WorkerCount;
use gpustall_trace::Nanos;

/// Others that keep less than this of a CPU busy do not compete for the CPUs.
const NOBODY: f64 = 0.1;

/// The step that a run did reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// Of each thread that takes batches; none where it makes them itself.
    pub(crate) workers: u64,
    /// Mean steady step; where epochs are short, mean step of all.
    pub(crate) step: Nanos,
    /// What more workers do not go below: what is waited for with any number of them stays.
    pub(crate) least: Nanos,
}

impl Costs<'_> {
    /// The same if others kept no CPU busy; nothing where they keep hardly any busy, or where the disk may
    /// be the limit.
    pub(crate) fn counts_if_free(&self) -> Vec<WorkerCount> {
        if self.taken < NOBODY || self.reading.is_some() {
            return Vec::new();
        }
        let free = Self {
            taken: 0.0,
            reached: None,
            ..*self
        };
        // What the prediction leaves out is not known to go away with the others.
        let left_out = self.reached.filter(|of| of.workers > 0).map_or(0, |of| {
            let modelled = self.count(of.workers, self.unhindered).predicted_step_ns;
            of.step.get().saturating_sub(modelled)
        });
        // Nor is what is waited for with any number of workers.
        let least = self.reached.map_or(0, |of| of.least.get());
        let count = |count: WorkerCount| WorkerCount {
            predicted_step_ns: count.predicted_step_ns.saturating_add(left_out).max(least),
            ..count
        };
        let counts = free.counts().into_iter().map(count);
        counts
            .map(|count| self.no_longer_than_reached(count))
            .collect()
    }

    /// What is measured counts more than what is predicted: with the workers that there were the step
    /// is as it was, of which `modelled` is predicted, and with others it has what that leaves out.
    /// With more of them it is no longer, unless they are predicted to take the trainer's CPU.
    pub(super) fn as_reached(&self, count: WorkerCount, modelled: u64) -> WorkerCount {
        let Some(reached) = self.reached else {
            return count;
        };
        if reached.workers == 0 {
            return self.no_longer_than_reached(count);
        }
        let left_out = reached.step.get().saturating_sub(modelled);
        let step = count.predicted_step_ns.saturating_add(left_out);
        // Fewer share the CPUs as well as those did, but each makes a batch no faster. Against others
        // fewer get a smaller share.
        let making = self.making(self.unhindered, count.workers);
        let faster = match self.taken < NOBODY {
            true => reached.step.share_of(Nanos::new(modelled)).min(1.0),
            false => 1.0,
        };
        let fewer = (step as f64 * faster) as u64;
        let fewer = fewer.max(making).max(self.rest.get()).min(step);
        let slower = count.predicted_step_ns > slower_than(modelled);
        let step = match count.workers {
            workers if workers == reached.workers => reached.step.get(),
            workers if workers < reached.workers => fewer,
            workers if !slower => {
                let more = self.turnover(workers) - self.turnover(reached.workers);
                let least = reached.least.get().saturating_add(more);
                step.max(least).min(reached.step.get())
            }
            _ => step,
        };
        WorkerCount {
            predicted_step_ns: step,
            ..count
        }
    }

    /// At least as many workers as there were reach at least the step that these did.
    pub(super) fn no_longer_than_reached(&self, count: WorkerCount) -> WorkerCount {
        let reached = self.reached.filter(|of| count.workers >= of.workers);
        let Some(reached) = reached.map(|reached| reached.step.get()) else {
            return count;
        };
        let least = count.predicted_step_ns.min(reached);
        let most = count.at_most_step_ns.map(|most| most.min(reached));
        WorkerCount {
            predicted_step_ns: least,
            at_most_step_ns: most.filter(|&most| most > least),
            ..count
        }
    }
}
