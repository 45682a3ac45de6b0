//! Numbers about a device that prove a finding.

use super::Host;
use super::ops::{Device, Op, OpKind};
use super::rhythm::Rhythm;
use crate::stats::Distribution;
use gpustall_trace::Interval;
use std::collections::BTreeMap;

/// A copy of at least so many bytes shows what a link reaches.
const TELLING_BYTES: u64 = 1 << 20;

/// Numbers about one device.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceFacts {
    /// Gaps between launches.
    pub(crate) gaps: Distribution,
    /// Kernels in the window.
    pub(crate) kernels: Distribution,
    /// The best GB/s of any copy that is telling, by whether it touched pageable memory.
    pub(crate) best: BTreeMap<bool, f64>,
}

impl DeviceFacts {
    /// Those of a device in `window`.
    pub(crate) fn of(_host: &Host<'_>, device: &Device, rhythm: &Rhythm, window: Interval) -> Self {
        let mut best: BTreeMap<bool, f64> = BTreeMap::new();
        for op in &device.ops {
            if let (OpKind::Copy { pageable, .. }, Some(rate)) = (op.kind, gb_s(op))
                && is_host_copy(op)
                && op.bytes >= TELLING_BYTES
            {
                let best = best.entry(pageable).or_default();
                *best = best.max(rate);
            }
        }
        let kernels = device.ops.iter().filter(|op| op.kind == OpKind::Kernel);
        let inside = kernels.map(|op| op.span.intersection(window).len());
        Self {
            gaps: rhythm.gaps,
            kernels: Distribution::of(inside.filter(|length| length.get() > 0)),
            best,
        }
    }
}

fn is_host_copy(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::Copy {
            on_device: false,
            ..
        }
    )
}

/// Gigabytes (10^9 bytes) per second of an operation that says its bytes.
pub(crate) fn gb_s(op: &Op) -> Option<f64> {
    let ns = op.span.len().get();
    (op.bytes > 0 && ns > 0).then(|| op.bytes as f64 / ns as f64)
}
