//! The predicted step for each number of workers.

use crate::disk::{Disk, Made};
use crate::pipeline::Pipeline;
use crate::report::WorkerCount;
use gpustall_trace::Nanos;

/// No more numbers of workers than this are predicted.
pub const MAX_WORKER_COUNTS: u32 = 128;

/// What batches and steps cost, on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
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
    /// Batches of one epoch, and how many may wait for the trainer.
    pub(crate) batches: u64,
    pub(crate) queue: Queue,
    /// What batches wait for a disk.
    pub(crate) reading: Option<Reading>,
    /// What was measured, where it is known.
    pub(crate) reached: Option<Reached>,
}

/// The step that a run did reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// Of each thread that takes batches; none where it makes them itself.
    pub(crate) workers: u64,
    /// Mean steady step.
    pub(crate) step: Nanos,
}

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

/// Where the longest step is longer than the shortest by no more than this share of the step as it is,
const ONE_NUMBER: f64 = 0.08;

/// and by no more than this share of itself, one number is predicted.
const ONE_NUMBER_OF_ITSELF: f64 = 0.15;

/// Others that keep less than this of a CPU busy do not compete for the CPUs.
const NOBODY: f64 = 0.1;

/// More workers are slower where their step is longer by more than one in so many.
const SLOWER: u64 = 20;

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
}

