//! The threads that had one id, one after the other.

use super::Lane;
use super::read::{Off, Request, Sample, Totals};
use gpustall_trace::{Interval, TraceTime, TrackId};

/// One of them.
pub(crate) struct Turn<'a> {
    lane: &'a Lane,
    /// The track on which its totals stand, where others had the id too.
    pub(crate) track: Option<TrackId>,
    /// From its first event to that of the next one.
    pub(crate) span: Interval,
    pub(crate) totals: Vec<&'a Totals>,
}

impl Lane {
    /// Those that had this id in a recording that ends at `end`; at least one. Totals on one track are
    /// of one thread.
    pub(crate) fn turns(&self, end: TraceTime) -> Vec<Turn<'_>> {
        let mut totals: Vec<&Totals> = self.totals.iter().collect();
        totals.sort_by_key(|of| (of.watched.start, of.watched.end));
        let mut turns: Vec<Turn<'_>> = Vec::new();
        for of in totals {
            match turns.last_mut() {
                Some(last) if last.track == Some(of.track) => last.totals.push(of),
                _ => turns.push(Turn {
                    lane: self,
                    track: Some(of.track),
                    span: Interval::new(of.watched.start, end),
                    totals: vec![of],
                }),
            }
        }
        if turns.len() < 2 {
            let whole = Interval::new(TraceTime::ZERO, end);
            let totals = self.totals.iter().collect();
            return vec![Turn {
                lane: self,
                track: None,
                span: whole,
                totals,
            }];
        }
        for i in 1..turns.len() {
            turns[i - 1].span.end = turns[i].span.start;
        }
        turns[0].span.start = TraceTime::ZERO;
        turns
    }
}

impl<'a> Turn<'a> {
    /// Its intervals off CPU.
    pub(crate) fn off(&self) -> &'a [Off] {
        self.part(&self.lane.off, |off| off.span.start)
    }

    /// Its samples.
    pub(crate) fn samples(&self) -> &'a [Sample] {
        self.part(&self.lane.samples, |sample| sample.at)
    }

    /// The requests that were done while it had the id.
    pub(crate) fn requests(&self) -> &'a [Request] {
        self.part(&self.lane.requests, |request| request.span.end)
    }

    fn part<T>(&self, of: &'a [T], at: impl Fn(&T) -> TraceTime) -> &'a [T] {
        if self.track.is_none() {
            return of;
        }
        let first = of.partition_point(|one| at(one) < self.span.start);
        let end = of.partition_point(|one| at(one) < self.span.end);
        of.get(first..end).unwrap_or_default()
    }
}
