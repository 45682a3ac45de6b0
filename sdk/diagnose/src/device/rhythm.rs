//! How closely a device's launches follow each other, and which stretches stand out.

use super::Host;
use super::ops::Device;
use crate::rules::{STANDS_OUT_FACTOR, STANDS_OUT_MIN_NS};
use crate::stats::Distribution;
use gpustall_trace::{Interval, Nanos, TraceTime};

/// The gaps between the calls that submit work to one device.
#[derive(Debug, Default)]
pub(crate) struct Rhythm {
    /// Gaps that belong to the rhythm.
    pub(crate) gaps: Distribution,
    /// Stretches without a launch that stand out: disjoint, in order.
    outstanding: Vec<Interval>,
}

impl Rhythm {
    /// The rhythm of a device's launches in `window`. What marks or calls explain does not count
    /// as part of a gap.
    pub(crate) fn of(host: &Host<'_>, device: &Device, window: Interval) -> Self {
        let mut calls: Vec<usize> = device.ops.iter().filter_map(|op| op.call).collect();
        calls.sort_unstable();
        calls.dedup();
        let mut gaps: Vec<(Interval, Nanos)> = Vec::with_capacity(calls.len());
        let mut free: Option<TraceTime> = None;
        for call in calls.iter().filter_map(|&i| host.calls.get(i)) {
            if let Some(start) = free {
                let gap = Interval::new(start, call.span.start.max(start)).intersection(window);
                if !gap.is_empty() {
                    gaps.push((gap, host.unexplained(call.track, gap)));
                }
            }
            free = Some(free.map_or(call.span.end, |free| free.max(call.span.end)));
        }
        let median = Distribution::of(gaps.iter().map(|&(_, own)| own)).p50_ns;
        let usual = STANDS_OUT_MIN_NS.max(median.saturating_mul(STANDS_OUT_FACTOR));
        let rhythm = Distribution::of(
            gaps.iter()
                .map(|&(_, own)| own)
                .filter(|own| own.get() < usual),
        );
        let limit = STANDS_OUT_MIN_NS.max(rhythm.p95_ns.saturating_mul(STANDS_OUT_FACTOR));
        Self {
            gaps: rhythm,
            outstanding: gaps
                .into_iter()
                .filter(|&(_, own)| own.get() >= limit)
                .map(|(gap, _)| gap)
                .collect(),
        }
    }

    /// The stretches that stand out in `span`: disjoint, in order, cut to it.
    pub(crate) fn outstanding(&self, span: Interval) -> impl Iterator<Item = Interval> + '_ {
        let first = self
            .outstanding
            .partition_point(|gap| gap.end <= span.start);
        self.outstanding[first..]
            .iter()
            .take_while(move |gap| gap.start < span.end)
            .map(move |gap| gap.intersection(span))
    }
}
