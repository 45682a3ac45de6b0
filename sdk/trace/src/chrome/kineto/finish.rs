//! From what was collected to a trace: tracks, times from its start, and where it comes from.

use super::category::Place;
use super::collect::{Collector, unshifted};
use super::header::Header;
use super::lanes::Made;
use super::processes::ID_LIMIT;
use crate::{
    Interval, Meta, MonoTime, Pid, Process, Source, State, Tid, Trace, TraceTime, Track, TrackKind,
};
use std::collections::{BTreeMap, HashSet};

/// First made-up id of a track.
const FIRST_TID: u32 = ID_LIMIT as u32;
/// Where viewers put devices: below the processes, as for the traces of PyTorch.
const DEVICE_SORT: i64 = 5_000_000;
/// Times since the epoch are at least this long (2001), others are shorter.
const EPOCH_NS: i64 = 1_000_000_000_000_000_000;

/// A trace, and how many ends there were of slices that had not begun.
pub(super) struct Finished {
    pub(super) trace: Trace,
    pub(super) source: Source,
    pub(super) without_begin: u64,
}

/// Finishes the trace; `whole` if the file was read to its end.
pub(super) fn finish(mut c: Collector, header: Header, name: &str, whole: bool) -> Finished {
    let first = c.first.unwrap_or_default();
    let mut trace = std::mem::take(&mut c.trace);
    let end = last(&trace).max(c.halves.last()).unwrap_or(first);
    c.processes.anchored = c.anchors.processes();
    let without_begin = c.halves.finish(&mut trace, &mut c.processes, end);
    trace.flows = c.flows.finish(&c.lanes, &trace.strings);
    from_start(&mut trace, first);

    let mut per_pid: BTreeMap<Pid, u64> = BTreeMap::new();
    let mut slices = vec![0_u64; c.lanes.tracks.len()];
    for slice in &trace.slices {
        slices[slice.track.index()] += 1;
    }
    let mut ids = HashSet::new();
    let mut devices: BTreeMap<i64, Pid> = BTreeMap::new();
    for (made, slices) in c.lanes.tracks.iter().zip(slices) {
        let mut track = match *made {
            Made::Thread(lane) => {
                let own = &c.lanes.lanes[lane as usize];
                let pid = c.processes.used(own.pid);
                let tid = own.tid.number().filter(|tid| (0..ID_LIMIT).contains(tid));
                let kind = match (pid.is_synthetic(), own.tid.number()) {
                    (false, Some(0..)) => TrackKind::Thread,
                    _ => TrackKind::Synthetic,
                };
                if kind == TrackKind::Thread {
                    *per_pid.entry(pid).or_default() += slices;
                }
                // Ids in a file with anchors are its own; a thread without one is none of the machine's.
                let anchor = c.anchors.thread(lane).filter(|id| !ids.contains(id));
                let (tid, kind) = match (anchor, c.processes.anchored.is_empty()) {
                    (Some((_, tid)), _) => (Some(i64::from(tid.0)), TrackKind::Thread),
                    (None, true) => (tid, kind),
                    (None, false) => (None, TrackKind::Synthetic),
                };
                let named = c.processes.thread(lane);
                let mut name = named.name_or(own.tid, "thread", &mut trace.strings);
                // A recorder with numbers of its own calls a thread without a name by that.
                if let (Some((_, of)), Some(number)) = (anchor, own.tid.number())
                    && trace.strings.get(name) == number.to_string()
                {
                    name = trace.strings.intern(&format!("thread {of}"));
                }
                Track {
                    pid,
                    tid: Tid(tid.map_or(FIRST_TID, |tid| tid as u32)),
                    name,
                    sort: named.sort,
                    kind,
                }
            }
            Made::Device {
                device,
                stream,
                place,
            } => {
                let free = Pid::of_device(devices.len() as u32);
                let (order, what) = match place {
                    Place::Stream | Place::Thread => (0, ""),
                    Place::Annotations => (1, " annotations"),
                    Place::Waits => (2, " waits"),
                };
                Track {
                    pid: *devices.entry(device).or_insert(free),
                    tid: Tid(FIRST_TID),
                    name: trace.strings.intern(&format!("stream {stream}{what}")),
                    sort: small(stream.saturating_mul(4).saturating_add(order)),
                    kind: TrackKind::Synthetic,
                }
            }
        };
        // Made-up ids count up from the first until one is free.
        if track.tid.0 >= FIRST_TID {
            track.tid.0 = FIRST_TID + trace.tracks.len() as u32;
        }
        while !ids.insert((track.pid, track.tid)) {
            track.tid.0 = track.tid.0.wrapping_add(1);
        }
        trace.tracks.push(track);
    }
    trace.processes = c.processes.list(&mut trace.strings);
    for (device, pid) in devices {
        let named = header.devices.iter().find(|d| i64::from(d.id) == device);
        let name = match named {
            Some(info) => format!("GPU {device} ({})", info.name),
            None => format!("GPU {device}"),
        };
        trace.processes.push(Process {
            pid,
            name: trace.strings.intern(&name),
            sort: small(DEVICE_SORT.saturating_add(device)),
        });
    }
    trace.sort();

    let source = match c.found.kineto || header.kineto {
        true => Source::Kineto,
        false => Source::Chrome,
    };
    let zero = unshifted(first);
    let clock = c.anchors.clock(zero);
    let unix = match header.base_ns {
        _ if clock.is_some() => clock.map_or(0, |(_, unix)| unix as i64),
        0 if zero >= EPOCH_NS => zero,
        0 => 0,
        base => base.saturating_add(zero),
    };
    // A file that is written compressed says the name of a temporary one.
    let own = header.name.as_deref().filter(|own| !is_temporary(own));
    trace.meta = Meta {
        name: title(own.unwrap_or(name)).into(),
        recorder: match (source, c.found.legacy) {
            (Source::Kineto, false) => "kineto",
            (Source::Kineto, true) => "kineto (legacy)",
            _ => "chrome",
        }
        .into(),
        start_mono: clock.map_or(MonoTime::default(), |(mono, _)| mono),
        start_unix_ns: u64::try_from(unix).unwrap_or(0),
        end: TraceTime::from_nanos(end.since(first).get()),
        pid: c.anchors.any_process().unwrap_or_else(|| busiest(&per_pid)),
        state: if whole {
            State::Finished
        } else {
            State::Partial
        },
        devices: header.devices,
        distributed: header.distributed,
        ..Meta::default()
    };
    Finished {
        trace,
        source,
        without_begin,
    }
}

