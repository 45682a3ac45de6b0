//! Which of several recordings of one job gives it its name, its process and its threads' names.

use crate::jobs::ranks;
use gpustall_trace::{Part, Trace, vocab};
use std::cmp::Reverse;

/// What the kernel's recorder calls itself.
const SIDECAR: &str = "gpustall-sidecar";

/// Puts the recording first that is diagnosed: of the lowest rank, that with the most steps, or else the
/// most operations of devices. What only the kernel saw is last: it knows threads by other names. What is
/// alike in all that stays in its order.
pub(crate) fn diagnosed_first(parts: &mut [Part]) {
    parts.sort_by_cached_key(|Part { trace, .. }| {
        let rank = ranks(trace).iter().map(|of| of.rank).min();
        (
            rank.unwrap_or(u32::MAX),
            Reverse(steps(trace)),
            Reverse(operations(trace)),
            is_of_kernel(trace),
        )
    });
}

/// Whether only the kernel was seen.
pub(crate) fn is_of_kernel(trace: &Trace) -> bool {
    trace.meta.recorder.starts_with(SIDECAR)
}

/// Steps in a trace.
pub(crate) fn steps(trace: &Trace) -> usize {
    count(trace, &[vocab::cat::STEP])
}

/// Operations of devices in a trace.
pub(crate) fn operations(trace: &Trace) -> usize {
    use vocab::cat::{GPU_MEMCPY, GPU_MEMSET, KERNEL};
    count(trace, &[KERNEL, GPU_MEMCPY, GPU_MEMSET])
}

/// Slices of these categories.
fn count(trace: &Trace, cats: &[&str]) -> usize {
    let cats: Vec<_> = (cats.iter())
        .filter_map(|cat| trace.strings.find(cat))
        .collect();
    let slices = trace.slices.iter();
    slices.filter(|slice| cats.contains(&slice.cat)).count()
}
