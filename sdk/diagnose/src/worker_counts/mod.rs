//! The predicted step for each number of workers.

use crate::pipeline::{Order, Pipeline};
use crate::recorded::{self, Making};
use crate::report::WorkerCount;
use crate::turnover::Turnover;
use gpustall_trace::Nanos;

mod reached;
mod reading;
mod words;

pub(crate) use reached::Reached;
pub(crate) use reading::Reading;
pub(crate) use words::in_words;

/// No more numbers of workers than this are predicted.
pub const MAX_WORKER_COUNTS: u32 = 128;

/// What batches and steps cost, on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs<'a> {
    /// To make a batch, without the time in which the worker had no CPU.
    pub(crate) unhindered: Nanos,
    /// CPU time of that.
    pub(crate) cpu: Nanos,
    /// The rest of a step.
    pub(crate) rest: Nanos,
    /// Threads that train at the same time, and those of them that take batches of the loader, each with
    /// workers of its own.
    pub(crate) trainers: u64,
    pub(crate) takers: u64,
    /// CPUs that the job may use, and what of them others keep busy.
    pub(crate) cpus: u32,
    pub(crate) taken: f64,
    /// CPUs that the job gets at least, whatever others keep busy.
    pub(crate) least: f64,
    /// Batches of one epoch.
    pub(crate) batches: u64,
    /// What they took to make one after the other; empty where all take alike.
    pub(crate) recorded: &'a [Making],
    /// So many of them where epochs are short: steps are then those of a whole epoch, with the wait for its
    /// first batch.
    pub(crate) short: Option<u64>,
    /// What it takes to start and end workers with each epoch, where epochs are short and that is known.
    pub(crate) turnover: Option<Turnover>,
    /// How many of them may wait for the trainer.
    pub(crate) queue: Queue,
    /// What batches wait for a disk.
    pub(crate) reading: Option<Reading>,
    /// What was measured, where it is known.
    pub(crate) reached: Option<Reached>,
}

/// More workers are slower where their step is longer by more than one in so many.
const SLOWER: u64 = 20;

/// More workers than this one make the step shorter by less than this share of it.
pub(crate) const NO_SHORTER: f64 = 0.02;

/// A number of workers is advised with which the step is longer than with any other one by no more than
/// this share of it.
pub(crate) const NEAR_ENOUGH: f64 = 0.05;

/// How far workers run ahead of the trainer, in batches.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Queue {
    /// So many in all: Burn's loader has a channel of 100.
    Shared(u64),
    /// So many for each worker: PyTorch's `prefetch_factor`, 2 if nobody said otherwise.
    EachWorker(u64),
}

impl Queue {
    fn of(self, workers: u64) -> u64 {
        match self {
            Queue::Shared(batches) => batches,
            Queue::EachWorker(batches) => batches.saturating_mul(workers),
        }
    }

    /// Who makes which batch: the loader with that queue says so.
    fn order(self) -> Order {
        match self {
            Queue::Shared(_) => Order::Parts,
            Queue::EachWorker(_) => Order::Turns,
        }
    }
}

