//! What the batches of a recording took to make, one by one: where they are uneven, their mean does not say
//! how long steps are.

use crate::events::Wait;
use crate::framework::Framework;
use crate::maker::Maker;
use gpustall_trace::{Nanos, TraceTime, TrackId};
use std::cmp::Reverse;
use std::sync::Arc;

/// What one batch took to make, nanoseconds, without the time in which its worker had no CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Making {
    /// Time in which its worker needed no CPU.
    pub(crate) blocked: f64,
    /// CPU time.
    pub(crate) cpu: f64,
}

/// Fewer batches than this say nothing of how uneven they are.
const FEWEST: usize = 20;

/// And so it is where more than this share of the batches was not recorded whole.
const MISSING: f64 = 0.1;

/// Batches take alike where the standard deviation is less than this share of the mean: what that costs
/// is less than the prediction is good for.
const ALIKE: f64 = 0.2;

/// Those that were taken, as they are found.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    batches: Vec<(Place, Making)>,
}

/// Where in the order of its data set a batch is, as far as that is known: its epoch, the worker whose
/// share it is of, and when it was asked for.
type Place = (Option<u64>, Option<TrackId>, TraceTime);

impl Making {
    /// Of a batch that took so long, of which the worker was ready and had no CPU for a part, and computed
    /// in another one, where that is known.
    pub(crate) fn of(made: Nanos, ready: Nanos, cpu: Option<Nanos>) -> Self {
        let unhindered = made - ready;
        let cpu = cpu.map_or(unhindered, |cpu| cpu.min(unhindered));
        Self {
            blocked: (unhindered - cpu).get() as f64,
            cpu: cpu.get() as f64,
        }
    }

    fn whole(&self) -> f64 {
        self.blocked + self.cpu
    }
}

impl Recorded {
    /// The batch that this wait was for.
    pub(crate) fn add(&mut self, wait: &Wait, maker: Maker, making: Making) {
        let share = match maker {
            Maker::Worker(track) => Some(track),
            _ => None,
        };
        self.batches
            .push(((wait.epoch, share, wait.span.start), making));
    }

    /// What they took, in the order of the data set and from the beginning of an epoch, if one was seen;
    /// none where all take alike, or where too few of so many batches are known.
    ///
    /// PyTorch's loader hands batches out in that order. Of Burn's each worker has a part of the data set,
    /// of one piece: the parts follow each other.
    pub(crate) fn if_uneven(mut self, framework: Framework, taken: usize) -> Arc<[Making]> {
        let known = self.batches.len();
        let complete = known as f64 >= taken as f64 * (1.0 - MISSING);
        let makings = || self.batches.iter().map(|(_, making)| making.whole());
        if known < FEWEST || !complete || are_alike(makings()) {
            return Arc::default();
        }
        self.batches
            .sort_by_key(|&((epoch, share, asked), _)| match framework {
                Framework::PyTorch => (epoch, None, asked),
                Framework::Burn => (epoch, share, asked),
            });
        // A first epoch of which the beginning is not there comes last.
        let epoch = |at: usize| self.batches.get(at).map(|((epoch, ..), _)| *epoch);
        let in_first = (0..known).take_while(|&at| epoch(at) == epoch(0)).count();
        let in_next = (in_first..known)
            .take_while(|&at| epoch(at) == epoch(in_first))
            .count();
        if in_first < in_next {
            self.batches.rotate_left(in_first);
        }
        self.batches.iter().map(|&(_, making)| making).collect()
    }
}

fn are_alike(makings: impl Iterator<Item = f64> + Clone) -> bool {
    let count = makings.clone().count().max(1) as f64;
    let mean = makings.clone().sum::<f64>() / count;
    let square = makings.map(|making| (making - mean).powi(2)).sum::<f64>() / count;
    square.sqrt() < mean * ALIKE
}

/// What the slow ones of them take: one in twenty takes longer, nanoseconds.
pub(crate) fn slow(recorded: &[Making]) -> u64 {
    let mut all: Vec<u64> = recorded.iter().map(|of| of.whole() as u64).collect();
    all.sort_unstable_by_key(|&making| Reverse(making));
    all.get(all.len() / 20).copied().unwrap_or_default()
}
