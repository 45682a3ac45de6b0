//! What the reader should know about the evidence of a finding.

use crate::threads::StateSums;
use crate::timeline::Timeline;
use gpustall_trace::Nanos;

/// What was lost of the scheduler's events of the threads that a finding is about.
pub(crate) fn caveat(timeline: &Timeline<'_>, states: &StateSums) -> String {
    let lanes = states
        .tids
        .iter()
        .filter_map(|&tid| timeline.kernel.get(tid));
    let totals = lanes.flat_map(|lane| &lane.totals);
    let (lost, ns) = totals.fold((0u64, Nanos::ZERO), |(lost, ns), of| {
        (lost.saturating_add(of.lost), ns + of.lost_ns)
    });
    let others: Vec<String> = timeline
        .trace
        .lost_by_source()
        .into_iter()
        .filter(|&(source, n)| n > 0 && !OF_THE_SDK.contains(&source))
        .map(|(source, n)| format!("{n} from {source}"))
        .collect();
    let mut parts = Vec::new();
    if lost > 0 {
        parts.push(format!(
            "{lost} intervals off CPU of these threads were lost, {ns} together, and count as running"
        ));
    }
    if !states.tids.is_empty() && !others.is_empty() {
        parts.push(format!(
            "events were lost meanwhile ({}): what they would have shown is missing here",
            others.join(", ")
        ));
    }
    parts.join("; ")
}

/// Sources of losses that are not the sidecar's.
const OF_THE_SDK: [&str; 4] = [
    "user spans",
    "data pipeline",
    "threads without a buffer",
    "file that could not be written",
];
