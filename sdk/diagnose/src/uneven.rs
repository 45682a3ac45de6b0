//! Workers of a data set that is iterated have their own items each: nobody hands a batch to whoever is free.
//! Where one has the slow ones, the others wait for room in their queues while the trainer waits for it.

use crate::cause::Cause;
use crate::need::MIN_GAIN;
use crate::remedy::{Facts, Remedy};
use crate::report::Worker;
use crate::tally::{Tally, on_worker};
use crate::worker_counts::NEAR_ENOUGH;
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
        let slow = Self::among(workers)?;
        let spent = tally.threads(on_worker);
        let own = spent.iter().find(|(who, _)| *who == slow.name);
        Some(Self {
            share: own.map_or(0.0, |(_, ns)| ns.share_of(lost)),
            ..slow
        })
    }

    /// The one of these that takes much longer for a batch than each of the others, whatever it costs.
    fn among(workers: &[&Worker]) -> Option<Self> {
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
        stands_out.then(|| Self {
            name: name.to_owned(),
            made: slowest,
            others: next,
            count: others.len(),
            share: 0.0,
        })
    }

    fn others(&self) -> String {
        match self.count {
            1 => format!("the other one {}", self.others),
            _ => format!("each of the others {} at most", self.others),
        }
    }
}

/// Nobody is told to have more batches ahead of each worker than this: they take memory.
const MOST_AHEAD: u64 = 32;

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

impl Facts<'_> {
    /// What is said where batches that workers of PyTorch's loader make by turns take unequally long: on whom the
    /// slow ones are, and what more of them ahead are worth.
    pub(crate) fn of_uneven(&self) -> String {
        let whose = SlowWorker::among(&self.workers).map_or(String::new(), |slow| {
            let have = self.have;
            format!(
                " Most slow ones are {}'s, which takes {} for a batch, {}: of {have} workers each makes every {} \
                 batch, and with another number, or another order of the items, others have their share.",
                slow.name,
                slow.made,
                slow.others(),
                nth(have),
            )
        });
        format!(" Batches take unequally long{}{whose}", self.ahead())
    }

    /// The prefetch_factor that is worth something, with the workers there are or with a few more.
    fn ahead(&self) -> String {
        let now = self.prefetch();
        let wide = now.saturating_mul(2).max(8);
        let Some(costs) = self
            .costs()
            .filter(|of| of.trainers <= 1 && !of.recorded.is_empty())
        else {
            return format!(
                ": prefetch_factor={wide} instead of {now} lets the workers have more of them ready when one is \
                 late."
            );
        };
        let further = || std::iter::successors(Some(now), |each| Some(each * 2)).skip(1);
        let further = || further().take_while(|&each| each <= MOST_AHEAD.max(wide));
        let best = |workers: u64| {
            let steps =
                further().filter_map(|each| Some((each, costs.step_with_ahead(workers, each)?)));
            let steps: Vec<(u64, Nanos)> = steps.collect();
            let least = steps.iter().map(|of| of.1).min()?.get() as f64;
            let near = |of: &&(u64, Nanos)| of.1.get() as f64 <= least * (1.0 + NEAR_ENOUGH);
            steps.iter().find(near).copied()
        };
        let gains = |then: Nanos| {
            self.step
                .is_some_and(|step| then.share_of(step) <= MIN_GAIN)
        };
        let few = self.have..=self.have.saturating_mul(2);
        let found = few.filter_map(|workers| Some((workers, best(workers)?)));
        let found = found.into_iter().find(|&(_, (_, then))| gains(then));
        match found {
            Some((workers, (each, then))) if workers == self.have => format!(
                ": with prefetch_factor={each} instead of {now} alone a step of {then} is predicted."
            ),
            Some((workers, (each, then))) => format!(
                ": with num_workers={workers} and prefetch_factor={each} instead of {now} a step of {then} is \
                 predicted, and more of them ahead of {} workers alone are not worth much.",
                self.have
            ),
            None => ", and more of them ahead (prefetch_factor) are not worth much.".to_owned(),
        }
    }
}

/// `2nd`, of a number in a row.
fn nth(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (1, of) if of != 11 => "st",
        (2, of) if of != 12 => "nd",
        (3, of) if of != 13 => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// What to change where one worker has the slow items.
pub(crate) fn remedy(slow: &SlowWorker) -> Remedy {
    let others = slow.others();
    format!(
        "divide the items of the IterableDataset evenly among its workers: {} takes {} for a batch and {others}, \
         and an epoch lasts as long as the slowest one takes for its part. By torch.utils.data.get_worker_info(), \
         give each of n workers every n-th item, or of slow and fast shards its share of both. More workers and a \
         larger prefetch_factor leave it as slow.",
        slow.name, slow.made
    )
    .into()
}
