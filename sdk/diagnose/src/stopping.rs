//! When a thread that takes batches stops the workers of a loop that is over.
//!
//! PyTorch does so in the `next()` that ends an epoch, or as the iterator of a loop that was left is dropped: where
//! an exception left it, that may be as late as in the `iter()` of another loop.

use crate::remedy::Facts;
use crate::timeline::Timeline;
use crate::window::during;
use gpustall_trace::vocab::STOP_WORKERS;
use gpustall_trace::{Interval, TrackId};
use std::collections::HashMap;

/// The stretches in which threads stopped workers.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    /// Disjoint, in order.
    by_track: HashMap<TrackId, Vec<Interval>>,
}

impl Stopping {
    /// Looks through the slices once.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        let trace = timeline.trace;
        let known = trace.strings.find(STOP_WORKERS);
        let mut stopping = Self::default();
        let Some((cat, name)) = timeline.names.cat.python_function.zip(known) else {
            return stopping;
        };
        let slices = trace.slices.iter();
        for slice in slices.filter(|slice| slice.cat == cat && slice.name == name) {
            let spans = stopping.by_track.entry(slice.track).or_default();
            let span = timeline.clip(slice.span);
            match spans.last_mut() {
                // Of a class from which the iterator's derives.
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
        stopping
    }

    /// When the thread stopped workers in these parts: disjoint, in order, cut to them.
    pub(crate) fn during(&self, track: TrackId, parts: &[Interval]) -> Vec<Interval> {
        let spans = self.by_track.get(&track).map_or(&[][..], Vec::as_slice);
        let inside = |part: &Interval| during(spans, *part);
        parts.iter().flat_map(inside).collect()
    }
}

/// What to change where a loop's first batch is late because the workers of another loop are stopped before it.
const DROP: &str = "the iterator of a loop that an exception left is dropped only when Python's garbage collector \
    finds it, in the middle of something else, and its workers are stopped then: PyTorch asks each to end and waits \
    up to 5 s for it. persistent_workers=True goes on with the workers that are there. Else have the iterator \
    dropped where the exception is caught: set its __traceback__ to None, which holds the frames of the loop.";

impl Facts<'_> {
    /// What to change, if most of the loss is that workers of an earlier loop are stopped.
    pub(crate) fn of_stopping(&self) -> Option<&'static str> {
        (self.stopping > 0.5).then_some(DROP)
    }
}