impl Costs {
    /// The predicted step for 1 to twice as many workers as CPUs, or to as many as keep up if they did
    /// not compute, for each that takes batches: the longest of the rest of the step, of what so many
    /// workers need for a batch, and of what the CPUs need for all; for one trainer, an epoch played
    /// through.
    pub(crate) fn counts(&self) -> Vec<WorkerCount> {
        let keep_up = self.unhindered.get().div_ceil(self.rest.get().max(1));
        let most = u64::from(self.cpus.saturating_mul(2)).div_ceil(self.takers.max(1));
        let have = self.reached.map_or(0, |reached| reached.workers);
        let most = most.max(keep_up).max(have);
        let counts = 1..=most.min(u64::from(MAX_WORKER_COUNTS));
        let Some(reading) = &self.reading else {
            let modelled = self.count(have, self.unhindered).predicted_step_ns;
            return counts
                .map(|workers| self.count(workers, self.unhindered))
                .map(|count| self.as_reached(count, modelled))
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
        let count = |count: WorkerCount| WorkerCount {
            predicted_step_ns: count.predicted_step_ns + left_out,
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
    fn as_reached(&self, count: WorkerCount, modelled: u64) -> WorkerCount {
        let Some(reached) = self.reached else {
            return count;
        };
        if reached.workers == 0 {
            return self.no_longer_than_reached(count);
        }
        let left_out = reached.step.get().saturating_sub(modelled);
        let step = count.predicted_step_ns + left_out;
        // Fewer share the CPUs as well as those did, but each makes a batch no faster. Against others
        // fewer get a smaller share.
        let making = self.unhindered.get() / count.workers.max(1);
        let faster = match self.taken < NOBODY {
            true => reached.step.share_of(Nanos::new(modelled)).min(1.0),
            false => 1.0,
        };
        let fewer = (step as f64 * faster) as u64;
        let fewer = fewer.max(making).max(self.rest.get()).min(step);
        let slower = count.predicted_step_ns > modelled + modelled / SLOWER;
        let step = match count.workers {
            workers if workers == reached.workers => reached.step.get(),
            workers if workers < reached.workers => fewer,
            _ if !slower => step.min(reached.step.get()),
            _ => step,
        };
        WorkerCount {
            predicted_step_ns: step,
            ..count
        }
    }

    /// At least as many workers as there were reach at least the step that these did.
    fn no_longer_than_reached(&self, count: WorkerCount) -> WorkerCount {
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

    /// The same, where the disk may be the limit; `now` is with the workers that there were.
    fn with_disk(&self, reading: &Reading, workers: u64, now: WorkerCount) -> WorkerCount {
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
            at_least = as_it_is(at_least);
            at_most = as_it_is(self.count(workers, other + most).predicted_step_ns);
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

    /// So many workers, of which each takes that long for a batch.
    fn count(&self, workers: u64, unhindered: Nanos) -> WorkerCount {
        let trainers = self.trainers.max(1);
        let making = unhindered.get() / workers.max(1);
        let free = (f64::from(self.cpus) - self.taken).max(1.0);
        let batches = self.cpu.get() as f64 * self.takers.max(1) as f64;
        let work = batches + self.rest.get() as f64 * trainers as f64;
        let cpus = (work / free) as u64;
        let mut step = self.rest.get().max(making).max(cpus);
        if trainers == 1 {
            let pipeline = Pipeline {
                batches: self.batches,
                blocked: (unhindered - self.cpu).get() as f64,
                cpu: self.cpu.get() as f64,
                rest: self.rest.get() as f64,
                cpus: free,
                queue: self.queue.of(workers),
            };
            step = step.max(pipeline.step(workers as usize) as u64);
        }
        WorkerCount {
            workers,
            predicted_step_ns: step,
            at_most_step_ns: None,
            cpus_are_the_limit: cpus > making && cpus > self.rest.get(),
        }
    }
}

/// More workers than this one make the step shorter by less than this share of it.
pub(crate) const NO_SHORTER: f64 = 0.02;

/// A number of workers is advised with which the step is longer than with any other one by no more than
/// this share of it.
pub(crate) const NEAR_ENOUGH: f64 = 0.05;

/// The least number of workers that is to be advised.
pub(crate) fn enough(counts: &[WorkerCount]) -> Option<&WorkerCount> {
    within(counts, NEAR_ENOUGH)
}

/// The least number of workers with which the step is longer than the shortest one by no more than a share.
fn within(counts: &[WorkerCount], share: f64) -> Option<&WorkerCount> {
    let least = counts.iter().map(|count| count.predicted_step_ns).min()? as f64;
    let mut counts = counts.iter();
    counts.find(|count| count.predicted_step_ns as f64 <= least * (1.0 + share))
}

impl WorkerCount {
    /// `of 10.0 ms`, or `between 10.0 ms and 20.0 ms`: what a step takes then.
    pub(crate) fn in_words(&self) -> String {
        let least = Nanos::new(self.predicted_step_ns);
        match self.at_most_step_ns {
            Some(most) => format!("between {least} and {}", Nanos::new(most)),
            None => format!("of {least}"),
        }
    }
}

/// The counts at which the prediction changes, in words: `1: 40.2 ms, 2: 20.1 ms, 4 and more: 10.0
/// ms`; or, where more of them are worse again, `4: 10.0 ms; more take the trainer's CPU, 8: 12.0 ms`.
pub(crate) fn in_words(counts: &[WorkerCount]) -> String {
    const SHOWN: usize = 5;
    let enough = within(counts, NO_SHORTER);
    let enough = enough.map_or(0, |count| count.workers.saturating_sub(1) as usize);
    let mut shown: Vec<usize> = match enough {
        0..SHOWN => (0..enough).collect(),
        _ => [0, 1, 3, 7, 15, 31, 63]
            .into_iter()
            .filter(|&at| at < enough)
            .collect(),
    };
    shown.truncate(SHOWN);
    let time = |at: usize| {
        let Some(count) = counts.get(at) else {
            return String::new();
        };
        let least = Nanos::new(count.predicted_step_ns);
        match count.at_most_step_ns {
            Some(most) => format!("{least} to {}", Nanos::new(most)),
            None => least.to_string(),
        }
    };
    let mut words: Vec<String> = shown
        .iter()
        .map(|&at| format!("{}: {}", at + 1, time(at)))
        .collect();
    let last = counts.len().saturating_sub(1);
    let slower = |than: usize| {
        let of = |at: usize| counts.get(at).map_or(0, |count| count.predicted_step_ns);
        of(last) > of(than) + of(than) / SLOWER
    };
    if slower(enough) {
        words.push(format!("{}: {}", enough + 1, time(enough)));
        let more = format!(
            "; more take the trainer's CPU, {}: {}",
            last + 1,
            time(last)
        );
        return words.join(", ") + &more;
    }
    let open = counts
        .last()
        .is_some_and(|last| last.at_most_step_ns.is_some());
    let more = if open { "" } else { " and more" };
    words.push(format!("{}{more}: {}", enough + 1, time(enough)));
    if counts
        .get(enough)
        .is_some_and(|count| count.cpus_are_the_limit)
    {
        words.push("then the CPUs are the limit".to_owned());
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn costs(unhindered: u64, cpu: u64, cpus: u32) -> Costs {
        Costs {
            unhindered: Nanos::new(unhindered * MS),
            cpu: Nanos::new(cpu * MS),
            rest: Nanos::new(10 * MS),
            trainers: 1,
            takers: 1,
            cpus,
            taken: 0.0,
            batches: 10_000,
            queue: Queue::Shared(100),
            reading: None,
            reached: None,
        }
    }

    fn steps(costs: Costs) -> Vec<u64> {
        let counts = costs.counts();
        counts
            .iter()
            .map(|count| count.predicted_step_ns / MS)
            .collect()
    }

    #[test]
    fn workers_that_sleep_scale_until_the_rest_of_the_step_is_the_limit() {
        assert_eq!(steps(costs(40, 0, 4)), [40, 20, 13, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn workers_that_compute_scale_until_the_cpus_are_the_limit() {
        assert_eq!(steps(costs(40, 40, 2)), [40, 25, 25, 25]);
        let words = in_words(&costs(40, 40, 2).counts());
        assert_eq!(
            words,
            "1: 40.0 ms, 2 and more: 25.0 ms, then the CPUs are the limit"
        );
    }

    #[test]
    fn each_of_several_trainers_has_workers_of_its_own_and_they_share_the_cpus() {
        let of = |trainers: u64, takers: u64| Costs {
            trainers,
            takers,
            ..costs(40, 40, 8)
        };
        assert_eq!(steps(of(1, 1))[3], 10);
        // Twice 50 ms of work on eight CPUs.
        assert_eq!(steps(of(2, 2))[3], 12);
        assert_eq!(steps(of(2, 1))[3], 10);
    }

    /// What is predicted of it, where so many workers did reach a step of so many milliseconds.
    fn reached(workers: u64, step: u64, of: Costs) -> Vec<u64> {
        let step = Nanos::new(step * MS);
        steps(Costs {
            reached: Some(Reached { workers, step }),
            ..of
        })
    }

    #[test]
    fn with_the_workers_that_there_were_the_step_is_the_measured_one() {
        let contended = costs(40, 40, 2);
        assert_eq!(steps(contended), [40, 25, 25, 25]);
        // Faster than predicted, and more of them are no slower.
        assert_eq!(reached(2, 20, contended), [40, 20, 20, 20]);
        assert_eq!(reached(1, 30, contended), [30, 25, 25, 25]);
        // Slower: what is not known to go away stays.
        assert_eq!(reached(2, 28, contended), [43, 28, 28, 28]);
        // Who made batches in the step itself did not need more CPUs than there are.
        assert_eq!(reached(0, 22, contended), [22, 22, 22, 22]);
        // Fewer than those that were faster than predicted are so as well, as long as they keep up.
        assert_eq!(reached(4, 20, contended), [40, 20, 20, 20]);
        // Of three CPUs others keep one busy.
        let against = Costs {
            taken: 1.0,
            ..costs(40, 40, 3)
        };
        assert_eq!(reached(4, 20, against)[..4], [40, 25, 25, 20]);
        // More than are predicted otherwise.
        assert_eq!(reached(6, 26, contended), [41, 26, 26, 26, 26, 26]);
    }

    #[test]
    fn cpus_that_others_keep_busy_do_not_count() {
        let taken = Costs {
            taken: 2.0,
            ..costs(40, 40, 4)
        };
        assert_eq!(steps(taken)[7], 25);
        let free = |of: Costs| -> Vec<u64> {
            let counts = of.counts_if_free().into_iter();
            counts.map(|count| count.predicted_step_ns / MS).collect()
        };
        assert_eq!(free(taken)[..4], steps(costs(40, 40, 4))[..4]);
        // 5 ms that are not explained with three workers stay.
        let step = Nanos::new(30 * MS);
        let reached = Some(Reached { workers: 3, step });
        assert_eq!(free(Costs { reached, ..taken })[..4], [45, 25, 18, 17]);
        assert!(free(costs(40, 40, 4)).is_empty());
    }

    #[test]
    fn the_least_number_of_workers_within_a_twentieth_of_the_best_is_advised() {
        let sleeps = costs(100, 0, 2);
        assert_eq!(steps(sleeps)[7..], [12, 11, 10]);
        assert_eq!(enough(&sleeps.counts()).map(|of| of.workers), Some(10));
        let costs = Costs {
            rest: Nanos::new(12 * MS),
            ..sleeps
        };
        assert_eq!(steps(costs)[6..], [14, 12, 12]);
        assert_eq!(enough(&costs.counts()).map(|of| of.workers), Some(8));
        // The table goes on to where it stays.
        assert!(in_words(&costs.counts()).contains("9 and more: 12.0 ms"));
    }
}
