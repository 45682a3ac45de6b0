//! What it takes to start the workers of PyTorch's loader as an epoch begins, and to end them as it ends: its
//! workers are processes, which are made and waited for one after the other, unless the loader keeps them.
//!
//! So each worker more costs something in each epoch, and makes its batches sooner. Where epochs take seconds,
//! the first may be more than the second.

use crate::events::{Role, Wait};
use crate::framework::Framework;
use crate::loaders::{LoaderFacts, stages_of};
use crate::pytorch::{KEPT, SPAWNED};
use crate::remedy::{Facts, Remedy};
use crate::report::WorkerCount;
use crate::stats::mean;
use crate::timeline::Timeline;
use crate::worker_counts::{NEAR_ENOUGH, enough};
use gpustall_trace::{Interval, Nanos};

/// What that is for one loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turnover {
    /// To start and end one worker.
    pub(crate) each: Nanos,
    /// What it does before its first batch, all of them at once.
    pub(crate) before: Nanos,
    /// All of it in the recording, for each batch.
    pub(crate) seen: Nanos,
    /// Epochs that began in the recording, of each thread that takes batches.
    pub(crate) epochs: u64,
}

/// What a loader that keeps its workers took to start them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) time: Nanos,
    /// Of the loss of a finding.
    pub(crate) share: f64,
}

impl Turnover {
    /// That of a loader in `judged`, of which each thread that takes batches has so many workers. `None` if
    /// it keeps them, or no epoch began.
    pub(crate) fn of(
        timeline: &Timeline<'_>,
        judged: Interval,
        loader: &LoaderFacts,
        (workers, takers): (u64, usize),
    ) -> Option<Self> {
        let pytorch = Framework::of(timeline.trace) == Framework::PyTorch;
        let workers = Some(workers).filter(|&workers| workers > 0)?;
        if !pytorch || loader.keeps_workers || loader.row.in_process != Some(false) {
            return None;
        }
        let waits = |role: Role| {
            let of = move |wait: &&Wait| {
                let whole = !wait.unfinished && !wait.failed && !wait.aside;
                wait.role == role && wait.loader == loader.key && whole
            };
            let waits = timeline.waits.iter().filter(of);
            waits.filter(move |wait| judged.contains(wait.span.start))
        };
        let calls = |role: Role| -> Vec<Nanos> {
            let waits = waits(role);
            let time = waits.map(|wait| {
                let of =
                    |spans: Vec<Interval>| -> Nanos { spans.iter().map(|span| span.len()).sum() };
                let sampled = of(timeline.sampling.during(wait.track, &[wait.span]));
                // Those of a loop before are none of this one's.
                let stopped = match role {
                    Role::EpochEnd => Nanos::ZERO,
                    _ => of(timeline.stopping.during(wait.track, &[wait.span])),
                };
                wait.span.len() - sampled - stopped
            });
            time.collect()
        };
        let starts = calls(Role::EpochStart);
        // One that is made for each epoch has nothing to keep.
        let again = waits(Role::EpochStart).any(|wait| !wait.new_loader);
        let epochs = match again {
            true => (starts.len() / takers.max(1)) as u64,
            false => 1,
        };
        let firsts = waits(Role::Batch).filter(|wait| wait.first);
        let befores: Vec<Nanos> = firsts
            .filter_map(|wait| {
                let begun = stages_of(timeline, wait)
                    .map(|stage| stage.span.start)
                    .min()?;
                Some(begun.since(wait.span.start).min(wait.span.len()))
            })
            .collect();
        // An iterated data set is at its end when each worker has said so: that takes as long as their batches.
        let ends = match loader.iterable {
            true => Vec::new(),
            false => calls(Role::EpochEnd),
        };
        let seen: Nanos = starts.iter().chain(&ends).chain(&befores).copied().sum();
        let both = median(starts)? + median(ends).unwrap_or_default();
        Some(Self {
            each: Nanos::new(both.get() / workers),
            before: median(befores).unwrap_or_default(),
            seen: mean(seen, loader.row.batches.max(1)),
            epochs: epochs.max(1),
        })
    }

    /// `one takes 30.5 ms to start and end, and 300 ms until it begins its first batch`.
    fn in_words(self) -> String {
        let before = match self.before > self.each {
            true => format!(", and {} until it begins its first batch", self.before),
            false => String::new(),
        };
        format!("one takes {} to start and end{before}", self.each)
    }

    /// What so many workers cost for each of so many batches that an epoch has, nanoseconds.
    pub(crate) fn of_a_step(self, workers: u64, batches: u64) -> u64 {
        let workers = self.each.get().saturating_mul(workers);
        workers.saturating_add(self.before.get()) / batches.max(1)
    }
}

/// The first epoch may have to load what the others find.
fn median(mut times: Vec<Nanos>) -> Option<Nanos> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

impl Facts<'_> {
    /// Whether to start and end workers with each epoch of so many batches is so large a part of it, with those
    /// that there are or those that would be enough, that steady steps say too little. These are predicted.
    pub(crate) fn is_of_turnover(&self, steady: &[WorkerCount], batches: u64) -> bool {
        let Some((turnover, then)) = self.turnover.zip(enough(steady)) else {
            return false;
        };
        let workers = then.workers.max(self.have);
        let each = turnover.of_a_step(workers, batches);
        each as f64 > then.predicted_step_ns as f64 * NEAR_ENOUGH
    }

    /// ` and persistent_workers=True`, where that is part of what is advised.
    pub(crate) fn and_kept(&self) -> &'static str {
        match self.keep {
            true => " and persistent_workers=True",
            false => "",
        }
    }

    /// What is to be said of workers that are to be kept, and of so many of them if they were not.
    pub(crate) fn about_kept(&self, workers: u64) -> String {
        let Some(turnover) = self.turnover.filter(|_| self.keep) else {
            return String::new();
        };
        let counts = self.counts_if_not_kept();
        let of = |workers: u64| counts.iter().find(|count| count.workers == workers);
        let without = of(workers).map_or(String::new(), |then| {
            let best = enough(&counts).filter(|best| best.workers < workers);
            let best = best.map_or(String::new(), |best| {
                let n = best.workers;
                format!(", and with {n} {}", Nanos::new(best.predicted_step_ns))
            });
            let then = Nanos::new(then.predicted_step_ns);
            format!(", so that with {workers} that are not kept a step is {then}{best}")
        });
        format!(" {KEPT}: {}{without}.", turnover.in_words())
    }

    /// The remedy that keeps the workers that there are, where that is worth something.
    pub(crate) fn keep_them(&self) -> Option<Remedy> {
        let then = self.counts.iter().find(|of| of.workers == self.have);
        let then = then.filter(|_| self.keep)?;
        let text = format!(
            "{KEPT}, and {}: with the {} that there are a step {} is predicted.",
            self.turnover?.in_words(),
            self.have,
            then.in_words()
        );
        Some(Remedy::with_workers(text, self.have))
    }

    /// What to say where most of the loss is that workers are started which are then kept.
    pub(crate) fn started_once(&self) -> Option<String> {
        let started = self.started.filter(|started| started.share > 0.5)?;
        let fewer = enough(&self.counts).filter(|best| best.workers < self.have);
        let fewer = fewer.map_or(String::new(), |best| {
            format!(
                " Fewer start sooner, and {} are enough: a step {} is predicted with them.",
                best.workers,
                best.in_words()
            )
        });
        Some(format!(
            "the {} workers are started once and kept: that takes {}, however many epochs there are.{fewer} \
             {SPAWNED}",
            self.have, started.time
        ))
    }
}
