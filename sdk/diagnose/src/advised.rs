//! Which number of workers is advised, whether more or fewer help, and what is to be said of it.

use crate::framework::Framework;
use crate::links::percent;
use crate::need::Need;
use crate::remedy::Facts;
use crate::report::{Worker, WorkerCount};
use crate::worker_counts::{NEAR_ENOUGH, NO_SHORTER, enough, is_cut_off};

/// Where batches were made already for at least this share of the waits for them, the workers keep up.
const MADE_ALREADY: f64 = 0.5;

/// Who runs on at least this share of the CPUs of a job runs on nearly all of them.
const FULL: f64 = 0.9;

impl Facts<'_> {
    /// What is to be said of a number of workers that is advised: why it is no larger, and why it may be
    /// larger than the number of CPUs.
    pub(crate) fn about(&self, workers: u64) -> String {
        let mut about = String::new();
        // Of a range nothing is said.
        let of = |count: &&WorkerCount| count.workers == workers && count.at_most_step_ns.is_none();
        let then = self.counts.iter().find(of).map(|of| of.predicted_step_ns);
        let shortest = self.counts.iter().map(|of| of.predicted_step_ns).min();
        if let Some((then, shortest)) = then.zip(shortest)
            && shortest as f64 <= then as f64 * (1.0 - NO_SHORTER)
            && !is_cut_off(&self.counts)
            && workers != self.have
        {
            about += &format!(
                " More than {workers} are predicted to make a step shorter by no more than {:.0} %.",
                NEAR_ENOUGH * 100.0
            );
        }
        let waits = || {
            let made = self.loader?.production? - self.loader?.production_ready.unwrap_or_default();
            Some(1.0 - self.loader?.production_cpu?.share_of(made).min(1.0))
        };
        let more = self.cpus > 0 && workers > u64::from(self.cpus) && workers != self.have;
        if let Some(waits) = waits().filter(|_| more) {
            about += &format!(
                " {workers} workers are more than {} of this job, and help all the same: a worker \
                 does not compute for {} of the time that a batch takes, and needs no CPU meanwhile.",
                self.the_cpus(),
                percent(waits)
            );
        }
        // PyTorch's workers are processes, and fault their pages in beside each other.
        if self.faults && workers > self.have.max(1) && self.framework == Framework::Burn {
            about += " Threads of one process that fault in pages at once hold each other up: a step with more of \
                them may take longer than is predicted.";
        }
        about += &self.rounds(workers);
        if more && self.framework == Framework::PyTorch {
            about += " PyTorch will warn that it suggests no more workers than CPUs.";
        }
        about
    }

    /// More workers than there are, where they are predicted to make a step shorter, and what they reach.
    /// The prediction counts more than that workers wait for a CPU: they may share the CPUs otherwise.
    pub(crate) fn more_gain(&self) -> Option<(Need, WorkerCount)> {
        let need = self.need().filter(|need| need.gains)?;
        let then = need.then?;
        (need.workers > self.have).then_some((need, then))
    }

    /// `do not help`, or `help little: with 3 a step of 9.50 ms is predicted`, of more workers, where they do
    /// not gain enough to be advised.
    pub(crate) fn little_help(&self) -> String {
        let best = enough(&self.counts).filter(|best| best.workers > self.have);
        best.map_or_else(
            || "do not help".to_owned(),
            |best| {
                format!(
                    "help little: with {} a step {} is predicted",
                    best.workers,
                    best.in_words()
                )
            },
        )
    }

    /// Whether most of the loss is that batches which are made are handed over.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over >= MADE_ALREADY
    }

    /// What to change where more workers than there are help nothing; `None` if they may help.
    pub(crate) fn no_more(&self, cheaper: &str) -> Option<String> {
        let no_cpu = match self.crowded {
            true => " There is no CPU for more of them.",
            false => "",
        };
        if self.is_handed_over() {
            let pickled = match self.framework {
                Framework::PyTorch => {
                    " NumPy arrays, lists and the like are pickled on the way: make tensors of them \
                     in the worker."
                }
                Framework::Burn => "",
            };
            return Some(format!(
                "more workers do not help: for {} of this time the batch was made already, and to hand \
                 it over took so long. Fewer, larger batches, of fewer tensors, have less of it.{pickled}\
                 {no_cpu}",
                percent(self.handed_over)
            ));
        }
        let batches = self.loader.and_then(|loader| loader.epoch);
        if let Some(batches) = batches.filter(|&batches| self.have >= batches) {
            return Some(format!(
                "{cheaper}. More workers have nothing to do: an epoch has {batches} batches.{no_cpu}"
            ));
        }
        if self.crowded {
            let help = self.little_help();
            return Some(format!("{cheaper}. More workers {help}.{no_cpu}"));
        }
        let of = |count: &&WorkerCount| count.workers == self.have;
        let now = self.counts.iter().find(of)?;
        let more = self.counts.iter().filter(|of| of.workers > self.have);
        let least = more.map(|of| of.predicted_step_ns).min();
        let gain = now.predicted_step_ns as f64 * (1.0 - NO_SHORTER);
        least
            .is_none_or(|least| least as f64 > gain)
            .then(|| format!("{cheaper}. More workers are not predicted to make a step shorter."))
    }

    /// Whether fewer workers than there are are predicted to be slower.
    pub(crate) fn fewer_are_slower(&self) -> bool {
        let best = enough(&self.counts).map(|best| best.workers);
        self.have > 0 && best.is_some_and(|best| best >= self.have)
    }

    /// Whether the workers and the trainers run on nearly all CPUs of the job themselves.
    pub(crate) fn fills_the_cpus(&self) -> bool {
        let worker = |of: &&Worker| Some(of.busy_share * of.cpu_share?);
        let workers: f64 = self.workers.iter().filter_map(worker).sum();
        let step = self.rest.zip(self.step);
        let trainer = step.map_or(0.0, |(rest, step)| rest.share_of(step).min(1.0));
        let own = workers + trainer * self.trainers as f64;
        self.cpus > 0 && own >= f64::from(self.cpus) * FULL
    }

    /// Fewer workers that are as fast as those there are: by the predicted steps, or where there are
    /// none, by what leaves each trainer a CPU.
    pub(crate) fn fitting(&self) -> Option<u64> {
        if let Some(best) = enough(&self.counts) {
            return Some(best.workers);
        }
        let known = self.workers.iter().filter_map(|worker| {
            let busy = worker.busy_share;
            let cpu = busy * worker.cpu_share?;
            Some((cpu, cpu + busy * worker.blocked_share?))
        });
        let (cpu, unhindered) = known.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let room = f64::from(self.cpus) - self.trainers as f64;
        let each = room / self.takers.max(1) as f64;
        (self.cpus > 0 && cpu > 0.0).then(|| (each * unhindered / cpu).floor().max(1.0) as u64)
    }
}
