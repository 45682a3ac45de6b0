//! Taking out what a diagnosis drew: it is drawn anew on the merged trace.

use crate::{Trace, TrackId, TrackKind, vocab};
use std::collections::HashSet;

/// Removes findings, their arrows and the report. Returns the tracks that had nothing else.
pub(super) fn findings(trace: &mut Trace) -> HashSet<TrackId> {
    trace.report = None;
    let Some(finding) = trace.strings.find(vocab::cat::FINDING) else {
        return HashSet::new();
    };
    let found = trace.slices.iter().filter(|slice| slice.cat == finding);
    let mut emptied: HashSet<TrackId> = found.map(|slice| slice.track).collect();
    trace.slices.retain(|slice| slice.cat != finding);
    trace.flows.retain(|flow| flow.cat != finding);
    let used = (trace.slices.iter().map(|slice| slice.track))
        .chain(trace.instants.iter().map(|instant| instant.track))
        .chain(
            trace
                .flows
                .iter()
                .flat_map(|flow| [flow.from.track, flow.to.track]),
        );
    for track in used {
        emptied.remove(&track);
    }
    emptied.retain(|id| {
        let track = trace.track(*id);
        track.is_some_and(|track| track.kind == TrackKind::Synthetic)
    });
    emptied
}
