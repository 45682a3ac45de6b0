//! The stretch of the recording that is judged, and the threads whose time it is.

use crate::device::Devices;
use crate::events::{Kind, Step};
use crate::partition::without;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Tid, TrackId};
use std::collections::HashMap;

/// A thread that runs training steps. Without a device of its own it is the device.
#[derive(Debug, Clone)]
pub(crate) struct Trainer {
    pub(crate) tid: Tid,
    /// Its track; `None` if the trace has no such thread.
    pub(crate) track: Option<TrackId>,
    pub(crate) name: String,
    /// Its steps, in order, none overlapping another.
    pub(crate) steps: Vec<Step>,
}

/// From the start of the first complete step to the end of the recording, or of the last operation
/// of a device, less the pauses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// From when to when; empty if no step was complete and no device recorded.
    pub(crate) span: Interval,
    /// The span without the pauses: disjoint, in order.
    pub(crate) parts: Vec<Interval>,
    /// What the steps are of: training if any step trains, else evaluation.
    pub(crate) evaluation: bool,
}

impl Window {
    /// Its length, pauses not counted.
    pub(crate) fn len(&self) -> Nanos {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// The window of a recording and the threads that run its steps, in the order of their first ones.
///
/// Where the steps are another profiler's, it ends with the last operation of a device: what
/// follows is that profiler shutting down. Without steps it spans the operations.
pub(crate) fn window(timeline: &Timeline<'_>, devices: &Devices) -> (Window, Vec<Trainer>) {
    let steps = || timeline.steps.iter().filter(|step| !step.cut);
    let evaluation = !steps().any(|step| step.loader.kind == Kind::Train);
    let kind = if evaluation { Kind::Valid } else { Kind::Train };
    let mut trainers: Vec<Trainer> = Vec::new();
    let mut position: HashMap<Tid, usize> = HashMap::new();
    for step in steps().filter(|step| step.loader.kind == kind) {
        let Some(tid) = step.thread else { continue };
        let at = *position.entry(tid).or_insert_with(|| {
            let track = timeline.thread(tid);
            let name = track.map_or(format!("thread {tid}"), |t| timeline.thread_name(t));
            trainers.push(Trainer {
                tid,
                track,
                name,
                steps: Vec::new(),
            });
            trainers.len() - 1
        });
        // Two loaders stepped in one loop give two steps that overlap: the first one is the loop's.
        let steps = &mut trainers[at].steps;
        if steps
            .last()
            .is_none_or(|last| last.span.end <= step.span.start)
        {
            steps.push(*step);
        }
    }
    let Some(start) = trainers
        .iter()
        .flat_map(|t| &t.steps)
        .map(|s| s.span.start)
        .min()
    else {
        let span = devices.span();
        let parts = without(&[span], &timeline.pauses);
        return (
            Window {
                span,
                parts,
                evaluation,
            },
            trainers,
        );
    };
    let last = devices.span().end;
    let end = match timeline.foreign && last > start {
        true => last,
        false => timeline.end,
    };
    let span = Interval::new(start, end);
    let parts = without(&[span], &timeline.pauses);
    (
        Window {
            span,
            parts,
            evaluation,
        },
        trainers,
    )
}
