//! Workers of a data set that is iterated have their own items each: nobody hands a batch to whoever is free.
//! Where one has the slow ones, the others wait for room in their queues while the trainer waits for it.

use crate::cause::Cause;
use crate::remedy::{Facts, Remedy};
use crate::report::Worker;
use crate::tally::{Tally, on_worker};
use gpustall_trace::Nanos;

/// A worker is much slower than the others where it takes at least so many times as long for a batch as each
/// of them.
pub const SLOW_WORKER_FACTOR: u64 = 2;

/// A worker with fewer batches than this says nothing of its items.
pub const MIN_WORKER_BATCHES: u64 = 8;

/// The worker that has the slow items.
#[derive(Debug, Clone)]
pub(crate) struct SlowWorker {
    name: String,
    /// Mean time that it takes to make a batch, and the longest that any other one takes.
    made: Nanos,
    others: Nanos,
    /// How many others there are.
    count: usize,
    /// Share of the loss of the finding that is spent by this one.
    share: f64,
}

impl SlowWorker {
    /// Of the workers of a loader whose data set is iterated; `None` if no one stands out.
    pub(crate) fn of(workers: &[&Worker], tally: &Tally, lost: Nanos) -> Option<Self> {
        let known = workers.iter().filter(|of| of.batches >= MIN_WORKER_BATCHES);
        let mut made: Vec<(Nanos, &str)> = known
            .map(|of| {
                let get = of.get_mean_ns.unwrap_or_default();
                let collate = of.collate_mean_ns.unwrap_or_default();
                (Nanos::new(get.saturating_add(collate)), of.name.as_str())
            })
            .collect();
        made.sort_unstable();
        let (&(slowest, name), others) = made.split_last()?;
        let &(next, _) = others.last()?;
        let stands_out = slowest.get() >= next.get().saturating_mul(SLOW_WORKER_FACTOR);
        let spent = tally.threads(on_worker);
        let own = spent.iter().find(|(who, _)| who == name);
        stands_out.then(|| Self {
            name: name.to_owned(),
            made: slowest,
            others: next,
            count: others.len(),
            share: own.map_or(0.0, |(_, ns)| ns.share_of(lost)),
        })
    }
}

impl Facts<'_> {
    /// Whether most of the loss is that of the worker that has the slow items, and not that it waits for a
    /// lock, for memory or for a CPU.
    pub(crate) fn is_of_slow_worker(&self) -> bool {
        use Cause::{Data, DataCompute, DataIo, DataWorkerLimit};
        let its = matches!(self.cause, Data | DataCompute | DataIo | DataWorkerLimit);
        its && self
            .slow_worker
            .as_ref()
            .is_some_and(|slow| slow.share > 0.5)
    }

    /// What all workers together take for a batch once each has as much to do as the others, where that is
    /// the remedy.
    pub(crate) fn evenly(&self) -> Option<Nanos> {
        let made = self
            .loader?
            .production
            .filter(|_| self.is_of_slow_worker())?;
        Some(Nanos::new(made.get() / self.have.max(1)))
    }
}

/// What to change where one worker has the slow items.
pub(crate) fn remedy(slow: &SlowWorker) -> Remedy {
    let others = match slow.count {
        1 => format!("the other one {}", slow.others),
        _ => format!("each of the others {} at most", slow.others),
    };
    format!(
        "divide the items of the IterableDataset evenly among its workers: {} takes {} for a batch and {others}, \
         and an epoch lasts as long as the slowest one takes for its part. By torch.utils.data.get_worker_info(), \
         give each of n workers every n-th item, or of slow and fast shards its share of both. More workers and a \
         larger prefetch_factor leave it as slow.",
        slow.name, slow.made
    )
    .into()
}
