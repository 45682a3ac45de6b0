//! Where events go in the Chrome view: overlapping slices to extra lanes, flow ends inside slices.
//!
//! Viewers draw the slices of one track as a stack. A slice that overlaps another without lying
//! inside it does not fit there; it goes to an extra lane beside its track. A flow end is drawn
//! at the innermost slice that is open at its time.

use super::encode::Place;
use crate::{Interval, Slice, Symbol, Tid, Trace, TraceTime, Track};
use std::cmp::Reverse;
use std::collections::HashSet;

/// First thread id of extra lanes.
const FIRST_LANE_TID: u32 = 0xE000_0000;

/// An extra lane.
pub(super) struct Lane {
    /// Position of its track in [`Trace::tracks`].
    pub(super) track: usize,
    /// 2 for the first lane beside the track, 3 for the next...
    pub(super) number: u32,
    pub(super) tid: Tid,
}

/// A flow as viewers take it.
pub(super) struct PlacedFlow {
    /// Position in [`Trace::flows`].
    pub(super) flow: usize,
    pub(super) from: (Place, TraceTime),
    pub(super) to: (Place, TraceTime),
}

/// The Chrome view of a trace.
pub(super) struct Layout {
    pub(super) lanes: Vec<Lane>,
    /// The place of each slice; `None` if its track does not exist.
    pub(super) slices: Vec<Option<Place>>,
    pub(super) flows: Vec<PlacedFlow>,
}

/// Lays out `trace`.
pub(super) fn layout(trace: &Trace) -> Layout {
    let mut slices_of: Vec<Vec<u32>> = vec![Vec::new(); trace.tracks.len()];
    for (i, slice) in trace.slices.iter().enumerate() {
        if let Some(list) = slices_of.get_mut(slice.track.index()) {
            list.push(i as u32);
        }
    }
    // Flow ends: 2 * flow for where it leaves, one more for where it arrives.
    let mut ends_of: Vec<Vec<(TraceTime, usize)>> = vec![Vec::new(); trace.tracks.len()];
    for (i, flow) in trace.flows.iter().enumerate() {
        for (end, at) in [(2 * i, flow.from), (2 * i + 1, flow.to)] {
            if let Some(list) = ends_of.get_mut(at.track.index()) {
                list.push((at.at, end));
            }
        }
    }

    let mut tids = Tids::new(trace);
    let mut out = Layout {
        lanes: Vec::new(),
        slices: vec![None; trace.slices.len()],
        flows: Vec::new(),
    };
    let mut placed = vec![None; 2 * trace.flows.len()];
    for (index, (track, (mut slices, mut ends))) in trace
        .tracks
        .iter()
        .zip(slices_of.into_iter().zip(ends_of))
        .enumerate()
    {
        slices.sort_by_key(|&i| {
            let span = trace.slices[i as usize].span;
            (span.start, Reverse(span.end))
        });
        ends.sort_by_key(|&(at, _)| at);
        let mut stacks = Stacks::new(index, track);
        let mut ends = ends.into_iter().peekable();
        for i in slices {
            let slice = &trace.slices[i as usize];
            while let Some((at, end)) = ends.next_if(|&(at, _)| at < slice.span.start) {
                placed[end] = stacks.find(at);
            }
            out.slices[i as usize] = Some(stacks.put(slice, &mut tids, &mut out.lanes));
        }
        for (at, end) in ends {
            placed[end] = stacks.find(at);
        }
    }
    out.flows = join(trace, &placed);
    out
}

/// The flows that viewers take: both ends in a slice, forwards, no id used twice.
fn join(trace: &Trace, placed: &[Option<(Place, TraceTime)>]) -> Vec<PlacedFlow> {
    let mut seen: HashSet<(Symbol, Symbol, u64)> = HashSet::new();
    let mut flows = Vec::new();
    for (flow, one) in trace.flows.iter().enumerate() {
        let (Some(from), Some(to)) = (placed[2 * flow], placed[2 * flow + 1]) else {
            continue;
        };
        if from.1 <= to.1 && seen.insert((one.cat, one.name, one.id)) {
            flows.push(PlacedFlow { flow, from, to });
        }
    }
    flows
}

/// The open slices of one track and of its lanes, while its slices pass in the order of starts.
struct Stacks<'t> {
    index: usize,
    track: &'t Track,
    lanes: Vec<Stack>,
}

struct Stack {
    place: Place,
    open: Vec<Interval>,
    /// The last slice that was taken from the stack.
    closed: Option<Interval>,
}

impl<'t> Stacks<'t> {
    fn new(index: usize, track: &'t Track) -> Self {
        let first = Stack::new((track.pid, track.tid));
        Self {
            index,
            track,
            lanes: vec![first],
        }
    }

    fn put(&mut self, slice: &Slice, tids: &mut Tids, lanes: &mut Vec<Lane>) -> Place {
        for stack in &mut self.lanes {
            if stack.takes(slice.span) {
                return stack.place;
            }
        }
        let tid = tids.next();
        lanes.push(Lane {
            track: self.index,
            number: self.lanes.len() as u32 + 1,
            tid,
        });
        let mut stack = Stack::new((self.track.pid, tid));
        stack.open.push(slice.span);
        self.lanes.push(stack);
        (self.track.pid, tid)
    }

    /// The place and time for a flow end at `at`: inside the innermost slice that is open then,
    /// else in the last nanosecond of one that ended right then.
    fn find(&mut self, at: TraceTime) -> Option<(Place, TraceTime)> {
        for stack in &mut self.lanes {
            stack.close_before(at);
        }
        let open = self
            .lanes
            .iter()
            .filter_map(|stack| Some((stack, stack.open.last()?)));
        if let Some((stack, _)) = open.max_by_key(|(_, span)| (span.start, Reverse(span.end))) {
            return Some((stack.place, at));
        }
        let ended = self.lanes.iter().find_map(|stack| {
            let span = stack.closed.filter(|span| span.end == at)?;
            Some((stack.place, span))
        });
        let (place, span) = ended?;
        let last = TraceTime::from_nanos(span.end.as_nanos().saturating_sub(1));
        Some((place, last.max(span.start)))
    }
}

impl Stack {
    fn new(place: Place) -> Self {
        Self {
            place,
            open: Vec::new(),
            closed: None,
        }
    }

    fn takes(&mut self, span: Interval) -> bool {
        self.close_before(span.start);
        let fits = self.open.last().is_none_or(|parent| span.end <= parent.end);
        if fits {
            self.open.push(span);
        }
        fits
    }

    fn close_before(&mut self, time: TraceTime) {
        while let Some(span) = self.open.pop_if(|span| span.end <= time) {
            self.closed = Some(span);
        }
    }
}

/// Thread ids that the trace does not use.
struct Tids {
    used: HashSet<u32>,
    next: u32,
}

impl Tids {
    fn new(trace: &Trace) -> Self {
        let used = trace.tracks.iter().map(|track| track.tid.0);
        let used = used.filter(|&tid| tid >= FIRST_LANE_TID).collect();
        Self {
            used,
            next: FIRST_LANE_TID,
        }
    }

    fn next(&mut self) -> Tid {
        while self.used.contains(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let tid = Tid(self.next);
        self.next = self.next.wrapping_add(1);
        tid
    }
}
