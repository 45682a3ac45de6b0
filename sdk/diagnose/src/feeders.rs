//! A thread that takes the batches of a loader and hands them on to the thread that trains.

use crate::events::{Kind, Role, Wait};
use crate::links::{group, percent};
use crate::timeline::Timeline;
use crate::window::{Trainer, Window, during, total};
use gpustall_trace::{Nanos, TrackId};
use std::collections::{BTreeMap, HashSet};

/// The thread that hands batches on.
#[derive(Debug, Clone)]
pub(crate) struct HandedOn {
    pub(crate) thread: String,
    loader: String,
    /// Those that train.
    trainers: String,
    /// Share of the window in which it was in `next()`.
    pub(crate) in_next: f64,
    /// Whether the scheduler's events say when those that train were blocked.
    pub(crate) watched: bool,
}

/// The thread that hands the most batches on, if there is one. Where devices are recorded, it counts as
/// one that trains: what it does says why they wait.
pub(crate) fn handed_on(
    timeline: &Timeline<'_>,
    window: &Window,
    trainers: &[Trainer],
) -> Option<HandedOn> {
    let kind = if window.evaluation {
        Kind::Valid
    } else {
        Kind::Train
    };
    let known: HashSet<TrackId> = trainers.iter().filter_map(|of| of.track).collect();
    let takes = |wait: &&Wait| {
        let batch = wait.role == Role::Batch && !wait.annotated && !wait.aside;
        batch && wait.loader.kind == kind && !known.contains(&wait.track)
    };
    let mut of_track: BTreeMap<TrackId, (Nanos, &Wait)> = BTreeMap::new();
    for wait in timeline.waits.iter().filter(takes) {
        let length = total(&during(&window.parts, wait.span));
        of_track.entry(wait.track).or_insert((Nanos::ZERO, wait)).0 += length;
    }
    let (track, (in_next, wait)) = of_track
        .into_iter()
        .max_by_key(|(_, (length, _))| *length)?;
    if trainers.is_empty() || in_next == Nanos::ZERO {
        return None;
    }
    let names: Vec<String> = trainers.iter().map(|of| of.name.clone()).collect();
    Some(HandedOn {
        thread: timeline.thread_name(track),
        loader: timeline.loader_name(wait.loader).to_owned(),
        trainers: group(&names),
        in_next: in_next.share_of(window.len()),
        watched: trainers
            .iter()
            .all(|of| timeline.kernel.get(of.tid).is_some()),
    })
}

impl HandedOn {
    /// What the reader should know.
    pub(crate) fn note(&self) -> String {
        let Self {
            thread,
            loader,
            trainers,
            ..
        } = self;
        let counts = match self.watched {
            true => "counts as being blocked",
            false => {
                "is not told from compute, as long as the scheduler's events are not recorded (run \
                 gpustall-sidecar beside the job)"
            }
        };
        format!(
            "{thread} takes the batches of `{loader}` and hands them on to {trainers}: it was in next() \
             for {} of the window. What {trainers} waited for them {counts}.",
            percent(self.in_next)
        )
    }
}
