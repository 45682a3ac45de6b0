//! What a disk gives to more readers at once than there were, as far as a recording shows it; and so whoever is
//! at the other end of a connection.
//!
//! A recording shows how long each read took and how many others waited for one meanwhile
//! ([`at_once`]). From that follows whether readers hold each other up ([`slowing`]), and from that
//! how fast the disk is with so many of them ([`rate`]). Beyond what it was asked for at once, only
//! two bounds are known: it goes on as it did, or it gives no more. How often workers wait at once
//! is a matter of what else they do ([`closed`]).

mod at_once;
mod closed;
mod known;
mod pace;
mod rate;
mod reads;
mod slowing;
mod source;

pub(crate) use known::Known;
pub use pace::{PACE_OF_SOURCE, SHORT_WAIT};
pub use reads::{HELD_BACK_SHARE, READ_AHEAD_REQUESTS};
pub use slowing::{
    MIN_BATCHES, MIN_READS, MIN_SPREAD, ONE_AT_A_TIME_GAIN, REGULAR_GAP, REGULAR_SHARE,
};
pub(crate) use source::Source;

use crate::timeline::Timeline;
use at_once::{AtOnce, at_once};
use gpustall_trace::{Interval, Nanos, TrackId};
use pace::Pace;
use rate::Rate;
use reads::{Reads, Unit};
use slowing::Slowing;
use std::collections::BTreeSet;

/// Where at least so much of a read's time is in proportion to the readers, the disk is at its limit.
const LIMIT: f64 = 0.75;

/// Where it is at most so much, readers do not hold each other up.
const SCALES: f64 = 0.25;

/// Whoever serves all together that came meanwhile serves two by turns, as if it were one at a time: fewer at
/// once than this, on average, do not show how a peer serves several.
const QUEUE: f64 = 2.5;

/// What the reads of a loader's workers say about the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disk {
    /// Readers that waited at once, on average over the reads.
    readers: f64,
    /// The fewest that waited at once often enough to say what it gave them; 0 where it gives all that it has
    /// to any number.
    fewest: f64,
    /// The most.
    most: f64,
    slowing: Slowing,
    /// Whether reads wait before they reach the disk.
    held_back: bool,
    pub(crate) source: Source,
}

/// What a batch took to make, and with how many workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) workers: u64,
    /// The wait for the disk.
    pub(crate) read: Nanos,
    /// All else, without the wait for a CPU.
    pub(crate) other: Nanos,
}

impl Disk {
    /// What the reads in the stages of `tracks` say, in the `judged` time, in which so many batches
    /// were made. `None` where no thread waited for it.
    pub(crate) fn of(
        source: Source,
        timeline: &Timeline<'_>,
        judged: Interval,
        tracks: &BTreeSet<TrackId>,
        batches: u64,
    ) -> Option<Self> {
        let reads = Reads::of(source, timeline, judged, tracks)?;
        let held_back = reads.held_back();
        let (spans, of_reader, pace) = match reads.unit() {
            Unit::Waits => (reads.waits, 1.0, reads.pace),
            Unit::Requests(of_reader) => (reads.requests, of_reader, Pace::default()),
        };
        let seen = at_once(&spans);
        let slowing = match (held_back, source) {
            (true, _) => Slowing::LIMIT,
            (_, Source::Disk) => Slowing::of(&seen, &pace, batches),
            (_, Source::Peer) if seen.mean() >= QUEUE => Slowing::of_order(&seen, &pace, batches),
            (_, Source::Peer) => Slowing::UNKNOWN,
        };
        Some(Self::of_reads(
            source,
            &seen,
            of_reader,
            slowing.or_limit(LIMIT),
            held_back,
        ))
    }

    /// One of which so many readers at once were seen, and between which shares of a read's time goes with them.
    #[cfg(test)]
    pub(crate) fn seen(readers: f64, (least, most): (f64, f64)) -> Self {
        Self {
            readers,
            fewest: readers,
            most: readers,
            slowing: Slowing { least, most }.or_limit(LIMIT),
            held_back: false,
            source: Source::Disk,
        }
    }

    /// From the reads themselves, of which one reader has so many at once.
    fn of_reads(
        source: Source,
        seen: &AtOnce,
        of_reader: f64,
        slowing: Slowing,
        held_back: bool,
    ) -> Self {
        Self {
            readers: seen.mean() / of_reader,
            fewest: match held_back {
                true => 0.0,
                false => seen.fewest() / of_reader,
            },
            most: seen.most() / of_reader,
            slowing,
            held_back,
            source,
        }
    }

    /// What it says of more readers.
    pub(crate) fn known(&self) -> Known {
        let most = self.most.round().max(1.0) as u64;
        match self.slowing {
            _ if self.held_back => Known::HeldBack,
            Slowing { least, .. } if least >= LIMIT => Known::AtLimit,
            Slowing::UNKNOWN if most > 1 => Known::Open,
            Slowing { most: high, .. } if high <= SCALES && most > 1 => Known::Scales(most),
            _ => Known::UpTo(most),
        }
    }

    /// The shortest and the longest time that a batch waits for the disk, where so many workers make
    /// batches, of which `was` says what they took. With more workers than there were, the longest is
    /// that of a disk that gives all of them together no more than it gave.
    pub(crate) fn read_with(&self, workers: u64, was: &Made) -> (Nanos, Nanos) {
        if workers == was.workers || was.read == Nanos::ZERO {
            return (was.read, was.read);
        }
        let [read, other] = [was.read, was.other].map(|of| of.get() as f64);
        let (now, then) = (was.workers as f64, workers as f64);
        let per_batch = |slows: f64, fewest: f64| {
            let rate = Rate {
                readers: self.readers,
                given: self.readers / read,
                slows,
                fewest,
                most: self.most.max(self.readers),
            };
            then / closed::batches(&rate, then, other) - other
        };
        let as_now = then / now * (read + other) - other;
        let goes_on = per_batch(self.slowing.least, 0.0);
        let (least, longest) = match workers > was.workers {
            // A limit on what reaches the disk takes its time, whatever else a worker does.
            _ if self.held_back => (as_now, as_now),
            true => (goes_on.min(as_now), as_now),
            false => {
                let held_up = per_batch(self.slowing.most, 0.0);
                // Fewer than ever read at once may be as slow each as those were.
                let as_slow = per_batch(self.slowing.least, self.fewest.min(self.readers));
                let longest = goes_on.max(held_up).max(as_slow);
                (goes_on.min(held_up), longest)
            }
        };
        let time = |ns: f64| Nanos::new(ns.max(0.0) as u64);
        (time(least), time(longest))
    }
}

#[cfg(test)]
mod tests;
