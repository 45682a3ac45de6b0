//! Whether readers hold each other up: by the time of reads, and how many waited meanwhile.

use super::at_once::{AtOnce, Seen};
use super::pace::{Pace, SetBy};

/// Fewer reads than this say nothing,
pub const MIN_READS: usize = 50;

/// nor do reads that all saw about as many others: the standard deviation of how many waited at once
/// is at least this share of their mean.
pub const MIN_SPREAD: f64 = 0.05;

/// Reads of a disk that serves one at a time, or that is kept to a rate, are done one after the other,
/// hardly ever two within this share of the mean time between two,
pub const REGULAR_GAP: f64 = 0.2;

/// which is in less than this share of the cases.
pub const REGULAR_SHARE: f64 = 0.02;

/// Two readers may take turns by chance, until one of them makes a batch of what it read: only so many
/// batches tell.
pub const MIN_BATCHES: u64 = 40;

/// A disk that serves one at a time may still choose the nearest: the share of a read's time that is
/// not in proportion to the readers is at most this.
pub const ONE_AT_A_TIME_GAIN: f64 = 0.4;

/// Gaps between reads of which the standard deviation is below this share of the mean are a rate that
/// somebody sets.
const SET_RATE_SPREAD: f64 = 0.1;

/// Beside two standard errors, the slope may be off by this: not everything is a straight line.
const SLACK: f64 = 0.1;

/// Two bounds of the share of a read's time that is in proportion to the readers that wait at once: 0
/// where they do not hold each other up, 1 where the disk gives all of them together no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowing {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Slowing {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        least: 0.0,
        most: 1.0,
    };

    /// The disk gives no more.
    pub(super) const LIMIT: Self = Self {
        least: 1.0,
        most: 1.0,
    };

    /// What these reads say, of so many batches.
    pub(super) fn of(seen: &AtOnce, pace: &Pace, batches: u64) -> Self {
        if seen.reads.len() < MIN_READS {
            return Self::UNKNOWN;
        }
        let meanwhile = line(&seen.reads, |read| read.at_once);
        let set_by = pace.set_by(mean_of(&seen.gaps));
        let may_be_limit = set_by == SetBy::Source
            || meanwhile.is_none_or(|line| line.most >= 1.0 - ONE_AT_A_TIME_GAIN / 2.0);
        let order = Self::of_order(seen, pace, batches);
        if may_be_limit && order != Self::UNKNOWN {
            return order;
        }
        // Of a disk that serves in the order of arrival, a read takes as long as there were readers when it
        // came, whoever comes meanwhile; of one that serves all at once a bit, as there are meanwhile.
        let before = line(&seen.reads, |read| read.on_arrival);
        let (Some(meanwhile), Some(before)) = (meanwhile, before) else {
            return Self::UNKNOWN;
        };
        Self {
            least: meanwhile.least,
            most: match set_by {
                SetBy::Source => 1.0,
                SetBy::Reader | SetBy::Unknown => meanwhile.most.max(before.most),
            },
        }
    }

    /// What the order says in which reads end, and who sets their pace: whether they are served one at a time.
    pub(super) fn of_order(seen: &AtOnce, pace: &Pace, batches: u64) -> Self {
        let order = one_at_a_time(&seen.gaps, pace, batches);
        order.map_or(Self::UNKNOWN, |least| Self { least, most: 1.0 })
    }

    /// The limit, if it is nearly reached.
    pub(super) fn or_limit(self, nearly: f64) -> Self {
        match self.least >= nearly {
            true => Self::LIMIT,
            false => self,
        }
    }
}

/// From the straight line through how long reads took over how many there were, `at_once`: its slope at the
/// mean, as a share of the time there. `None` where all saw about as many.
fn line(reads: &[Seen], at_once: impl Fn(&Seen) -> f64) -> Option<Slowing> {
    let count = reads.len() as f64;
    let mean = reads.iter().map(&at_once).sum::<f64>() / count;
    let length = reads.iter().map(|read| read.length).sum::<f64>() / count;
    let (mut xx, mut xy) = (0.0, 0.0);
    for read in reads {
        xx += (at_once(read) - mean).powi(2);
        xy += (at_once(read) - mean) * (read.length - length);
    }
    if (xx / count).sqrt() < MIN_SPREAD * mean {
        return None;
    }
    let slope = xy / xx;
    let off = |read: &Seen| (read.length - length - slope * (at_once(read) - mean)).powi(2);
    let error = (reads.iter().map(off).sum::<f64>() / (count - 2.0) / xx).sqrt();
    let share = mean / length;
    let off = 2.0 * error * share + SLACK;
    Some(Slowing {
        least: (slope * share - off).clamp(0.0, 1.0),
        most: (slope * share + off).clamp(0.0, 1.0),
    })
}

/// The least slowing of a disk that serves one at a time, or that is kept to a rate, if it is one.
fn one_at_a_time(gaps: &[f64], pace: &Pace, batches: u64) -> Option<f64> {
    let count = gaps.len() as f64;
    let mean = mean_of(gaps);
    let short = gaps.iter().filter(|gap| **gap < REGULAR_GAP * mean).count() as f64;
    // Readers may take turns without holding each other up, for a while.
    let no_chance = match pace.set_by(mean) {
        SetBy::Source => true,
        SetBy::Reader => false,
        SetBy::Unknown => batches >= MIN_BATCHES && pace.mixes(mean),
    };
    let regular = gaps.len() >= 2 * MIN_READS && short < REGULAR_SHARE * count;
    if !regular || !no_chance {
        return None;
    }
    let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
    match (squares / count).sqrt() < SET_RATE_SPREAD * mean {
        true => Some(1.0 - SET_RATE_SPREAD / 2.0),
        false => Some(1.0 - ONE_AT_A_TIME_GAIN),
    }
}

fn mean_of(gaps: &[f64]) -> f64 {
    gaps.iter().sum::<f64>() / gaps.len().max(1) as f64
}