/// The time of the last event.
fn last(trace: &Trace) -> Option<TraceTime> {
    let slices = trace.slices.iter().map(|slice| slice.span.end).max();
    let instants = trace.instants.iter().map(|instant| instant.at).max();
    let counters = trace.counters.iter().map(|sample| sample.at).max();
    slices.max(instants).max(counters)
}

/// Counts all times from `first`.
fn from_start(trace: &mut Trace, first: TraceTime) {
    let time = |at: TraceTime| TraceTime::from_nanos(at.since(first).get());
    let span = |span: Interval| Interval::new(time(span.start), time(span.end));
    for slice in &mut trace.slices {
        slice.span = span(slice.span);
    }
    for slice in &mut trace.async_slices {
        slice.span = span(slice.span);
    }
    for instant in &mut trace.instants {
        instant.at = time(instant.at);
    }
    for sample in &mut trace.counters {
        sample.at = time(sample.at);
    }
    for flow in &mut trace.flows {
        (flow.from.at, flow.to.at) = (time(flow.from.at), time(flow.to.at));
    }
}

/// The process with the most slices on threads.
fn busiest(per_pid: &BTreeMap<Pid, u64>) -> Pid {
    let busiest = per_pid.iter().max_by_key(|&(_, slices)| *slices);
    busiest.map(|(pid, _)| *pid).unwrap_or_default()
}

fn small(number: i64) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Whether Python's `tempfile` made up the name of this file.
fn is_temporary(path: &str) -> bool {
    let name = title(path);
    let made_up = |c: char| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = name.strip_prefix("tmp").unwrap_or_default();
    rest.len() == 8 && rest.chars().all(made_up)
}

/// The name of a file, without its directory and the endings that traces have.
fn title(path: &str) -> &str {
    let mut name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    for ending in [".gz", ".json", ".trace", ".pt"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_title_is_the_name_without_its_endings() {
        for (path, title) in [
            ("/data/run/h2d.pt.trace.json.gz", "h2d"),
            ("C:\\traces\\a.json", "a"),
            (
                "worker0.1623143089861.pt.trace.json",
                "worker0.1623143089861",
            ),
            ("plain", "plain"),
        ] {
            assert_eq!(super::title(path), title);
        }
    }

    #[test]
    fn a_made_up_name_is_known() {
        assert!(super::is_temporary("/tmp/tmpt3ylblt_.json"));
        assert!(!super::is_temporary("/tmp/train.json"));
        assert!(!super::is_temporary("tmp_training.json"));
    }
}
