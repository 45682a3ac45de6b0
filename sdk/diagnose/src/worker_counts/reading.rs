//! Predicted steps where workers wait for a disk, which may be the limit.

use super::Costs;
use crate::disk::{Disk, Made};
use crate::report::WorkerCount;
use gpustall_trace::Nanos;

/// Where the longest step is longer than the shortest by no more than this share of the step as it is,
const ONE_NUMBER: f64 = 0.08;

/// and by no more than this share of itself, one number is predicted.
const ONE_NUMBER_OF_ITSELF: f64 = 0.15;

/// What batches wait for a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) disk: Disk,
    pub(crate) made: Made,
    /// The mean step as it is, where it is known.
    pub(crate) step: Option<Nanos>,
    /// Whether the threads that take batches read themselves, by turns with their steps.
    pub(crate) in_process: bool,
}

impl Costs<'_> {
    /// The same, where the disk may be the limit; `now` is with the workers that there were.
    pub(super) fn with_disk(
        &self,
        reading: &Reading,
        workers: u64,
        now: WorkerCount,
    ) -> WorkerCount {
        let other = reading.made.other;
        // The workers of all that take batches read from it.
        let readers = workers.saturating_mul(self.takers.max(1));
        let (least, most) = reading.disk.read_with(readers, &reading.made);
        let short = self.count(workers, other + least);
        let modelled = now.predicted_step_ns;
        let step = reading.step.map_or(modelled, |step| step.get());
        // The step as it is counts more than how it is made up: it stays, where nothing gets faster.
        let as_it_is = |ns: u64| (step as f64 * ns as f64 / modelled.max(1) as f64) as u64;
        let (mut at_least, mut at_most) = (short.predicted_step_ns, step);
        // Workers read while the trainer is at work: one is another thing than none.
        if readers <= reading.made.workers && !reading.in_process {
            // Fewer workers are not faster.
            at_least = as_it_is(at_least).max(step);
            // Of a short run much was made before its first step: fewer have that much less of it.
            let longest = self.count(workers, other + most).predicted_step_ns;
            at_most = as_it_is(longest).max(longest);
        } else if reading.disk.known().reach().is_none() {
            at_least = as_it_is(at_least.min(modelled)).max(self.rest.get().min(step));
        }
        let open = at_most.saturating_sub(at_least) as f64;
        let one =
            open <= ONE_NUMBER * step as f64 && open <= ONE_NUMBER_OF_ITSELF * at_least as f64;
        WorkerCount {
            predicted_step_ns: match one {
                true => at_least.midpoint(at_most.max(at_least)),
                false => at_least,
            },
            at_most_step_ns: (!one).then_some(at_most),
            ..short
        }
    }
}
