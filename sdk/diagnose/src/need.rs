//! How many workers a loader needs. The numbers that a remedy names and the table of worker counts
//! come from here, so that they agree.

use crate::cause::Cause;
use crate::disk::{Disk, Made};
use crate::framework::Framework;
use crate::remedy::Facts;
use crate::report::WorkerCount;
use crate::worker_counts::{Costs, NO_SHORTER, Queue, Reached, Reading, enough};
use gpustall_trace::Nanos;

/// Waits for a disk below this share of the time to make a batch say nothing about other numbers of
/// workers.
const MIN_DISK_SHARE: f64 = 0.1;

/// Other workers are advised where the predicted step is at most this share of the one measured.
pub(crate) const MIN_GAIN: f64 = 0.9;

/// Workers nearly keep up that make a batch in no more than the rest of a step and this share of it.
const NEARLY: f64 = 0.1;

/// What batches cost, and whether there are CPUs to make them as fast as they are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// Workers from which on more of them make the step no shorter.
    pub(crate) workers: u64,
    /// What is predicted with them, where the CPUs are known.
    pub(crate) then: Option<WorkerCount>,
    /// Threads that take batches at the same time, each with so many workers.
    takers: usize,
    /// Mean time to make a batch.
    pub(crate) made: Nanos,
    /// How much of it is CPU time, where it was measured.
    pub(crate) cpu: Option<Nanos>,
    /// Mean step without any wait for the loader.
    pub(crate) rest: Nanos,
    /// CPUs that are needed to make batches as fast as all trainers ask for them, beside their own.
    pub(crate) cpus: f64,
    /// Whether the CPUs are not the limit; yes if it is not known how many there are.
    pub(crate) fits: bool,
    /// Whether those workers make the step shorter, whatever is the limit.
    pub(crate) gains: bool,
}

/// What predicted steps take for granted where it is advised to keep the workers.
const WITH_KEPT: &str = "with persistent_workers=True";