impl Costs<'_> {
    /// The predicted step for 1 to twice as many workers as CPUs, or to as many as keep up if they did
    /// not compute, for each that takes batches: the longest of the rest of the step, of what so many
    /// workers need for a batch, and of what the CPUs need for all; for one trainer, an epoch played
    /// through. Where batches are uneven, as many as keep up with the slow ones.
    pub(crate) fn counts(&self) -> Vec<WorkerCount> {
        let slow = self.unhindered.get().max(recorded::slow(self.recorded));
        let keep_up = slow.div_ceil(self.rest.get().max(1));
        let most = u64::from(self.cpus.saturating_mul(2)).div_ceil(self.takers.max(1));
        let have = self.reached.map_or(0, |reached| reached.workers);
        let most = most.max(keep_up).max(have);
        let counts = 1..=most.min(u64::from(MAX_WORKER_COUNTS));
        let Some(reading) = &self.reading else {
            let all = self.no_slower(counts);
            let had = have.checked_sub(1).and_then(|at| all.get(at as usize));
            let had = had.map_or_else(|| self.count(have, self.unhindered), |&count| count);
            return all
                .into_iter()
                .map(|count| self.as_reached(count, had.predicted_step_ns))
                .collect();
        };
        let had = reading.made.workers.div_ceil(self.takers.max(1));
        let now = self.count(had, self.unhindered);
        let reach = reading.disk.known().reach();
        let far = had.saturating_mul(reach.unwrap_or(4));
        // Beyond, bounds say nothing; and where more readers get no more, it stays as it is.
        let says = |count: &WorkerCount| match reach {
            _ if count.workers <= far => true,
            Some(_) => count.at_most_step_ns.is_none(),
            None => count.predicted_step_ns < now.predicted_step_ns / 10 * 9,
        };
        counts
            .map(|workers| self.with_disk(reading, workers, now))
            .take_while(says)
            .map(|count| self.no_longer_than_reached(count))
            .collect()
    }

    /// So many workers each. By the turns that they take, more of them may happen to be slower where batches are
    /// uneven: one has all the slow ones, say. That is no reason to have fewer, as a CPU is that they take
    /// from the trainer.
    fn no_slower(&self, workers: impl Iterator<Item = u64>) -> Vec<WorkerCount> {
        let alike = Self {
            recorded: &[],
            ..*self
        };
        let of_alike = |workers| alike.count(workers, self.unhindered).predicted_step_ns;
        let mut all: Vec<WorkerCount> = Vec::new();
        for workers in workers {
            let mut count = self.count(workers, self.unhindered);
            let fewer = all.last().map(|fewer| fewer.predicted_step_ns);
            if let Some(fewer) = fewer.filter(|&fewer| fewer < count.predicted_step_ns) {
                let (now, before) = (of_alike(workers), of_alike(workers - 1));
                let taken = Nanos::new(now.max(before)).share_of(Nanos::new(before));
                let most = (fewer as f64 * taken.max(1.0)) as u64;
                count.predicted_step_ns = count.predicted_step_ns.min(most);
            }
            all.push(count);
        }
        all
    }

    /// How long so many workers take for a batch, of which each takes that long for one: by their rate, or in
    /// a short epoch by the rounds that it has.
    fn making(&self, unhindered: Nanos, workers: u64) -> u64 {
        let workers = workers.max(1);
        // Rounds are of batches that take alike; others are played one by one.
        let alike = self.trainers > 1 || self.recorded.is_empty();
        let short = self.short.filter(|_| alike);
        let Some(batches) = short.map(|batches| batches.max(1)) else {
            return unhindered.get() / workers;
        };
        let rounds = batches.div_ceil(workers);
        let all = u128::from(unhindered.get()) * u128::from(rounds);
        (all / u128::from(batches)) as u64
    }

    /// What it takes to start and end so many workers with each epoch, for each of its batches.
    fn turnover(&self, workers: u64) -> u64 {
        let both = self.turnover.zip(self.short);
        both.map_or(0, |(turnover, batches)| {
            turnover.of_a_step(workers, batches)
        })
    }

    /// So many workers, of which each takes that long for a batch.
    fn count(&self, workers: u64, unhindered: Nanos) -> WorkerCount {
        let trainers = self.trainers.max(1);
        let making = self.making(unhindered, workers);
        let free = (f64::from(self.cpus) - self.taken).max(self.least);
        let batches = self.cpu.get() as f64 * self.takers.max(1) as f64;
        let work = batches + self.rest.get() as f64 * trainers as f64;
        let cpus = (work / free) as u64;
        let mut step = self.rest.get().max(cpus).max(making);
        if trainers == 1 {
            let pipeline = Pipeline {
                batches: self.short.unwrap_or(self.batches),
                blocked: (unhindered - self.cpu).get() as f64,
                cpu: self.cpu.get() as f64,
                rest: self.rest.get() as f64,
                cpus: free,
                queue: self.queue.of(workers),
                recorded: self.recorded,
                order: self.queue.order(),
            };
            let played = match self.short {
                Some(_) => pipeline.step_with_first(workers as usize),
                None => pipeline.step(workers as usize),
            };
            step = step.max(played as u64);
        }
        WorkerCount {
            workers,
            predicted_step_ns: step.saturating_add(self.turnover(workers)),
            at_most_step_ns: None,
            cpus_are_the_limit: cpus > making && cpus > self.rest.get(),
        }
    }
}

/// A step that is longer than this one is slower than `step`.
fn slower_than(step: u64) -> u64 {
    step.saturating_add(step / SLOWER)
}

/// Whether more workers than the last of these are predicted to be faster still: there would be too many
/// of them to predict.
pub(crate) fn is_cut_off(counts: &[WorkerCount]) -> bool {
    let most = counts.len() >= MAX_WORKER_COUNTS as usize;
    let [.., before, last] = counts else {
        return false;
    };
    most && last.predicted_step_ns < before.predicted_step_ns
}

/// The least number of workers that is to be advised.
pub(crate) fn enough(counts: &[WorkerCount]) -> Option<&WorkerCount> {
    within(counts, NEAR_ENOUGH)
}

/// The least number of workers with which the step is longer than the shortest one by no more than a share; of
/// those whose step is known, if there are such.
fn within(counts: &[WorkerCount], share: f64) -> Option<&WorkerCount> {
    let least = counts.iter().map(|count| count.predicted_step_ns).min()? as f64;
    let near = |count: &&WorkerCount| count.predicted_step_ns as f64 <= least * (1.0 + share);
    let mut known = counts.iter().filter(|of| of.at_most_step_ns.is_none());
    known.find(near).or_else(|| counts.iter().find(near))
}

#[cfg(test)]
mod tests;
