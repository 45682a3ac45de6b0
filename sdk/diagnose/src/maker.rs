//! Who made the batch that a wait was for.

use crate::events::{Role, Wait};
use crate::stages::Stage;
use crate::timeline::Timeline;
use gpustall_trace::TrackId;

/// Who made the batch that a wait was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The waiting thread itself, inside `next()`.
    InProcess,
    /// A worker with a track.
    Worker(TrackId),
    /// The batch never came; this worker still had one open for the longest.
    Open(TrackId, usize),
    /// A worker, but nobody knows which.
    Elsewhere,
    /// Nobody knows.
    Unknown,
}

/// Who made the batch of `wait`.
pub(crate) fn maker(timeline: &Timeline<'_>, wait: &Wait) -> Maker {
    let stages = &timeline.stages;
    let own = wait.batch.map_or(&[][..], |batch| stages.of_batch(batch));
    let mut known = own.iter().filter_map(|&stage| stages.get(stage));
    let nested = |s: &Stage| s.track == wait.track && !s.span.intersection(wait.span).is_empty();
    if own
        .iter()
        .filter_map(|&stage| stages.get(stage))
        .any(nested)
    {
        return Maker::InProcess;
    }
    if let Some(stage) = known.find(|stage| stage.track != wait.track) {
        return Maker::Worker(stage.track);
    }
    if let Some(track) = wait.worker.and_then(|tid| timeline.thread(tid)) {
        return if track == wait.track {
            Maker::InProcess
        } else {
            Maker::Worker(track)
        };
    }
    if stages.during(wait.track, wait.span).next().is_some() {
        return Maker::InProcess;
    }
    if wait.unfinished && wait.role == Role::Batch {
        return open_batch(timeline, wait).unwrap_or(Maker::Unknown);
    }
    match wait.in_process {
        Some(true) => Maker::InProcess,
        Some(false) => Maker::Elsewhere,
        None => Maker::Unknown,
    }
}

/// The stage of this loader's workers that was open for the longest when the recording ended.
fn open_batch(timeline: &Timeline<'_>, wait: &Wait) -> Option<Maker> {
    let open = timeline.stages.open().filter(|&(_, stage)| {
        let serves = timeline.serves.get(&stage.track);
        stage.track != wait.track && serves.is_none_or(|&(loader, _)| loader == wait.loader)
    });
    let (at, stage) = open.min_by_key(|(_, stage)| stage.span.start)?;
    Some(Maker::Open(stage.track, at))
}
