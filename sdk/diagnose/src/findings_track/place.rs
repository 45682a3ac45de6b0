//! The tracks that findings are drawn on.

use super::plan::Drawn;
use super::{TRACK_NAME, state};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Pid, Process, Tid, Trace, Track, TrackId, TrackKind};
use std::collections::HashSet;

/// Thread ids of the tracks start here, one for each device.
const FIRST_TID: u32 = Pid::SYNTHETIC + 0x0100_0000;

/// Removes what an earlier call drew.
pub(super) fn erase(trace: &mut Trace) {
    if let Some(finding) = trace.strings.find(cat::FINDING) {
        trace.slices.retain(|slice| slice.cat != finding);
        trace.flows.retain(|flow| flow.cat != finding);
    }
    state::erase(trace);
    // Tracks are named by their position, so only those at the end can go.
    while trace
        .tracks
        .last()
        .is_some_and(|track| is_own(trace, track) || state::is_own(trace, track))
    {
        trace.tracks.pop();
    }
    if let Some(name) = trace.strings.find(TRACK_NAME) {
        let used: HashSet<Pid> = trace.tracks.iter().map(|track| track.pid).collect();
        trace
            .processes
            .retain(|process| process.name != name || used.contains(&process.pid));
    }
}

fn is_own(trace: &Trace, track: &Track) -> bool {
    track.pid.is_synthetic()
        && track.kind == TrackKind::Synthetic
        && track.tid.0 >= FIRST_TID
        && trace.text(track.name).starts_with(TRACK_NAME)
}

/// A track for the stalls of a device; new unless an earlier call left it.
pub(super) fn track(trace: &mut Trace, stall: &Drawn, several: bool) -> Option<TrackId> {
    let tid = Tid(FIRST_TID.saturating_add(u32::try_from(stall.device).ok()?));
    let own = |track: &Track| track.tid == tid && is_own(trace, track);
    if let Some(position) = trace.tracks.iter().position(own) {
        return u32::try_from(position).ok().map(TrackId);
    }
    let title = match several {
        true => format!("{TRACK_NAME}: {}", stall.name_of_device),
        false => TRACK_NAME.to_owned(),
    };
    let name = trace.strings.intern(&title);
    let pid = process(trace);
    let position = u32::try_from(trace.tracks.len()).ok()?;
    trace.tracks.push(Track {
        pid,
        tid,
        name,
        sort: 0,
        kind: TrackKind::Synthetic,
    });
    Some(TrackId(position))
}

/// The process that the steps are shown in; a new one if there is none.
fn process(trace: &mut Trace) -> Pid {
    let step = trace.strings.find(cat::STEP);
    let steps = trace.slices.iter().filter(|slice| Some(slice.cat) == step);
    let mut places = steps
        .filter_map(|slice| trace.track(slice.track))
        .map(|track| track.pid);
    if let Some(pid) = places.find(|pid| pid.is_synthetic()) {
        return pid;
    }
    let name = trace.strings.intern(TRACK_NAME);
    let own = |process: &&Process| process.pid.is_synthetic() && process.name == name;
    if let Some(process) = trace.processes.iter().find(own) {
        return process.pid;
    }
    let taken: HashSet<Pid> = trace
        .processes
        .iter()
        .map(|process| process.pid)
        .chain(trace.tracks.iter().map(|track| track.pid))
        .collect();
    let mut free = (Pid::SYNTHETIC..=u32::MAX)
        .map(Pid)
        .filter(|pid| !taken.contains(pid));
    let pid = free.next().unwrap_or(Pid(u32::MAX));
    trace.processes.push(Process {
        pid,
        name,
        sort: -1,
    });
    pid
}
