//! Which of several recordings of one job gives it its name, its process and its threads' names.

use crate::jobs::ranks;
use gpustall_trace::{Part, Trace, vocab};
use std::cmp::Reverse;

/// What the kernel's recorder calls itself.
const SIDECAR: &str = "gpustall-sidecar";

/// Puts the recording first that is diagnosed: of the lowest rank, that with the most steps, or else the
/// most operations of devices. What only the kernel saw is last: it knows threads by other names. Of what is
/// alike in all that the one that began first, or else the longer one, so that the order in which they are
/// named changes nothing.
pub(crate) fn diagnosed_first(parts: &mut [Part]) {
    parts.sort_by_cached_key(|Part { label, trace }| {
        let rank = ranks(trace).iter().map(|of| of.rank).min();
        (
            rank.unwrap_or(u32::MAX),
            Reverse(steps(trace)),
            Reverse(operations(trace)),
            is_of_kernel(trace),
            trace.meta.start_mono,
            Reverse(trace.meta.end),
            trace.meta.pid,
            trace.meta.recorder.clone(),
            label.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::{MonoTime, Pid, TraceTime};

    /// A recording of the kernel: its name, when it began, its length, and whose.
    fn of_kernel(label: &str, start: u64, end: u64, pid: u32) -> Part {
        let mut trace = Trace::default();
        trace.meta.recorder = SIDECAR.to_owned();
        trace.meta.start_mono = MonoTime::from_nanos(start);
        trace.meta.end = TraceTime::from_nanos(end);
        trace.meta.pid = Pid(pid);
        let label = label.to_owned();
        Part { label, trace }
    }

    #[test]
    fn recordings_of_one_kind_stand_in_one_order_however_they_are_named() {
        let sorted = [
            of_kernel("d", 5, 90, 1),
            of_kernel("c", 7, 90, 2),
            of_kernel("b", 7, 80, 1),
            of_kernel("e", 7, 80, 2),
            of_kernel("f", 7, 80, 2),
        ];
        for first in 0..sorted.len() {
            let mut parts = sorted.to_vec();
            parts.rotate_left(first);
            parts.reverse();
            diagnosed_first(&mut parts);
            let labels: String = parts.iter().map(|part| part.label.as_str()).collect();
            assert_eq!(labels, "dcbef");
        }
    }
}
