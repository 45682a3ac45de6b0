//! For which phase a device operation was asked.
//!
//! The thread whose call submitted it says so where that thread marks phases itself. A thread that
//! calls for others, as a runner of Burn's does, says it by its marks ([`runner`]). What neither
//! says stays unknown.

mod rows;
mod runner;

pub(crate) use rows::{PhaseRows, rows};

use super::Devices;
use crate::timeline::Timeline;
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Symbol, Trace, TraceTime, TrackId, Value};
use runner::Runners;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Who asked for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// A phase of this name.
    Phase(Symbol),
    /// A thread that was in no phase.
    Outside,
    /// Several phases at once: it does the work of all of them.
    Several,
    /// It is not known.
    Unknown,
}

/// The asker of each operation, in the order of the devices and of their operations. `None` where the
/// trace has no phases, so that there is nothing to tell.
pub(crate) fn askers(timeline: &Timeline<'_>, devices: &Devices) -> Option<Vec<Vec<Asker>>> {
    if timeline.phases.is_empty() {
        return None;
    }
    let threads = Threads::of(timeline);
    let runners = Runners::of(timeline, devices);
    let asker = |device: u64, op: &super::ops::Op| {
        let Some(call) = op.call.and_then(|call| devices.calls.get(call)) else {
            return Asker::Unknown;
        };
        if let Some(asker) = runners.asker((device, op.stream), call) {
            return asker;
        }
        match threads.0.get(&call.track) {
            Some(phases) => phases.at(call.span.start),
            None => Asker::Unknown,
        }
    };
    let of = |device: &super::Device| device.ops.iter().map(|op| asker(device.key, op)).collect();
    Some(devices.list.iter().map(of).collect())
}

/// Gives each operation whose phase is known the argument [`arg::PHASE`]. A second call changes
/// nothing.
pub(crate) fn label(trace: &mut Trace) {
    let has = |category| trace.strings.find(category).is_some();
    if !has(cat::PHASE) && !has(cat::USER_ANNOTATION) {
        return;
    }
    let mut labels: Vec<(usize, Symbol)> = Vec::new();
    {
        let timeline = Timeline::of(trace);
        let devices = Devices::of(&timeline);
        let Some(askers) = askers(&timeline, &devices) else {
            return;
        };
        for (device, askers) in devices.list.iter().zip(&askers) {
            for (op, asker) in device.ops.iter().zip(askers) {
                if let Asker::Phase(name) = asker {
                    labels.push((op.slice, *name));
                }
            }
        }
    }
    let key = trace.strings.intern(arg::PHASE);
    for (slice, name) in labels {
        let Some(slice) = trace.slices.get_mut(slice) else {
            continue;
        };
        let others = slice.args.iter().filter(|(other, _)| *other != key);
        let mut args: Vec<_> = others.copied().collect();
        args.push((key, Value::Str(name)));
        slice.args = args.into();
    }
}

/// When each thread is in which phase.
struct Threads(HashMap<TrackId, Phases>);

/// The innermost phase of a thread from each of these times on.
#[derive(Default)]
struct Phases(Vec<(TraceTime, Option<Symbol>)>);

impl Threads {
    fn of(timeline: &Timeline<'_>) -> Self {
        let mut phases: Vec<_> = timeline.phases.iter().collect();
        phases.sort_by_key(|phase| (phase.span.start, Reverse(phase.span.end)));
        let mut threads: HashMap<TrackId, (Phases, Vec<(TraceTime, Symbol)>)> = HashMap::new();
        for phase in phases {
            let (turns, open) = threads.entry(phase.track).or_default();
            turns.close(open, phase.span.start);
            turns.0.push((phase.span.start, Some(phase.name)));
            open.push((phase.span.end, phase.name));
        }
        let closed = |(track, (mut turns, mut open)): (TrackId, (Phases, Vec<_>))| {
            turns.close(&mut open, TraceTime::from_nanos(u64::MAX));
            (track, turns)
        };
        Self(threads.into_iter().map(closed).collect())
    }
}

impl Phases {
    /// Ends the phases that are over at `now`.
    fn close(&mut self, open: &mut Vec<(TraceTime, Symbol)>, now: TraceTime) {
        while let Some(&(end, _)) = open.last().filter(|(end, _)| *end <= now) {
            open.pop();
            // Phases of another profiler may overlap without one holding the other.
            let end = self.0.last().map_or(end, |(last, _)| end.max(*last));
            self.0.push((end, open.last().map(|(_, name)| *name)));
        }
    }

    fn at(&self, time: TraceTime) -> Asker {
        let before = self.0.partition_point(|(from, _)| *from <= time);
        let turn = before.checked_sub(1).and_then(|turn| self.0.get(turn));
        match turn.and_then(|(_, phase)| *phase) {
            Some(name) => Asker::Phase(name),
            None => Asker::Outside,
        }
    }
}
