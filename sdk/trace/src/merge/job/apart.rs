//! Ids of processes and threads of different machines, which may be the same numbers.

use super::super::Part;
use crate::vocab::arg;
use crate::{MonoTime, Pid, Symbol, Tid, Trace, TrackKind, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Recordings of one space share the ids of processes and threads.
pub(super) type Space = usize;

/// First id that takes the place of another one. Linux gives none that large, and made-up ids are larger.
const FIRST_FREE: u32 = 0x4000_0000;

/// Arguments that hold ids of threads, and of processes.
const TIDS: [&str; 7] = [
    arg::THREAD,
    arg::WORKER,
    "waker_tid",
    "displaced_by_tid",
    "gave_back_tid",
    "wanted_by_tid",
    "submitter_tid",
];
const PIDS: [&str; 6] = [
    arg::PROCESS,
    "waker_pid",
    "displaced_by_pid",
    "gave_back_pid",
    "wanted_by_pid",
    "submitter_pid",
];

/// The space of each recording: one for each boot of a machine; one for each file of another profiler,
/// which does not say where it was made.
pub(super) fn spaces(parts: &[Part]) -> Vec<Space> {
    let boots = parts.iter().map(|part| part.trace.meta.boot.as_str());
    let boots: BTreeSet<&str> = boots.filter(|boot| !boot.is_empty()).collect();
    let space = |(number, part): (usize, &Part)| {
        let meta = &part.trace.meta;
        match meta.start_mono == MonoTime::default() {
            true => parts.len() + number,
            // One that does not say its boot is taken to be of the first.
            false => (boots.iter().position(|boot| *boot == meta.boot)).unwrap_or(0),
        }
    };
    parts.iter().enumerate().map(space).collect()
}

/// Gives ids that another space has too new ones.
pub(super) fn tell_apart(parts: &mut [Part], spaces: &[Space]) {
    if spaces.windows(2).all(|pair| pair[0] == pair[1]) {
        return;
    }
    let (mut pids, mut tids) = (Ids::default(), Ids::default());
    for (part, &space) in parts.iter_mut().zip(spaces) {
        let trace = &mut part.trace;
        let tracks = trace.tracks.iter();
        let threads = tracks.filter(|t| t.kind == TrackKind::Thread && !t.pid.is_synthetic());
        let of_threads: BTreeSet<u32> = threads.clone().map(|track| track.tid.0).collect();
        let own = [trace.meta.pid.0].into_iter().filter(|pid| *pid != 0);
        let of_processes: BTreeSet<u32> = (trace.processes.iter().map(|process| process.pid.0))
            .chain(threads.map(|track| track.pid.0))
            .chain(own)
            .filter(|pid| !Pid(*pid).is_synthetic())
            .collect();
        let moved_pids = pids.add(space, &of_processes);
        let moved_tids = tids.add(space, &of_threads);
        if !moved_pids.is_empty() || !moved_tids.is_empty() {
            rename(trace, &moved_pids, &moved_tids);
        }
    }
}

/// Ids that are taken, and by whom.
#[derive(Default)]
struct Ids {
    taken: HashMap<u32, Space>,
    moved: HashMap<(Space, u32), u32>,
}

impl Ids {
    /// Takes ids for a space; returns the new ones of those that another space has.
    fn add(&mut self, space: Space, ids: &BTreeSet<u32>) -> HashMap<u32, u32> {
        let mut new = HashMap::new();
        for &id in ids {
            if *self.taken.entry(id).or_insert(space) == space {
                continue;
            }
            let free = match self.moved.get(&(space, id)) {
                Some(&moved) => moved,
                None => {
                    let next = FIRST_FREE + self.moved.len() as u32;
                    self.moved.insert((space, id), next);
                    self.taken.insert(next, space);
                    next
                }
            };
            new.insert(id, free);
        }
        new
    }
}

fn rename(trace: &mut Trace, pids: &HashMap<u32, u32>, tids: &HashMap<u32, u32>) {
    let pid = |of: &mut Pid| of.0 = pids.get(&of.0).copied().unwrap_or(of.0);
    pid(&mut trace.meta.pid);
    trace
        .meta
        .members
        .iter_mut()
        .for_each(|of| pid(&mut of.pid));
    trace.processes.iter_mut().for_each(|of| pid(&mut of.pid));
    for track in &mut trace.tracks {
        pid(&mut track.pid);
        if track.kind == TrackKind::Thread {
            track.tid = Tid(tids.get(&track.tid.0).copied().unwrap_or(track.tid.0));
        }
    }
    (trace.counter_series.iter_mut()).for_each(|of| pid(&mut of.pid));
    (trace.async_slices.iter_mut()).for_each(|of| pid(&mut of.pid));

    let keys = |names: &[&str]| -> HashSet<Symbol> {
        let found = names.iter().filter_map(|name| trace.strings.find(name));
        found.collect()
    };
    let (of_pids, of_tids) = (keys(&PIDS), keys(&TIDS));
    let slices = trace.slices.iter_mut().map(|slice| &mut slice.args);
    let instants = trace.instants.iter_mut().map(|instant| &mut instant.args);
    let asyncs = (trace.async_slices.iter_mut()).map(|slice| &mut slice.args);
    for (key, value) in slices
        .chain(instants)
        .chain(asyncs)
        .flat_map(|args| args.iter_mut())
    {
        let ids = match key {
            key if of_pids.contains(key) => pids,
            key if of_tids.contains(key) => tids,
            _ => continue,
        };
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        if let Some(new) = id.and_then(|id| ids.get(&id)) {
            *value = Value::U64(u64::from(*new));
        }
    }
}
