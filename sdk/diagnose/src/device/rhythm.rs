//! How closely a device's launches follow each other, and which stretches stand out.

use super::Host;
use super::ops::Device;
use crate::rules::{STANDS_OUT_FACTOR, STANDS_OUT_MAX_NS, STANDS_OUT_MIN_NS};
use crate::stats::Distribution;
use gpustall_trace::{Interval, Nanos};

/// The gaps between the calls that submit work to one device.
#[derive(Debug, Default)]
pub(crate) struct Rhythm {
    /// Gaps that belong to the rhythm.
    pub(crate) gaps: Distribution,
    /// Stretches without a launch that stand out: disjoint, in order.
    outstanding: Vec<Interval>,
}

impl Rhythm {
    /// The rhythm of a device's launches in `window`, the start of which counts as one. What marks or
    /// calls explain does not count as part of a gap.
    pub(crate) fn of(host: &Host<'_>, device: &Device, window: Interval) -> Self {
        let mut calls: Vec<usize> = device.ops.iter().filter_map(|op| op.call).collect();
        calls.sort_unstable();
        calls.dedup();
        let mut gaps: Vec<(Interval, Nanos)> = Vec::with_capacity(calls.len());
        let mut free = window.start;
        for call in calls.iter().filter_map(|&i| host.calls.get(i)) {
            let gap = Interval::new(free, call.span.start.max(free)).intersection(window);
            if !gap.is_empty() {
                gaps.push((gap, host.unexplained(call.track, gap)));
            }
            free = free.max(call.span.end);
        }
        let median = Distribution::of(gaps.iter().map(|&(_, own)| own)).p50_ns;
        let usual = stands_out_from(median);
        let rhythm = Distribution::of(
            gaps.iter()
                .map(|&(_, own)| own)
                .filter(|own| own.get() < usual),
        );
        let limit = stands_out_from(rhythm.p95_ns);
        Self {
            gaps: rhythm,
            outstanding: gaps
                .into_iter()
                .filter(|&(_, own)| own.get() >= limit)
                .map(|(gap, _)| gap)
                .collect(),
        }
    }

    /// The stretches that stand out in `span`: disjoint, in order; each cut to it, and whole.
    pub(crate) fn outstanding(
        &self,
        span: Interval,
    ) -> impl Iterator<Item = (Interval, Interval)> + '_ {
        let first = self
            .outstanding
            .partition_point(|gap| gap.end <= span.start);
        self.outstanding[first..]
            .iter()
            .take_while(move |gap| gap.start < span.end)
            .map(move |&gap| (gap.intersection(span), gap))
    }
}

/// The length in nanoseconds from which a stretch stands out from gaps of this length.
fn stands_out_from(gap: u64) -> u64 {
    gap.saturating_mul(STANDS_OUT_FACTOR)
        .clamp(STANDS_OUT_MIN_NS, STANDS_OUT_MAX_NS)
}
