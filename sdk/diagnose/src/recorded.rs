//! What the batches of a recording took to make, one by one: where they are uneven, their mean does not say
//! how long steps are.

use crate::events::Wait;
use crate::framework::Framework;
use crate::maker::Maker;
use crate::timeline::Timeline;
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
/// part it is of, and when it was asked for.
type Place = (Option<u64>, Option<Part>, TraceTime);

/// The number of a worker, as its name says it, and its thread.
type Part = (u64, TrackId);

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
    pub(crate) fn add(
        &mut self,
        timeline: &Timeline<'_>,
        wait: &Wait,
        maker: Maker,
        making: Making,
    ) {
        let part = match maker {
            Maker::Worker(track) => {
                let trace = timeline.trace;
                let name = trace.track(track).map(|track| trace.text(track.name));
                Some((number(name.unwrap_or_default()), track))
            }
            _ => None,
        };
        let place = (wait.epoch, part, wait.span.start);
        self.batches.push((place, making));
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
            .sort_by_key(|&((epoch, part, asked), _)| match framework {
                Framework::PyTorch => (epoch, None, asked),
                Framework::Burn => (epoch, part, asked),
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

/// That of `dataloader-3`; workers without one come last.
fn number(worker: &str) -> u64 {
    let number = worker.rsplit('-').next();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or(u64::MAX)
}

fn are_alike(makings: impl Iterator<Item = f64> + Clone) -> bool {
    let count = makings.clone().count().max(1) as f64;
    let mean = makings.clone().sum::<f64>() / count;
    let square = makings.map(|making| (making - mean).powi(2)).sum::<f64>() / count;
    square.sqrt() < mean * ALIKE
}

/// Some batches are much slower than most where one in twenty, or more, takes this many times as long as the
/// one in the middle.
const UNEVEN: u64 = 3;

/// Whether it is worth having more of them ready.
pub(crate) fn is_uneven(times: &mut [Nanos]) -> bool {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100);
    let (middle, slow) = (at(50), at(95));
    times.len() >= 20
        && middle
            .zip(slow)
            .is_some_and(|(middle, slow)| slow.get() >= middle.get().saturating_mul(UNEVEN))
}

/// What the slow ones of them take: one in twenty takes longer, nanoseconds.
pub(crate) fn slow(recorded: &[Making]) -> u64 {
    let mut all: Vec<u64> = recorded.iter().map(|of| of.whole() as u64).collect();
    all.sort_unstable_by_key(|&making| Reverse(making));
    all.get(all.len() / 20).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = 1_000_000;

    /// Batches of an epoch and a worker, of which the n-th takes so many milliseconds.
    fn batch(epoch: u64, worker: u32, asked: u64, ms: u64) -> (Place, Making) {
        let made = Nanos::new(ms * 1_000_000);
        let making = Making::of(made, Nanos::ZERO, None);
        let name = format!("dataloader-{worker}");
        let asked = TraceTime::from_nanos(FIRST * epoch + asked);
        (
            (
                Some(epoch),
                Some((number(&name), TrackId(9 - worker))),
                asked,
            ),
            making,
        )
    }

    fn uneven(batches: Vec<(Place, Making)>, framework: Framework) -> Vec<u64> {
        let taken = batches.len();
        let all = Recorded { batches }.if_uneven(framework, taken);
        all.iter().map(|of| of.whole() as u64 / 1_000_000).collect()
    }

    #[test]
    fn a_worker_without_a_cpu_makes_nothing() {
        let ns = Nanos::new;
        let making = Making::of(ns(10), ns(3), Some(ns(2)));
        assert_eq!((making.blocked, making.cpu), (5.0, 2.0));
        let making = Making::of(ns(10), ns(3), None);
        assert_eq!((making.blocked, making.cpu), (0.0, 7.0));
    }

    #[test]
    fn those_that_take_alike_or_are_few_are_none() {
        let of = |count: u64, slow: u64| {
            let batch = |i| batch(0, 0, i, if i % 10 == 9 { slow } else { 10 });
            uneven((0..count).map(batch).collect(), Framework::PyTorch).len()
        };
        assert_eq!(of(100, 10), 0);
        assert_eq!(of(100, 14), 0);
        assert_eq!(of(100, 40), 100);
        assert_eq!(of(19, 40), 0);
        let batches = (0..100).map(|i| batch(0, 0, i, 1 + i)).collect();
        let recorded = Recorded { batches };
        assert_eq!(recorded.if_uneven(Framework::PyTorch, 112).len(), 0);
    }

    #[test]
    fn they_are_in_the_order_of_the_data_set_from_the_beginning_of_an_epoch() {
        // Of an epoch the last three, and then a whole one, which two workers make by turns.
        let ms = |i: u64| if i < 10 { 1 } else { 100 + i };
        let mut batches: Vec<_> = (17..20).map(|i| batch(0, 0, i, i)).collect();
        batches.extend((0..20).map(|i| batch(1, i as u32 % 2, i, ms(i))));
        let found = uneven(batches.clone(), Framework::PyTorch);
        let mut expected: Vec<u64> = (0..20).map(ms).chain(17..20).collect();
        assert_eq!(found, expected);
        let found = uneven(batches, Framework::Burn);
        // The part of the one before that of the other.
        expected = (0..20).step_by(2).map(ms).collect();
        expected.extend((1..20).step_by(2).map(ms).chain(17..20));
        assert_eq!(found, expected);
    }

    #[test]
    fn one_in_twenty_is_slower_than_the_slow_ones() {
        let of = |slow: u64| -> Vec<Making> {
            let ms = (0..100).map(|i| if i < slow { 9_000_000 } else { 1_000_000 });
            ms.map(|ns| Making::of(Nanos::new(ns), Nanos::ZERO, None))
                .collect()
        };
        assert_eq!(slow(&of(6)), 9_000_000);
        assert_eq!(slow(&of(5)), 1_000_000);
        assert_eq!(slow(&[]), 0);
    }
}