impl Facts<'_> {
    /// Workers that would make batches as fast as they are asked for, or as fast as the CPUs allow.
    /// Whether there are CPUs for them is a matter of their CPU time, not of their number: who waits
    /// for I/O needs none.
    pub(crate) fn need(&self) -> Option<Need> {
        let made = self.loader?.production?;
        let cpu = self.loader?.production_cpu;
        let rest = self.rest.filter(|rest| *rest > Nanos::ZERO)?;
        let cpus = cpu.unwrap_or(made).share_of(rest) * self.takers.max(1) as f64;
        let best = enough(&self.counts);
        // In a short epoch each worker makes a batch or two, and no more CPUs than workers compute.
        let most = best.map_or(0, |best| best.workers) * self.takers.max(1) as u64;
        let cpus = match self.short {
            Some(_) => cpus.min(most as f64),
            None => cpus,
        };
        let fits = match best {
            Some(best) => !best.cpus_are_the_limit,
            None => self.cpus == 0 || cpus + self.trainers as f64 <= f64::from(self.cpus),
        };
        let step = best.map(|best| Nanos::new(best.predicted_step_ns));
        let gains = step
            .zip(self.step)
            .is_some_and(|(then, now)| then.share_of(now) <= MIN_GAIN);
        Some(Need {
            workers: best.map_or_else(
                || {
                    let batches = self.loader.and_then(|loader| loader.epoch);
                    let keep_up = made.get().div_ceil(rest.get());
                    keep_up.min(batches.unwrap_or(u64::MAX)).max(1)
                },
                |best| best.workers,
            ),
            then: best.copied(),
            takers: self.takers,
            made,
            cpu,
            rest,
            cpus,
            fits,
            gains,
        })
    }

    /// The predicted step for each number of workers, where what a batch costs is known; and the same if
    /// others kept no CPU busy, where they do.
    pub(crate) fn worker_counts(&self) -> (Vec<WorkerCount>, Vec<WorkerCount>) {
        let startup = self.cause == Cause::DataStartup && self.short.is_some();
        let asked = self.cause.is_batch() || self.cause == Cause::HostPreempted || startup;
        let costs = self.costs().filter(|_| asked);
        costs.map_or_else(Default::default, |costs| {
            (costs.counts(), costs.counts_if_free())
        })
    }

    /// The predicted step for each number of workers that are not kept from one epoch to the next, where it is
    /// advised to keep them.
    pub(crate) fn counts_if_not_kept(&self) -> Vec<WorkerCount> {
        let costs = self.costs_of(false).filter(|_| self.keep);
        costs.map_or_else(Vec::new, |costs| costs.counts())
    }

    /// Batches that each worker of PyTorch's loader may have ahead.
    pub(crate) fn prefetch(&self) -> u64 {
        let told = self.loader.and_then(|loader| loader.prefetch);
        told.unwrap_or(2).clamp(1, 1000)
    }

    /// What batches and steps cost, where that and the number of CPUs is known.
    pub(crate) fn costs(&self) -> Option<Costs<'_>> {
        self.costs_of(self.keep)
    }

    /// The same if the workers are kept from one epoch to the next, or not.
    fn costs_of(&self, kept: bool) -> Option<Costs<'_>> {
        let loader = self.loader?;
        let made = loader.production?;
        let ready = loader.production_ready.unwrap_or_default();
        let unhindered = made - ready;
        let rest = self.rest.filter(|rest| *rest > Nanos::ZERO)?;
        let cpu = loader.production_cpu.unwrap_or(unhindered);
        (self.cpus > 0).then_some(Costs {
            unhindered,
            cpu: cpu.min(unhindered),
            rest,
            trainers: self.trainers as u64,
            takers: self.takers.max(1) as u64,
            cpus: self.cpus,
            taken: self.taken(),
            least: self.got().unwrap_or(1.0),
            batches: loader.epoch.unwrap_or(loader.epoch_batches),
            recorded: &loader.recorded,
            short: self.short,
            turnover: self.turnover.filter(|_| !kept),
            queue: match self.framework {
                Framework::Burn => Queue::Shared(100),
                Framework::PyTorch => Queue::EachWorker(self.prefetch()),
            },
            reading: self.reading(unhindered),
            reached: self.reached(kept),
        })
    }

    /// Whose the CPUs are that the trainers need: `the trainer's`, or of several `those of 2 trainers`.
    pub(crate) fn trainers_own(&self, one: &str) -> String {
        match self.trainers {
            0 | 1 => format!("{one}'s"),
            n => format!("those of {n} trainers"),
        }
    }

    /// What the batches wait for a disk; `None` if they do not.
    fn reading(&self, unhindered: Nanos) -> Option<Reading> {
        let disk = self.disk()?;
        let workers = match self.in_process {
            true => self.takers,
            false => self.crew,
        };
        let read = self.loader?.production_read.min(unhindered);
        let made = Made {
            workers: workers.max(1) as u64,
            read,
            other: unhindered - read,
        };
        Some(Reading {
            disk,
            made,
            step: self.reached,
            in_process: self.in_process,
        })
    }

    /// What is known of the disk, where waits for it are a share of making a batch that matters.
    pub(crate) fn disk(&self) -> Option<Disk> {
        let loader = self.loader?;
        let made = loader.production? - loader.production_ready.unwrap_or_default();
        let matters = loader.production_read.share_of(made) >= MIN_DISK_SHARE;
        loader.disk.filter(|_| matters)
    }

    /// The step that the run did reach, and with how many workers; or that it would have if they had been
    /// `kept`, which they were not.
    fn reached(&self, kept: bool) -> Option<Reached> {
        let workers = match self.in_process {
            true => 0,
            false => Some(self.have).filter(|&have| have > 0)?,
        };
        let step = self.reached?;
        let turnover = self.turnover.filter(|_| kept && self.short.is_some());
        let saved = turnover.map_or(Nanos::ZERO, |turnover| turnover.seen);
        Some(Reached {
            workers,
            step: step - saved,
            least: self.least - saved,
        })
    }

    /// What the numbers of workers take for granted.
    pub(crate) fn assumed(&self) -> String {
        let others = self.assumed_of_others();
        match (self.keep && !self.counts.is_empty(), others.is_empty()) {
            (false, _) => others,
            (true, true) => WITH_KEPT.to_owned(),
            (true, false) => format!("{WITH_KEPT}; {others}"),
        }
    }

    fn assumed_of_others(&self) -> String {
        match self.if_free() {
            Some(free) => format!(
                "{}; on free CPUs {} {} a step {}",
                self.others_keep(),
                free.workers,
                if free.workers == 1 {
                    "worker gives"
                } else {
                    "workers give"
                },
                free.in_words()
            ),
            None => self.assumed_of_disk(),
        }
    }

    fn assumed_of_disk(&self) -> String {
        let disk = self.disk().filter(|_| !self.counts.is_empty());
        disk.map_or(String::new(), |disk| {
            let known = disk.known();
            // Of a limit the words are about fewer.
            let told = |of: &&WorkerCount| known.reach().is_some() || of.workers < self.have;
            let mut told = self.counts.iter().filter(told);
            let open = told.any(|count| count.at_most_step_ns.is_some());
            known.in_words(disk.source, open)
        })
    }
}

