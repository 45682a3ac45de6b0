//! The recordings of the processes of one job as one trace.
//!
//! Every process has numbers of its own for its devices, streams and calls. They are numbered anew, so
//! that one number means one thing in the whole trace.

mod apart;
mod clock;
mod correlations;
mod devices;

use super::append::append;
use super::tables::Tables;
use super::{MergeError, Part, check, join, strip};
use crate::{Interval, Member, Meta, MonoTime, Nanos, Pid, Slice, Trace, TraceTime, Value, vocab};
use apart::Space;
use std::collections::BTreeMap;

/// Makes one trace of the recordings of the processes of one job: ranks that train one model together, and
/// what was recorded beside them. The caller knows that they belong together.
///
/// - Recordings of one boot of one machine share `CLOCK_MONOTONIC`. Others are set beside each other by the
///   wall clock, and then by collectives, which end together on all ranks; a note says so.
/// - Devices are the same if their UUIDs are. Without one, devices of two ranks are different, since no
///   two ranks of one job can have one device. Each keeps its number where it can.
/// - Streams of several processes on one device, and correlation numbers, are raised where they were
///   used before. Process and thread ids of different machines are replaced where they clash.
/// - [`Meta::members`] says which process is which rank, when it was recorded, and what it used.
///
/// The rest is as in [`merge`](super::merge). The first recording gives the trace its name and process.
///
/// # Errors
///
/// [`MergeError`] when there is no recording, when one of several does not say when it was made, or when
/// one holds another.
pub fn merge_job(mut parts: Vec<Part>) -> Result<Trace, MergeError> {
    let mut notes = Vec::new();
    let spaces = apart::spaces(&parts);
    for (n, part) in parts.iter().enumerate() {
        for (other, _) in parts[..n]
            .iter()
            .zip(&spaces)
            .filter(|of| *of.1 == spaces[n])
        {
            check::within(other, part)?;
        }
    }
    apart::tell_apart(&mut parts, &spaces);
    let clock = clock::place(&parts, &spaces, &mut notes)?;
    let used = devices::number(&mut parts, &spaces);
    correlations::number(&mut parts, &spaces);

    let origin = clock.starts.iter().copied().min().unwrap_or_default();
    let mut tables = Tables::of_job();
    let mut members: BTreeMap<(Space, Pid), Member> = BTreeMap::new();
    let mut ends = TraceTime::ZERO;
    let mut looped: BTreeMap<(Space, Pid), TraceTime> = BTreeMap::new();
    for (number, mut part) in parts.into_iter().enumerate() {
        let later = clock.starts.get(number).copied().unwrap_or(origin) - origin;
        let later = Nanos::new(u64::try_from(later).unwrap_or(0));
        let emptied = strip::findings(&mut part.trace);
        let meta = part.trace.meta.clone();
        match number {
            0 => tables.trace.meta = meta.clone(),
            _ => join(&mut tables.trace.meta, &meta),
        }
        let space = spaces.get(number).copied().unwrap_or_default();
        for member in of_part(&meta, used.get(number).map_or(&[][..], Vec::as_slice)) {
            let recorded = moved(member.recorded, later);
            let known = members.entry((space, member.pid)).or_insert(Member {
                recorded,
                ..member.clone()
            });
            known.recorded.start = known.recorded.start.min(recorded.start);
            known.recorded.end = known.recorded.end.max(recorded.end);
            known.distributed = known.distributed.or(member.distributed);
            known.devices.extend(member.devices);
            known.devices.sort_unstable();
            known.devices.dedup();
        }
        if let Some(last) = end_of_loops(&part.trace) {
            let known = looped.entry((space, meta.pid)).or_default();
            *known = (*known).max(last + later);
        }
        ends = ends.max(moved(Interval::new(TraceTime::ZERO, meta.end), later).end);
        tag_pauses(&mut part.trace, meta.pid);
        append(&mut tables, part, later, &emptied);
    }
    for (of, member) in &mut members {
        let last = looped.get(of).copied().unwrap_or_default();
        member.recorded.end = member.recorded.end.max(last);
    }
    let mut trace = tables.finish();
    let members = those_that_train(members.into_values().collect());
    let of_members = members.iter().map(|member| member.recorded.end).max();
    let meta = &mut trace.meta;
    meta.end = of_members.unwrap_or(ends);
    match clock.monotonic {
        true => {
            let moved = meta.start_mono.as_nanos().abs_diff(origin as u64);
            meta.start_unix_ns = meta.start_unix_ns.saturating_sub(moved);
            meta.start_mono = MonoTime::from_nanos(origin as u64);
        }
        false => {
            meta.start_mono = MonoTime::default();
            meta.start_unix_ns = u64::try_from(origin).unwrap_or(0);
        }
    }
    meta.notes.extend(notes);
    meta.members = match members.as_slice() {
        [one] if one.distributed.is_none() => Vec::new(),
        _ => members,
    };
    name_ranks(&mut trace);
    trace.sort();
    Ok(trace)
}

