//! The window of each device in a trace of several processes.

use super::users;
use crate::device::{Device, Devices};
use crate::partition::without;
use crate::timeline::Timeline;
use crate::trainers::Trainer;
use gpustall_trace::{Interval, Pid, TraceTime};
use std::collections::BTreeSet;

/// The window of each device, and that without the pauses: from the first account of a trainer of a process
/// that used it, to the end of what was recorded of these processes, or of its last operation where the steps
/// are another profiler's. Empty if the trace is of one process.
pub(crate) fn windows(
    timeline: &Timeline<'_>,
    devices: &Devices,
    (whole, trainers): (Interval, &[Trainer]),
) -> Vec<(Interval, Vec<Interval>)> {
    if timeline.trace.meta.members.len() < 2 || whole.is_empty() {
        return Vec::new();
    }
    let one = |device: &Device| {
        let span = window(timeline, device, whole, trainers);
        let pids = users(timeline.trace, device.key).map(|member| member.pid);
        let pauses = pids
            .filter_map(|pid| timeline.pauses_of.get(&pid))
            .flatten();
        let pauses: Vec<Interval> = pauses.chain(&timeline.pauses).copied().collect();
        (span, without(&[span], &pauses))
    };
    devices.list.iter().map(one).collect()
}

fn window(
    timeline: &Timeline<'_>,
    device: &Device,
    whole: Interval,
    trainers: &[Trainer],
) -> Interval {
    let members = || users(timeline.trace, device.key);
    let pids: BTreeSet<Pid> = members().map(|member| member.pid).collect();
    if pids.is_empty() {
        return whole;
    }
    let operated = || {
        let start = device.ops.iter().map(|op| op.span.start).min();
        let end = device.ops.iter().map(|op| op.span.end).max();
        Interval::new(start.unwrap_or(whole.start), end.unwrap_or(whole.end))
    };
    let own = trainers.iter().filter(|trainer| {
        let track = trainer.track.and_then(|track| timeline.trace.track(track));
        track.is_some_and(|track| pids.contains(&track.pid))
    });
    let start = match own.map(|trainer| trainer.span.start).min() {
        Some(start) => start,
        None if trainers.is_empty() => operated().start,
        None => members()
            .map(|of| of.recorded.start)
            .min()
            .unwrap_or_default(),
    };
    let end = match timeline.foreign || trainers.is_empty() {
        true => operated().end,
        false => members()
            .map(|of| of.recorded.end)
            .max()
            .unwrap_or(whole.end),
    };
    Interval::new(start.max(whole.start), end.min(whole.end))
}

/// When none of several processes was recorded.
pub(crate) fn common_pauses(timeline: &Timeline<'_>) -> Vec<Interval> {
    let members = &timeline.trace.meta.members;
    if timeline.pauses_of.is_empty() {
        return Vec::new();
    }
    let all = [Interval::new(TraceTime::ZERO, timeline.end)];
    let mut recorded: Vec<Interval> = Vec::new();
    for member in members.iter().filter(|member| !member.devices.is_empty()) {
        let own = [timeline.clip(member.recorded)];
        let pauses = timeline.pauses_of.get(&member.pid);
        recorded.extend(without(&own, pauses.map_or(&[][..], Vec::as_slice)));
    }
    match recorded.is_empty() {
        true => Vec::new(),
        false => without(&all, &recorded),
    }
}