impl Need {
    /// Whether so many make batches as fast as each trainer takes them, as far as that is predicted:
    /// `so 4 workers keep up`.
    pub(crate) fn keep_up(&self) -> String {
        let each = self.made.get() as f64 / self.workers.max(1) as f64;
        // Where a disk may be the limit, they take what it gives them.
        let most = self.then.and_then(|then| then.at_most_step_ns);
        let longest = each.max(most.map_or(0.0, |most| most as f64));
        let within = |share: f64| longest <= self.rest.get() as f64 * (1.0 + share);
        let n = self.workers;
        let one = n == 1;
        match self.then {
            _ if within(NO_SHORTER) => match one {
                true => "so 1 worker keeps up".to_owned(),
                false => format!("so {n} workers keep up"),
            },
            Some(then) if !within(NEARLY) => {
                let workers = if one { "worker" } else { "workers" };
                format!(
                    "so with {n} {workers} a step {} is predicted",
                    then.in_words()
                )
            }
            _ => match one {
                true => "so 1 worker nearly keeps up".to_owned(),
                false => format!("so {n} workers nearly keep up"),
            },
        }
    }

    /// The numbers that it follows from.
    pub(crate) fn cost(&self) -> String {
        let cpu = self
            .cpu
            .map_or(String::new(), |cpu| format!(", {cpu} of it on a CPU"));
        let each = match self.takers {
            0 | 1 => String::new(),
            n => format!(", for each of the {n} threads that take batches"),
        };
        format!(
            "a batch takes {} to make{cpu}, the rest of a step {}{each}",
            self.made, self.rest
        )
    }

    /// What so many workers reach where the CPUs are the limit.
    pub(crate) fn limited(&self, facts: &Facts<'_>) -> String {
        let then = self.then.map_or(String::new(), |then| then.in_words());
        let taken = match facts.if_free() {
            Some(_) => format!(", since {}", facts.others_keep()),
            None => String::new(),
        };
        format!("a step {then} is predicted, then the CPUs are the limit{taken}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn need(workers: u64, made: u64, most: Option<u64>) -> Need {
        let then = WorkerCount {
            workers,
            predicted_step_ns: 10 * MS,
            at_most_step_ns: most.map(|most| most * MS),
            cpus_are_the_limit: false,
        };
        Need {
            workers,
            then: Some(then),
            takers: 1,
            made: Nanos::new(made * MS),
            cpu: None,
            rest: Nanos::new(10 * MS),
            cpus: 0.0,
            fits: true,
            gains: true,
        }
    }

    #[test]
    fn workers_keep_up_if_they_do_whatever_the_disk_gives_them() {
        for (need, words) in [
            (need(4, 40, None), "so 4 workers keep up"),
            (need(1, 10, Some(10)), "so 1 worker keeps up"),
            (need(4, 43, None), "so 4 workers nearly keep up"),
            (
                need(4, 40, Some(38)),
                "so with 4 workers a step between 10.0 ms and 38.0 ms is predicted",
            ),
            (
                need(128, 9_000, None),
                "so with 128 workers a step of 10.0 ms is predicted",
            ),
        ] {
            assert_eq!(need.keep_up(), words);
        }
    }
}
