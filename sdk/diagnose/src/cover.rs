//! Time that something covers, and what of a stretch lies in it.

use crate::partition::without;
use gpustall_trace::Interval;

/// Covered time: disjoint, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover(Vec<Interval>);

impl Cover {
    /// Of what is disjoint and in order already.
    pub(crate) fn new(covered: Vec<Interval>) -> Self {
        Self(covered)
    }

    /// What of `whole` (disjoint, in order) `spans` (any order, may overlap) cover.
    pub(crate) fn of(whole: &[Interval], spans: &[Interval]) -> Self {
        match spans.is_empty() {
            true => Self(Vec::new()),
            false => Self(without(whole, &without(whole, spans))),
        }
    }

    /// What of `whole` (disjoint, in order) `spans` leave uncovered.
    pub(crate) fn beside(whole: &[Interval], spans: &[Interval]) -> Self {
        Self(without(whole, spans))
    }

    /// The covered time: disjoint, in order.
    pub(crate) fn covered(self) -> Vec<Interval> {
        self.0
    }

    /// Cuts `span` where the cover begins and ends, and says of each part whether it is covered.
    pub(crate) fn cut(&self, span: Interval, mut each: impl FnMut(Interval, bool)) {
        let first = self.0.partition_point(|of| of.end <= span.start);
        let mut at = span.start;
        for cover in self.0[first..].iter().take_while(|of| of.start < span.end) {
            let inside = cover.intersection(span);
            if at < inside.start {
                each(Interval::new(at, inside.start), false);
            }
            each(inside, true);
            at = inside.end;
        }
        if at < span.end {
            each(Interval::new(at, span.end), false);
        }
    }
}
