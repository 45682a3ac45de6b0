//! How many reads waited at once.

use gpustall_trace::Interval;

/// A read: how long it took, and how many waited meanwhile, itself among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) length: f64,
    pub(super) at_once: f64,
    /// How many waited when it began, itself among them.
    pub(super) on_arrival: f64,
}

/// All reads, and when they were done.
#[derive(Debug, Default)]
pub(super) struct AtOnce {
    /// By their start.
    pub(super) reads: Vec<Seen>,
    /// Times between the ends of two reads, one after the other, in which somebody always waited.
    pub(super) gaps: Vec<f64>,
}

/// When the number of those that wait changed.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at: u64,
    /// Reads times time until then.
    area: f64,
    /// Those that wait from then on.
    waiting: i64,
}

/// What each of these reads saw of the others. Those of no length are left out.
pub(super) fn at_once(spans: &[Interval]) -> AtOnce {
    let mut spans: Vec<Interval> = spans.iter().copied().filter(|of| !of.is_empty()).collect();
    spans.sort_by_key(|span| span.start);
    let starts = spans.iter().map(|span| (span.start.as_nanos(), 1));
    let ends = spans.iter().map(|span| (span.end.as_nanos(), -1));
    let mut changes: Vec<(u64, i64)> = starts.chain(ends).collect();
    changes.sort_unstable();
    let mut gaps = Vec::new();
    let mut edges: Vec<Edge> = Vec::new();
    let (mut area, mut waiting, mut before) = (0.0, 0, 0);
    // The last end, where others went on to wait.
    let mut last_end: Option<u64> = None;
    for (at, change) in changes {
        area += waiting as f64 * (at - before) as f64;
        before = at;
        waiting += change;
        if change < 0 {
            gaps.extend(last_end.map(|last| (at - last) as f64));
            last_end = (waiting > 0).then_some(at);
        }
        match edges.last_mut().filter(|edge| edge.at == at) {
            Some(edge) => edge.waiting = waiting,
            None => edges.push(Edge { at, area, waiting }),
        }
    }
    let until = |at: u64| {
        let after = edges.partition_point(|edge| edge.at <= at);
        let edge = after.checked_sub(1).and_then(|at| edges.get(at));
        edge.map_or(0.0, |edge| {
            edge.area + edge.waiting as f64 * (at - edge.at) as f64
        })
    };
    // Of those that begin together each sees the others.
    let waiting_at = |at: u64| {
        let after = edges.partition_point(|edge| edge.at <= at);
        let edge = after.checked_sub(1).and_then(|at| edges.get(at));
        edge.map_or(0, |edge| edge.waiting)
    };
    let seen = |span: &Interval| {
        let length = span.len().get() as f64;
        let area = until(span.end.as_nanos()) - until(span.start.as_nanos());
        Seen {
            length,
            at_once: (area / length).max(1.0),
            on_arrival: waiting_at(span.start.as_nanos()).max(1) as f64,
        }
    };
    AtOnce {
        reads: spans.iter().map(seen).collect(),
        gaps,
    }
}

impl AtOnce {
    /// Reads that waited at once, on average over the reads.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.reads.iter().map(|read| read.at_once).sum();
        sum / self.reads.len().max(1) as f64
    }

    /// As many as one in twenty of the reads saw, or more.
    pub(super) fn most(&self) -> f64 {
        self.nth(self.reads.len() * 19 / 20)
    }

    /// As many as one in twenty of the reads saw, or fewer.
    pub(super) fn fewest(&self) -> f64 {
        self.nth(self.reads.len() / 20)
    }

    fn nth(&self, at: usize) -> f64 {
        let mut all: Vec<f64> = self.reads.iter().map(|read| read.at_once).collect();
        match at < all.len() {
            true => *all.select_nth_unstable_by(at, f64::total_cmp).1,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::TraceTime;

    fn spans(of: &[(u64, u64)]) -> Vec<Interval> {
        let time = TraceTime::from_nanos;
        of.iter()
            .map(|&(start, end)| Interval::new(time(start), time(end)))
            .collect()
    }

    #[test]
    fn a_read_counts_those_that_wait_meanwhile() {
        let seen = at_once(&spans(&[(0, 10), (5, 15), (30, 40), (20, 20)]));
        let at_once: Vec<f64> = seen.reads.iter().map(|read| read.at_once).collect();
        assert_eq!(at_once, [1.5, 1.5, 1.0]);
        let before: Vec<f64> = seen.reads.iter().map(|read| read.on_arrival).collect();
        assert_eq!(before, [1.0, 2.0, 1.0]);
        // From 10 to 15 somebody waited; from 15 on nobody.
        assert_eq!(seen.gaps, [5.0]);
        assert!(seen.mean() > 1.3 && seen.most() >= 1.5);
    }

    #[test]
    fn who_begins_when_another_is_done_does_not_wait_with_it() {
        let seen = at_once(&spans(&[(0, 10), (10, 20)]));
        assert!(seen.reads.iter().all(|read| read.at_once == 1.0));
    }
}
