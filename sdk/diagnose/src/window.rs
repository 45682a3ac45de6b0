//! The stretch of the recording that is judged, and the threads whose time it is.

use crate::device::Devices;
use crate::events::{Kind, Role, Wait};
use crate::framework::marked;
use crate::partition::without;
use crate::ranks;
use crate::timeline::Timeline;
use crate::trainers::trainers;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::collections::HashMap;

pub(crate) use crate::trainers::Trainer;

/// From the start of the first account of a trainer to the end of the recording, or of the last loop or
/// operation of a device, less the pauses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// From when to when; empty if no step was complete and no device recorded.
    pub(crate) span: Interval,
    /// The span without the pauses: disjoint, in order.
    pub(crate) parts: Vec<Interval>,
    /// What the steps are of: training if any step trains, else evaluation.
    pub(crate) evaluation: bool,
    /// Of each device, where they differ: of a trace of several processes.
    pub(crate) of_device: Vec<(Interval, Vec<Interval>)>,
}

impl Window {
    /// Its length, pauses not counted.
    pub(crate) fn len(&self) -> Nanos {
        total(&self.parts)
    }

    /// The window of the device at this position: from when to when, and that without the pauses.
    pub(crate) fn of_device(&self, at: usize) -> (Interval, &[Interval]) {
        match self.of_device.get(at) {
            Some((span, parts)) => (*span, parts),
            None => (self.span, &self.parts),
        }
    }
}

/// The window of a recording and the threads that run its steps, each with its own stretch of it.
///
/// Where the steps are another profiler's, it ends with the last operation of a device: what follows is that
/// profiler shutting down. Where all loops over loaders are known to have ended, it ends with the last of them,
/// or with the last phase or operation: what follows is no training. Without steps it spans the operations.
pub(crate) fn window(timeline: &Timeline<'_>, devices: &Devices) -> (Window, Vec<Trainer>) {
    let complete = || {
        let steps = timeline.steps.iter().filter(|step| !step.cut);
        steps.filter(|step| step.thread.is_some())
    };
    let evaluation = !timeline
        .steps
        .iter()
        .any(|step| !step.cut && step.loader.kind == Kind::Train);
    let kind = if evaluation { Kind::Valid } else { Kind::Train };
    let first = complete()
        .filter(|step| step.loader.kind == kind)
        .map(|step| step.span.start)
        .min();
    let last = devices.span().end;
    let end = match timeline.foreign && first.is_some_and(|first| last > first) {
        true => last,
        false => loops_end(timeline).map_or(timeline.end, |end| end.max(last).min(timeline.end)),
    };
    let mut trainers = trainers(timeline, kind, end, !devices.is_empty());
    let span = match trainers.iter().map(|trainer| trainer.span.start).min() {
        Some(start) => Interval::new(start, end),
        None => devices.span(),
    };
    let parts = without(&[span], &timeline.pauses);
    for trainer in &mut trainers {
        trainer.parts = during(&parts, trainer.span);
        let own = trainer.track.and_then(|track| timeline.trace.track(track));
        let own = own.and_then(|track| timeline.pauses_of.get(&track.pid));
        // With devices each has a window of its own.
        if let Some(pauses) = own.filter(|_| devices.is_empty()) {
            trainer.parts = without(&trainer.parts, pauses);
        }
    }
    let of_device = ranks::windows(timeline, devices, (span, &trainers));
    (
        Window {
            span,
            parts,
            evaluation,
            of_device,
        },
        trainers,
    )
}

/// When the last loop over a loader was over. `None` if one was not, or may not have been: those of the SDK end
/// with a `next()` that gives none.
fn loops_end(timeline: &Timeline<'_>) -> Option<TraceTime> {
    // A wait that an interrupt cut off is over.
    let open = (timeline.steps.iter()).any(|step| step.cut && step.span.end >= timeline.end)
        || (timeline.waits.iter()).any(|wait| wait.unfinished && wait.span.end >= timeline.end);
    let mut last: HashMap<TrackId, &Wait> = HashMap::new();
    for wait in &timeline.waits {
        let last = last.entry(wait.track).or_insert(wait);
        if (wait.span.end, wait.span.start) > (last.span.end, last.span.start) {
            *last = wait;
        }
    }
    let mut waits = last.values();
    let hooked = marked(timeline.trace);
    let ended = hooked || waits.all(|wait| wait.role == Role::EpochEnd);
    // What the SDK marks after the last loop, as a checkpoint, is a part of the training.
    let phases = timeline.phases.iter().filter(|_| !hooked);
    let phases = phases.map(|phase| phase.span.end);
    let steps = timeline.steps.iter().map(|step| step.span.end);
    // Nor is it any training when a call waits in vain.
    let waits = last.values().map(|wait| wait.until);
    let end = steps.chain(waits).chain(phases).max();
    end.filter(|_| ended && !open && !last.is_empty())
}

/// The length of all of them.
pub(crate) fn total(parts: &[Interval]) -> Nanos {
    parts.iter().map(|part| part.len()).sum()
}

/// What of `parts` (disjoint, in order) lies in `span`.
pub(crate) fn during(parts: &[Interval], span: Interval) -> Vec<Interval> {
    let first = parts.partition_point(|part| part.end <= span.start);
    let rest = parts.get(first..).unwrap_or_default().iter();
    rest.take_while(|part| part.start < span.end)
        .map(|part| part.intersection(span))
        .filter(|part| !part.is_empty())
        .collect()
}
