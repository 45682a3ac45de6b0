//! The reads of a loader's workers: when they waited for a disk, and for which requests.

use super::Source;
use super::pace::{Pace, mean_length, without_short};
use crate::rules::ThreadState;
use crate::threads::Lane;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Symbol, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// Where no request was in flight for at least this share of the waits, although there are requests,
/// what holds the reads back is before the disk: a limit on the I/O of the control group, say.
pub const HELD_BACK_SHARE: f64 = 0.5;

/// A reader that has at least so many requests in flight on average, while it waits, has the kernel
/// read ahead: then the requests tell what the disk does with several at once, else the waits.
pub const READ_AHEAD_REQUESTS: f64 = 1.2;

/// Fewer requests than this say nothing.
const MIN_REQUESTS: usize = 50;

/// What a read is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// A wait of a thread.
    Waits,
    /// A request, of which a thread that waits has so many in flight.
    Requests(f64),
}

/// The reads of some threads.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// When a thread waited for a file, or for a peer.
    pub(super) waits: Vec<Interval>,
    /// What the pauses between those of each thread say.
    pub(super) pace: Pace,
    /// When a request of one of them was in flight, on the disk that had the most.
    pub(super) requests: Vec<Interval>,
    /// How long they waited, and how much of that while a request of the thread was in flight.
    waited: Nanos,
    in_flight: Nanos,
    /// Whether all requests are known.
    complete: bool,
}

impl Reads {
    /// What the kernel saw of the stages of `tracks`, as far as they began in `judged`.
    pub(super) fn of(
        source: Source,
        timeline: &Timeline<'_>,
        judged: Interval,
        tracks: &BTreeSet<TrackId>,
    ) -> Option<Self> {
        let mut reads = Self {
            complete: timeline.trace.losses.is_empty(),
            ..Self::default()
        };
        let mut by_disk: BTreeMap<Option<Symbol>, Vec<Interval>> = BTreeMap::new();
        let mut threads: Vec<Vec<Interval>> = Vec::new();
        for (track, stages) in timeline.stages.lanes() {
            let Some(lane) = timeline.lane(track).filter(|_| tracks.contains(&track)) else {
                continue;
            };
            let stages = stages.iter().filter(|of| judged.contains(of.span.start));
            let first = reads.waits.len();
            for stage in stages {
                reads.wait(source, lane, stage.span);
            }
            let own = reads.waits.get(first..).unwrap_or_default();
            threads.push(own.to_vec());
            if source == Source::Peer {
                continue;
            }
            reads.in_flight += in_flight(lane, own);
            for request in lane.requests.iter().filter(|of| of.reads) {
                if judged.contains(request.span.start) && overlaps(own, request.span) {
                    by_disk.entry(request.disk).or_default().push(request.span);
                }
            }
        }
        reads.pace = Pace::of(&threads);
        if source == Source::Peer {
            reads.waits = without_short(&reads.waits, mean_length(&reads.waits));
        }
        reads.waited = reads.waits.iter().map(|wait| wait.len()).sum();
        let total = |of: &Vec<Interval>| of.iter().map(|span| span.len()).sum::<Nanos>();
        let busiest = by_disk.into_values().max_by_key(total);
        reads.requests = busiest.unwrap_or_default();
        (!reads.waits.is_empty()).then_some(reads)
    }

    fn wait(&mut self, source: Source, lane: &Lane, stage: Interval) {
        let mut last: Option<Interval> = None;
        for stretch in lane.during(stage) {
            if stretch.state != ThreadState::Blocked(source.blocks_as()) {
                continue;
            }
            match &mut last {
                Some(last) if last.end == stretch.span.start => last.end = stretch.span.end,
                _ => self.waits.extend(last.replace(stretch.span)),
            }
        }
        self.waits.extend(last);
    }

    /// Whether the reads wait for something before the disk.
    pub(super) fn held_back(&self) -> bool {
        let alone = 1.0 - self.in_flight.share_of(self.waited);
        self.complete && self.requests.len() >= MIN_REQUESTS && alone >= HELD_BACK_SHARE
    }

    /// What tells more about the disk.
    pub(super) fn unit(&self) -> Unit {
        let requests: Nanos = self.requests.iter().map(|of| of.len()).sum();
        let each = requests.share_of(self.waited);
        match self.requests.len() >= MIN_REQUESTS && each >= READ_AHEAD_REQUESTS {
            true => Unit::Requests(each),
            false => Unit::Waits,
        }
    }
}

/// How much of `waits`, which are in their order, requests of the thread were in flight in.
fn in_flight(lane: &Lane, waits: &[Interval]) -> Nanos {
    let mut requests: Vec<Interval> = lane.requests.iter().map(|of| of.span).collect();
    requests.sort_by_key(|span| span.start);
    let (mut sum, mut at) = (Nanos::ZERO, 0);
    let mut merged: Vec<Interval> = Vec::new();
    for span in requests {
        match merged.last_mut().filter(|last| last.end >= span.start) {
            Some(last) => last.end = last.end.max(span.end),
            None => merged.push(span),
        }
    }
    for wait in waits {
        while merged.get(at).is_some_and(|of| of.end <= wait.start) {
            at += 1;
        }
        let during = merged.get(at..).unwrap_or_default().iter();
        let during = during.take_while(|of| of.start < wait.end);
        sum += during.map(|of| of.intersection(*wait).len()).sum();
    }
    sum
}

/// Whether one of `waits`, which are in their order, overlaps `span`.
fn overlaps(waits: &[Interval], span: Interval) -> bool {
    let first = waits.partition_point(|wait| wait.end <= span.start);
    waits.get(first).is_some_and(|wait| wait.start < span.end)
}
