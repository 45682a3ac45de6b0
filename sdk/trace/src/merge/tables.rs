//! The merged trace while recordings are appended to it.

use super::order::Order;
use crate::{CounterSeries, Pid, Process, Symbol, Tid, Trace, Track, TrackId, TrackKind, vocab};
use std::collections::{HashMap, HashSet};

/// First id for a process that only groups tracks, where two recordings gave the same one.
const FIRST_PID: u32 = Pid::SYNTHETIC + 0x0080_0000;
/// First id for a synthetic track, where two recordings gave the same one.
const FIRST_TID: u32 = 0xC800_0000;

/// The merged trace and what is known in it.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) trace: Trace,
    processes: HashMap<Pid, usize>,
    tracks: HashMap<(Pid, Tid), TrackId>,
    series: HashMap<CounterSeries, u32>,
    /// Sources of losses in the recordings before.
    pub(super) sources: HashSet<Symbol>,
    pub(super) order: Order,
    pub(super) numbers: super::numbers::Numbers,
    /// Whether devices have one number in all recordings, so that what groups their streams is one.
    pub(super) of_job: bool,
}

impl Tables {
    /// For recordings in which a device has one number.
    pub(super) fn of_job() -> Self {
        Self {
            of_job: true,
            ..Self::default()
        }
    }

    /// Adds the processes of a recording; returns their ids in the merged trace where they differ.
    pub(super) fn processes(&mut self, part: &Trace, symbols: &[Symbol]) -> HashMap<Pid, Pid> {
        let before: HashSet<Pid> = self.processes.keys().copied().collect();
        let mut list: Vec<&Process> = part.processes.iter().collect();
        list.sort_by_key(|process| process.sort);
        let last = self
            .trace
            .processes
            .iter()
            .filter(|process| !process.pid.is_device())
            .map(|process| process.sort)
            .max();
        let mut sort = last.map_or(0, |last| last.saturating_add(1));
        let mut moved = HashMap::new();
        for process in list {
            let mut new = Process {
                name: symbols[process.name.0 as usize],
                ..*process
            };
            if !before.is_empty() && !process.pid.is_synthetic() {
                new.sort = sort;
            }
            if let Some(&known) = self.processes.get(&process.pid) {
                let known = &mut self.trace.processes[known];
                // Its recorder did not know its name.
                if self.trace.strings.get(known.name) == format!("process {}", process.pid) {
                    known.name = new.name;
                }
                let one = self.of_job && process.pid.is_device();
                if !process.pid.is_synthetic() || process.pid == Pid(vocab::host::PID) || one {
                    continue;
                }
                new.pid = self.free_pid(part);
                moved.insert(process.pid, new.pid);
            }
            sort = sort.saturating_add(1);
            self.processes.insert(new.pid, self.trace.processes.len());
            self.trace.processes.push(new);
        }
        moved
    }

    fn free_pid(&self, part: &Trace) -> Pid {
        let taken: HashSet<Pid> = part.processes.iter().map(|process| process.pid).collect();
        let mut free = (FIRST_PID..u32::MAX).map(Pid);
        free.find(|pid| !self.processes.contains_key(pid) && !taken.contains(pid))
            .unwrap_or(Pid(u32::MAX))
    }

    /// Adds a track, or finds the thread that it is.
    pub(super) fn track(&mut self, mut track: Track) -> (TrackId, bool) {
        if let Some(&known) = self.tracks.get(&(track.pid, track.tid)) {
            let thread = &mut self.trace.tracks[known.index()];
            if (thread.kind, track.kind) == (TrackKind::Thread, TrackKind::Thread) {
                // Its recorder did not know its name.
                if self.trace.strings.get(thread.name) == format!("thread {}", track.tid) {
                    thread.name = track.name;
                }
                return (known, true);
            }
            let mut free = (FIRST_TID..u32::MAX).map(Tid);
            let next = free.find(|tid| !self.tracks.contains_key(&(track.pid, *tid)));
            track.tid = next.unwrap_or(Tid(u32::MAX));
        }
        let id = TrackId(self.trace.tracks.len() as u32);
        self.tracks.insert((track.pid, track.tid), id);
        self.trace.tracks.push(track);
        (id, false)
    }

    /// Adds a counter. `other` is its name where a recording before has one of its name.
    pub(super) fn series(&mut self, mut series: CounterSeries, other: Symbol) -> u32 {
        if self.series.contains_key(&series) {
            series.name = other;
        }
        let all = &mut self.trace.counter_series;
        *self.series.entry(series).or_insert_with(|| {
            all.push(series);
            all.len() as u32 - 1
        })
    }

    /// The merged trace.
    pub(super) fn finish(mut self) -> Trace {
        self.order.finish(&mut self.trace.tracks);
        let trace = &mut self.trace;
        // A process that only held findings is drawn anew too.
        let used: HashSet<Pid> = (trace.tracks.iter().map(|track| track.pid))
            .chain(trace.counter_series.iter().map(|series| series.pid))
            .chain(trace.async_slices.iter().map(|slice| slice.pid))
            .collect();
        trace
            .processes
            .retain(|process| !process.pid.is_synthetic() || used.contains(&process.pid));
        if let Some(host) = (trace.processes.iter_mut()).find(|p| p.pid == Pid(vocab::host::PID)) {
            host.sort = i32::MAX;
        }
        self.trace
    }
}
