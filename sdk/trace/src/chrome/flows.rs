//! Flows so that viewers draw the arrow that was meant.
//!
//! Perfetto gives a flow end to the slice (or instant) of that track that *began* last, whether
//! it is still open or not, and turns the arrow round when the slice it leaves began after the
//! one it reaches. So an end is put at the start of its slice. Where that does not do (a consumer
//! that was waiting before its batch was begun), an instant of the slice's category is put where
//! the arrow ends, and takes its place.

use super::encode::FlowEnd;
use super::layout::Found;
use crate::{Symbol, Trace, TraceTime};
use std::collections::HashSet;

/// A flow as viewers take it.
pub(super) struct PlacedFlow<'t> {
    /// Position in [`Trace::flows`].
    pub(super) flow: usize,
    pub(super) from: FlowEnd<'t>,
    pub(super) to: FlowEnd<'t>,
}

/// A flow end with its slice, and whether viewers give an end at the slice's start to the slice.
#[derive(Debug, Clone, Copy)]
struct Resolved {
    found: Found,
    alone: bool,
}

/// The ends of all flows, resolved track by track.
pub(super) struct FlowEnds {
    /// Time and number of each end, by track and time. The number is twice the flow's where it
    /// leaves, one more where it arrives.
    of_track: Vec<Vec<(TraceTime, usize)>>,
    /// Times of the instants on each track that flows meet.
    instants_of: Vec<HashSet<TraceTime>>,
    resolved: Vec<Option<Resolved>>,
    track: usize,
    done: usize,
}

impl FlowEnds {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut of_track = vec![Vec::new(); trace.tracks.len()];
        for (i, flow) in trace.flows.iter().enumerate() {
            for (number, end) in [(2 * i, flow.from), (2 * i + 1, flow.to)] {
                if let Some(list) = of_track.get_mut(end.track.index()) {
                    list.push((end.at, number));
                }
            }
        }
        for list in &mut of_track {
            list.sort_by_key(|&(at, _)| at);
        }
        let mut instants_of = vec![HashSet::new(); trace.tracks.len()];
        for instant in &trace.instants {
            let track = instant.track.index();
            if of_track.get(track).is_some_and(|ends| !ends.is_empty()) {
                instants_of[track].insert(instant.at);
            }
        }
        let resolved = vec![None; 2 * trace.flows.len()];
        Self {
            of_track,
            instants_of,
            resolved,
            track: 0,
            done: 0,
        }
    }

    /// Turns to the ends on the track at `track`.
    pub(super) fn start_track(&mut self, track: usize) {
        (self.track, self.done) = (track, 0);
    }

    /// Resolves the ends on the track before `time`.
    pub(super) fn find_before(
        &mut self,
        time: TraceTime,
        mut find: impl FnMut(TraceTime) -> Option<Found>,
    ) {
        let ends = &self.of_track[self.track];
        while let Some(&(at, number)) = ends.get(self.done).filter(|&&(at, _)| at < time) {
            self.resolved[number] = find(at).map(|found| Resolved {
                found,
                alone: false,
            });
            self.done += 1;
        }
    }

    /// Resolves the ends that are left on the track.
    pub(super) fn find_rest(&mut self, mut find: impl FnMut(TraceTime) -> Option<Found>) {
        for &(at, number) in &self.of_track[self.track][self.done..] {
            self.resolved[number] = find(at).map(|found| Resolved {
                found,
                alone: false,
            });
        }
    }

    /// Notes which slices viewers would take; `last` says whether a slice comes last of those
    /// that begin with it.
    pub(super) fn finish_track(&mut self, last: impl Fn(&Found) -> bool) {
        let instants = &self.instants_of[self.track];
        for &(_, number) in &self.of_track[self.track] {
            if let Some(Resolved { found, alone }) = &mut self.resolved[number] {
                let instant = found.on_own_track() && instants.contains(&found.start);
                *alone = !instant && last(found);
            }
        }
    }

    /// The flows that viewers take: both ends in a slice, forwards, no id used twice.
    pub(super) fn join<'t>(&self, trace: &'t Trace) -> Vec<PlacedFlow<'t>> {
        let mut seen: HashSet<(Symbol, Symbol, u64)> = HashSet::new();
        let mut flows = Vec::new();
        for (flow, one) in trace.flows.iter().enumerate() {
            let ends = (self.resolved[2 * flow], self.resolved[2 * flow + 1]);
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let end = |found: Found, ts: TraceTime, at: TraceTime, direct: bool| {
                let cat = trace.text(trace.slices[found.slice as usize].cat);
                let marker = (!direct).then_some(cat);
                FlowEnd {
                    place: found.place,
                    ts,
                    at,
                    marker,
                }
            };
            let direct = to.alone && from.found.start <= to.found.start;
            let reached = if direct { to.found.start } else { to.found.at };
            let from = end(from.found, from.found.start, one.from.at, from.alone);
            let to = end(to.found, reached, one.to.at, direct);
            if from.ts <= to.ts && seen.insert((one.cat, one.name, one.id)) {
                flows.push(PlacedFlow { flow, from, to });
            }
        }
        // An end without a marker must not meet the marker of another flow at the same time.
        flows.sort_by_key(|f| f.from.marker.is_some() || f.to.marker.is_some());
        flows
    }
}
