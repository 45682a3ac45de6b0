//! When a thread that stands for a device does what nobody marked.

use crate::cover::Cover;
use crate::foreign::Meaning;
use crate::partition::without;
use crate::rules::STANDS_OUT_MAX_NS;
use crate::timeline::Timeline;
use crate::window::Trainer;
use gpustall_trace::{Interval, TraceTime, TrackId};

/// When a thread is in no phase, in those of its steps in which it marked forward and backward; and,
/// where operators were recorded, when it is in none for long.
pub(crate) fn unmarked(timeline: &Timeline<'_>, trainer: &Trainer) -> Cover {
    let in_no_phase = in_no_phase(timeline, trainer);
    match without_operators(timeline, trainer) {
        spans if spans.is_empty() => in_no_phase,
        mut spans => {
            spans.extend(in_no_phase.covered());
            let others = without(&trainer.parts, &spans);
            Cover::new(without(&trainer.parts, &others))
        }
    }
}

fn in_no_phase(timeline: &Timeline<'_>, trainer: &Trainer) -> Cover {
    let own = timeline
        .phases
        .iter()
        .filter(|phase| Some(phase.track) == trainer.track);
    let mut spans = Vec::new();
    let mut begun: [Vec<TraceTime>; 2] = [Vec::new(), Vec::new()];
    for phase in own {
        let name = timeline.trace.text(phase.name);
        for (begun, head) in begun.iter_mut().zip(["forward", "backward"]) {
            if name
                .get(..head.len())
                .is_some_and(|name| name.eq_ignore_ascii_case(head))
            {
                begun.push(phase.span.start);
            }
        }
        spans.push(phase.span);
    }
    begun.iter_mut().for_each(|begun| begun.sort_unstable());
    let within = |begun: &Vec<TraceTime>, step: Interval| {
        let first = begun.partition_point(|&at| at < step.start);
        begun.get(first).is_some_and(|&at| at < step.end)
    };
    let steps = trainer
        .steps
        .iter()
        .filter(|step| step.thread == Some(trainer.tid));
    let steps = steps.map(|step| step.span);
    let marked = steps.filter(|&step| begun.iter().all(|begun| within(begun, step)));
    let marked: Vec<Interval> = marked.collect();
    match marked.is_empty() {
        true => Cover::default(),
        false => Cover::beside(
            &without(&trainer.parts, &without(&trainer.parts, &marked)),
            &spans,
        ),
    }
}

/// Stretches of a thread of at least [`STANDS_OUT_MAX_NS`] in which no thread of its process is in an
/// operator, and it is in no wait and no annotation: disjoint, in order. None if no operator of the
/// process was recorded.
fn without_operators(timeline: &Timeline<'_>, trainer: &Trainer) -> Vec<Interval> {
    let op = timeline.names.cat.cpu_op.filter(|_| timeline.foreign);
    let (Some(op), Some(track)) = (op, trainer.track) else {
        return Vec::new();
    };
    let process = |track: TrackId| timeline.trace.track(track).map(|track| track.pid);
    let own = process(track);
    let slices = timeline.trace.slices.iter().filter(|slice| slice.cat == op);
    // Among the operators of old files are the marks of steps.
    let works = |name| !matches!(timeline.meanings.get(&name), Some(Meaning::Step(_)));
    let operators = slices.filter(|slice| works(slice.name) && process(slice.track) == own);
    let mut busy: Vec<Interval> = operators.map(|slice| timeline.clip(slice.span)).collect();
    if busy.is_empty() {
        return busy;
    }
    let phases = timeline.phases.iter().filter(|of| of.track == track);
    busy.extend(phases.map(|of| of.span));
    let waits = timeline.waits.iter().filter(|of| of.track == track);
    busy.extend(waits.map(|of| of.span));
    let mut free = without(&trainer.parts, &busy);
    free.retain(|span| span.len().get() >= STANDS_OUT_MAX_NS);
    free
}
