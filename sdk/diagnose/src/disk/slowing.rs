//! Whether readers hold each other up: by the time of reads, and how many waited meanwhile.

use super::at_once::{AtOnce, Seen};

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
    /// Whether it is so with any number of readers, and not as far as was seen.
    any_number: bool,
}

impl Slowing {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        least: 0.0,
        most: 1.0,
        any_number: false,
    };

    /// The disk gives no more.
    pub(super) const LIMIT: Self = Self {
        least: 1.0,
        most: 1.0,
        any_number: true,
    };

    /// What these reads say, of so many batches.
    pub(super) fn of(seen: &AtOnce, batches: u64) -> Self {
        if seen.reads.len() < MIN_READS {
            return Self::UNKNOWN;
        }
        let mean = seen.mean();
        let line = spread_enough(&seen.reads, mean).then(|| line(&seen.reads, mean));
        let may_be_limit = line.is_none_or(|line| line.most >= 1.0 - ONE_AT_A_TIME_GAIN / 2.0);
        if let Some(least) = one_at_a_time(&seen.gaps, batches).filter(|_| may_be_limit) {
            return Self {
                least,
                most: 1.0,
                any_number: true,
            };
        }
        line.unwrap_or(Self::UNKNOWN)
    }

    /// The limit, if it is nearly reached.
    pub(super) fn or_limit(self, nearly: f64) -> Self {
        match self.least >= nearly {
            true => Self {
                any_number: self.any_number,
                ..Self::LIMIT
            },
            false => self,
        }
    }

    /// Whether a reader alone is held up as those are that were seen: the disk serves one at a time, or somebody
    /// keeps it to a rate.
    pub(super) fn is_of_any_number(self) -> bool {
        self.any_number
    }
}

fn spread_enough(reads: &[Seen], mean: f64) -> bool {
    let squares = reads.iter().map(|read| (read.at_once - mean).powi(2));
    let spread = (squares.sum::<f64>() / reads.len().max(1) as f64).sqrt();
    spread >= MIN_SPREAD * mean
}

/// From the straight line through how long reads took over how many waited meanwhile: its slope at the
/// mean, as a share of the time there.
fn line(reads: &[Seen], mean: f64) -> Slowing {
    let count = reads.len() as f64;
    let length = reads.iter().map(|read| read.length).sum::<f64>() / count;
    let (mut xx, mut xy) = (0.0, 0.0);
    for read in reads {
        xx += (read.at_once - mean).powi(2);
        xy += (read.at_once - mean) * (read.length - length);
    }
    let slope = xy / xx;
    let off = |read: &Seen| (read.length - length - slope * (read.at_once - mean)).powi(2);
    let error = (reads.iter().map(off).sum::<f64>() / (count - 2.0) / xx).sqrt();
    let share = mean / length;
    let off = 2.0 * error * share + SLACK;
    Slowing {
        least: (slope * share - off).clamp(0.0, 1.0),
        most: (slope * share + off).clamp(0.0, 1.0),
        any_number: false,
    }
}

/// The least slowing of a disk that serves one at a time, or that is kept to a rate, if it is one.
fn one_at_a_time(gaps: &[f64], batches: u64) -> Option<f64> {
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count.max(1.0);
    let short = gaps.iter().filter(|gap| **gap < REGULAR_GAP * mean).count() as f64;
    let regular = gaps.len() >= 2 * MIN_READS && batches >= MIN_BATCHES;
    if !regular || short >= REGULAR_SHARE * count {
        return None;
    }
    let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
    match (squares / count).sqrt() < SET_RATE_SPREAD * mean {
        true => Some(1.0 - SET_RATE_SPREAD / 2.0),
        false => Some(1.0 - ONE_AT_A_TIME_GAIN),
    }
}