/// When the last call of a loader or step ended that was seen to. Who records devices may have seen its last
/// event before: what else is recorded of the process goes on.
fn end_of_loops(trace: &Trace) -> Option<TraceTime> {
    use vocab::cat::{DATA_WAIT, EPOCH_END, STEP};
    let known = |name: &str| trace.strings.find(name);
    let cats = [DATA_WAIT, EPOCH_END, STEP].map(known);
    let unfinished = known(vocab::arg::UNFINISHED);
    let of_loop = |slice: &&Slice| cats.contains(&Some(slice.cat));
    let ended = |slice: &&Slice| slice.args.iter().all(|(key, _)| Some(*key) != unfinished);
    let slices = trace.slices.iter().filter(of_loop).filter(ended);
    slices.map(|slice| slice.span.end).max()
}

/// The processes that a recording is of: those of a job that were joined before; else its own, if it
/// used a device or has a rank.
fn of_part(meta: &Meta, used: &[u32]) -> Vec<Member> {
    if !meta.members.is_empty() {
        return meta.members.clone();
    }
    if used.is_empty() && meta.distributed.is_none() {
        return Vec::new();
    }
    vec![Member {
        pid: meta.pid,
        distributed: meta.distributed,
        recorded: Interval::new(TraceTime::ZERO, meta.end),
        devices: used.to_vec(),
    }]
}

/// Without the helpers of a rank, such as the workers of its loader, which have its environment: they use
/// no device where another process of the rank does, or are younger.
fn those_that_train(members: Vec<Member>) -> Vec<Member> {
    let helps = |(at, member): (usize, &Member)| {
        let alike = |other: &Member| {
            let rank = |member: &Member| member.distributed.map(|of| of.rank);
            rank(member).is_some() && rank(other) == rank(member)
        };
        let trains = |(n, other): (usize, &Member)| {
            n != at && alike(other) && (!other.devices.is_empty() || n < at)
        };
        member.devices.is_empty() && members.iter().enumerate().any(trains)
    };
    let helpers: Vec<bool> = members.iter().enumerate().map(helps).collect();
    let all = members.iter().zip(helpers);
    let trains = all.filter(|(_, helps)| !helps);
    trains.map(|(member, _)| member.clone()).collect()
}

fn moved(span: Interval, later: Nanos) -> Interval {
    Interval::new(span.start + later, span.end + later)
}

/// Says of what process a pause is, where that is not said.
fn tag_pauses(trace: &mut Trace, pid: Pid) {
    let Some(pause) = trace.strings.find(vocab::cat::PAUSE) else {
        return;
    };
    let key = trace.strings.intern(vocab::arg::PROCESS);
    let pauses = trace.slices.iter_mut().filter(|slice| slice.cat == pause);
    for pause in pauses {
        if pause.args.iter().all(|(of, _)| *of != key) {
            let own = (key, Value::U64(pid.0.into()));
            pause.args = pause.args.iter().copied().chain([own]).collect();
        }
    }
}

/// Adds the rank to the name of each process that has one.
fn name_ranks(trace: &mut Trace) {
    for member in &trace.meta.members {
        let Some(of) = member.distributed else {
            continue;
        };
        let own = trace.processes.iter_mut().filter(|p| p.pid == member.pid);
        for process in own {
            let name = trace.strings.get(process.name);
            if !name.contains("(rank ") {
                let name = format!("{name} (rank {})", of.rank);
                process.name = trace.strings.intern(&name);
            }
        }
    }
}
