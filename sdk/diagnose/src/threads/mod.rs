//! What each OS thread did at each moment, as the kernel saw it: running, waiting for a CPU, or
//! blocked, and on what.

mod cpus;
mod lane;
mod programs;
mod read;
mod sums;
mod turns;

pub(crate) use lane::{Lane, Stretch};
pub use lane::{MAX_LOST_PART, SAMPLE_REACH};
pub(crate) use programs::{Program, Programs};
pub use read::WAKE_UP;
pub(crate) use read::{Totals, tid_of};
pub(crate) use sums::{StateSums, What, Who};
pub(crate) use turns::Turn;

use crate::id_map::IdMap;
use crate::rules::BlockedOn;
use cpus::Cpus;
use gpustall_trace::{Interval, Nanos, Tid, Trace, TraceTime, TrackKind};
use read::{Event, Kernel, Other};
use std::collections::{BTreeMap, HashSet};

/// All threads of which the kernel recorded anything.
#[derive(Default)]
pub(crate) struct Threads {
    by_tid: IdMap<Tid, Lane>,
    /// Who had the CPUs.
    pub(crate) cpus: Cpus,
    /// What the threads are of that are not watched.
    pub(crate) programs: Programs,
}

impl Threads {
    /// Reads the trace. `makers` are the threads that make batches.
    pub(crate) fn of(trace: &Trace, makers: &HashSet<Tid>) -> Self {
        let names = Kernel::of(trace);
        let mut by_tid: IdMap<Tid, Lane> = IdMap::default();
        if names.is_empty() {
            return Self::default();
        }
        let end = trace.meta.end;
        let recording = Interval::new(TraceTime::ZERO, end);
        for (at, slice) in trace.slices.iter().enumerate() {
            // The end of a slice of a foreign file may lie before its start.
            let span = Interval::new(slice.span.start, slice.span.end).intersection(recording);
            if let Some((tid, event)) = names.slice(trace, (at, slice), span) {
                let lane = by_tid.entry(tid).or_default();
                match event {
                    Event::Off(off) => lane.off.push(off),
                    Event::Memory(span) => lane.memory.push(span),
                    Event::Request(request) => lane.requests.push(request),
                }
            }
        }
        for instant in &trace.instants {
            if let Some((tid, sample)) = names.sample(trace, instant) {
                by_tid.entry(tid).or_default().samples.push(sample);
            } else if let Some((tid, mut totals)) = names.totals(trace, instant) {
                totals.watched = totals.watched.intersection(recording);
                by_tid.entry(tid).or_default().totals.push(totals);
            }
        }
        for track in &trace.tracks {
            if track.kind == TrackKind::Thread
                && let Some(lane) = by_tid.get_mut(&track.tid)
            {
                lane.pid = lane.pid.or(Some(track.pid));
            }
        }
        for lane in by_tid.values_mut() {
            lane.lay_out(end);
        }
        let cpus = Cpus::of(trace, &by_tid);
        let programs = Programs::of(trace, &by_tid);
        let mut threads = Self {
            by_tid,
            cpus,
            programs,
        };
        threads.find_delegated(end, makers);
        threads
    }

    /// Futex waits in which a thread waited for others of its process to do its work.
    fn find_delegated(&mut self, end: TraceTime, makers: &HashSet<Tid>) {
        let mut found: Vec<(Tid, Vec<usize>)> = Vec::new();
        for (&tid, lane) in &self.by_tid {
            // By who ended them: the waits, how long they were, and how long that thread ran in them.
            let mut by: BTreeMap<Tid, Vec<(usize, Nanos, Nanos)>> = BTreeMap::new();
            for (at, off) in lane.off.iter().enumerate() {
                let own = |waker: &Other| waker.pid.is_some() && waker.pid == lane.pid;
                let waker = off.waker.filter(own).and_then(|waker| waker.tid);
                let waker = waker.filter(|waker| !makers.contains(waker));
                if let Some((waker, other)) = waker.and_then(|by| Some((by, self.by_tid.get(&by)?)))
                    && off.on == BlockedOn::Lock
                {
                    let blocked = Interval::new(off.span.start, off.ready);
                    let wait = (at, blocked.len(), other.running(blocked));
                    by.entry(waker).or_default().push(wait);
                }
            }
            let helped = by.iter().filter(|(waker, waits)| {
                self.by_tid
                    .get(waker)
                    .is_some_and(|lane| idles_outside(lane, waits, end))
            });
            let delegated: Vec<usize> = helped
                .flat_map(|(_, waits)| waits)
                .filter(|(_, length, ran)| ran.get().saturating_mul(2) >= length.get())
                .map(|&(at, ..)| at)
                .collect();
            if !delegated.is_empty() {
                found.push((tid, delegated));
            }
        }
        for (tid, delegated) in found {
            if let Some(lane) = self.by_tid.get_mut(&tid) {
                delegated.into_iter().for_each(|off| lane.delegate(off));
                lane.lay_out(end);
            }
        }
    }

    /// Whether the kernel recorded nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_tid.is_empty()
    }

    /// What was recorded of a thread.
    pub(crate) fn get(&self, tid: Tid) -> Option<&Lane> {
        self.by_tid.get(&tid)
    }

    /// Every thread, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tid, &Lane)> {
        self.by_tid.iter().map(|(&tid, lane)| (tid, lane))
    }
}

/// Whether a thread runs for less than nine tenths of its watched time outside of these waits:
/// who always runs does not work for those that wait, but holds what they wait for.
fn idles_outside(lane: &Lane, waits: &[(usize, Nanos, Nanos)], end: TraceTime) -> bool {
    let whole = Interval::new(TraceTime::ZERO, end);
    let inside: Nanos = waits.iter().map(|&(_, length, _)| length).sum();
    let ran_inside: Nanos = waits.iter().map(|&(.., ran)| ran).sum();
    let outside = lane.known() - inside;
    let ran = lane.running(whole) - ran_inside;
    ran == Nanos::ZERO || ran.get().saturating_mul(10) < outside.get().saturating_mul(9)
}
