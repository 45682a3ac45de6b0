//! How fast workers and a trainer are together: played through, batch by batch.
//!
//! Workers run ahead of the trainer until the queue is full. While they do, they compete with it
//! for the CPUs, and whoever computes gets an equal share of them. An epoch shorter than the queue
//! is over before that ends, so the average cost of a batch and of a step do not say how long it
//! takes. Nor do they where batches are uneven: a slow one holds up those behind it, and workers that
//! are far ahead wait for room.

use crate::recorded::Making;
use epoch::{Epoch, Played};

mod epoch;

/// What takes part, all times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pipeline<'a> {
    /// Batches of one epoch.
    pub(crate) batches: u64,
    /// Mean time of a batch in which its worker needs no CPU; comes first.
    pub(crate) blocked: f64,
    /// Mean CPU time of a batch.
    pub(crate) cpu: f64,
    /// CPU time of the rest of a step.
    pub(crate) rest: f64,
    /// CPUs for all of them.
    pub(crate) cpus: f64,
    /// Batches that may wait for the trainer.
    pub(crate) queue: u64,
    /// What batches took one after the other, of which the means above are the measure; empty where all
    /// take alike.
    pub(crate) recorded: &'a [Making],
    /// Who makes which of these.
    pub(crate) order: Order,
}

/// Who makes which batch, and in which order they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whoever is free makes the next one, and they are taken as they come: so it is of all loaders where
    /// batches take alike.
    Free,
    /// Of n workers each makes every n-th one, and they are taken in that order: PyTorch's loader.
    Turns,
    /// Of n workers each has a part of the epoch of one piece, and they are taken as they come: Burn's
    /// loader.
    Parts,
}

/// Batches of an epoch that are played through where all take alike; a longer one goes on as it ended.
const MOST_BATCHES: u64 = 400;

/// Batches that are played through where they are uneven.
const MOST_UNEVEN: usize = 1000;

/// Pieces of a longer recording that are played then.
const PIECES: usize = 10;

impl Pipeline<'_> {
    /// The mean step of an epoch with so many workers, nanoseconds, without the wait for its first
    /// batch.
    pub(crate) fn step(&self, workers: usize) -> f64 {
        self.play(workers).0
    }

    /// The same with that wait.
    pub(crate) fn step_with_first(&self, workers: usize) -> f64 {
        let (step, first) = self.play(workers);
        step + first / self.batches.max(1) as f64
    }

    /// The mean step after the wait for the first batch, and that wait.
    fn play(&self, workers: usize) -> (f64, f64) {
        if !self.recorded.is_empty() {
            return self.play_uneven(workers);
        }
        let batches = self.batches.clamp(1, MOST_BATCHES);
        let alike = Making {
            blocked: self.blocked,
            cpu: self.cpu,
        };
        let all = vec![alike; batches as usize];
        let played = Epoch::new(self, &all, Order::Free, workers).play();
        let step = match self.batches > MOST_BATCHES {
            // What is after the first half goes on like that.
            true => (played.end - played.half) / (batches - batches / 2) as f64,
            false => (played.end - played.first) / batches as f64,
        };
        (step, played.first)
    }

    /// The same, of the epochs that were recorded.
    fn play_uneven(&self, workers: usize) -> (f64, f64) {
        let (all, each) = self.epochs();
        let (mut steps, mut firsts, mut epochs) = (0.0, 0.0, 0.0);
        for batches in all.chunks(each) {
            let Played { first, end, .. } = Epoch::new(self, batches, self.order, workers).play();
            steps += end - first;
            firsts += first;
            epochs += 1.0;
        }
        (steps / all.len() as f64, firsts / f64::max(epochs, 1.0))
    }

    /// The batches of the recorded epochs, as far as they are played, and how many each of them has: one
    /// that was not recorded to its end goes on as it began, and of a very long one there are pieces from
    /// its beginning to its end. On average they cost what batches do.
    fn epochs(&self) -> (Vec<Making>, usize) {
        let known = self.recorded.len();
        let epoch = usize::try_from(self.batches).unwrap_or(usize::MAX).max(1);
        let (all, each): (Vec<Making>, usize) = if epoch <= MOST_UNEVEN {
            let epochs = (known / epoch).clamp(1, MOST_UNEVEN / epoch);
            let all = self.recorded.iter().cycle().take(epochs * epoch);
            (all.copied().collect(), epoch)
        } else if known <= MOST_UNEVEN {
            let all = self.recorded.repeat(MOST_UNEVEN / known);
            let each = all.len();
            (all, each)
        } else {
            let piece = MOST_UNEVEN / PIECES;
            let begins = (0..PIECES).map(|i| (known - piece) * i / (PIECES - 1));
            let all = begins.flat_map(|at| self.recorded.iter().skip(at).take(piece));
            (all.copied().collect(), MOST_UNEVEN)
        };
        let blocked = scale(&all, self.blocked, |making| making.blocked);
        let cpu = scale(&all, self.cpu, |making| making.cpu);
        let scaled = all.iter().map(|making| Making {
            blocked: blocked(making.blocked),
            cpu: cpu(making.cpu),
        });
        (scaled.collect(), each)
    }
}

/// What makes of such times ones whose mean is this.
fn scale(all: &[Making], mean: f64, time: impl Fn(&Making) -> f64) -> impl Fn(f64) -> f64 {
    let now = all.iter().map(time).sum::<f64>() / all.len().max(1) as f64;
    move |time| match now > 0.0 {
        true => time * (mean / now),
        false => mean,
    }
}

#[cfg(test)]
mod tests;
