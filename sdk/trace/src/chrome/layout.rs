//! Where events go in the Chrome view: overlapping slices to extra lanes, flow ends to slices.
//!
//! Viewers draw the slices of one track as a stack. A slice that overlaps another without lying
//! inside it does not fit there; it goes to an extra lane beside its track.

use super::encode::Place;
use super::flows::{FlowEnds, PlacedFlow};
use crate::{Interval, Tid, Trace, TraceTime, Track};
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

/// The Chrome view of a trace.
pub(super) struct Layout<'t> {
    pub(super) lanes: Vec<Lane>,
    /// The place of each slice; `None` if its track does not exist, or it is not drawn.
    pub(super) slices: Vec<Option<Place>>,
    pub(super) flows: Vec<PlacedFlow<'t>>,
}

/// Lays out `trace`, without the slices at the positions that `hides` names.
pub(super) fn layout(trace: &Trace, hides: impl Fn(usize) -> bool) -> Layout<'_> {
    let mut slices_of: Vec<Vec<u32>> = vec![Vec::new(); trace.tracks.len()];
    for (i, slice) in trace.slices.iter().enumerate().filter(|(i, _)| !hides(*i)) {
        if let Some(list) = slices_of.get_mut(slice.track.index()) {
            list.push(i as u32);
        }
    }
    let mut ends = FlowEnds::new(trace);
    let mut tids = Tids::new(trace);
    let mut lanes = Vec::new();
    let mut places = vec![None; trace.slices.len()];
    for (index, mut slices) in slices_of.into_iter().enumerate() {
        slices.sort_by_key(|&i| {
            let span = trace.slices[i as usize].span;
            (span.start, Reverse(span.end))
        });
        let mut stacks = Stacks::new(index, &trace.tracks[index]);
        ends.start_track(index);
        for i in slices {
            let span = trace.slices[i as usize].span;
            ends.find_before(span.start, |at| stacks.find(at));
            places[i as usize] = Some(stacks.put(i, span, &mut tids, &mut lanes));
        }
        ends.find_rest(|at| stacks.find(at));
        ends.finish_track(|found| stacks.drawn_last_at_its_start(found));
    }
    Layout {
        lanes,
        slices: places,
        flows: ends.join(trace),
    }
}

/// The slice of a flow end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Position in [`Trace::slices`].
    pub(super) slice: u32,
    pub(super) place: Place,
    /// Start of the slice.
    pub(super) start: TraceTime,
    /// The time of the end, inside the slice.
    pub(super) at: TraceTime,
    lane: usize,
    order: usize,
}

impl Found {
    /// Whether the slice lies on its track itself, where instants are too.
    pub(super) fn on_own_track(&self) -> bool {
        self.lane == 0
    }
}

/// The open slices of one track and of its lanes, while its slices pass in the order of starts.
struct Stacks<'t> {
    index: usize,
    track: &'t Track,
    lanes: Vec<Stack>,
}

struct Stack {
    place: Place,
    open: Vec<Entry>,
    /// The last slice that was taken from the stack.
    closed: Option<Entry>,
    /// Starts of all slices of the lane, in order.
    starts: Vec<TraceTime>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    slice: u32,
    span: Interval,
    /// Position in the lane.
    order: usize,
}

impl<'t> Stacks<'t> {
    fn new(index: usize, track: &'t Track) -> Self {
        let own = Stack::new((track.pid, track.tid));
        Self {
            index,
            track,
            lanes: vec![own],
        }
    }

    /// Puts a slice on the first lane that takes it.
    fn put(&mut self, slice: u32, span: Interval, tids: &mut Tids, lanes: &mut Vec<Lane>) -> Place {
        let fitting = self.lanes.iter_mut().position(|stack| stack.fits(span));
        let lane = fitting.unwrap_or_else(|| {
            let (number, tid) = (self.lanes.len() as u32 + 1, tids.next());
            lanes.push(Lane {
                track: self.index,
                number,
                tid,
            });
            self.lanes.push(Stack::new((self.track.pid, tid)));
            self.lanes.len() - 1
        });
        let stack = &mut self.lanes[lane];
        let order = stack.starts.len();
        stack.starts.push(span.start);
        stack.open.push(Entry { slice, span, order });
        stack.place
    }

    /// The slice of a flow end at `at`: the innermost that is open then, else one that ended
    /// right then, the time moved into its last nanosecond.
    fn find(&mut self, at: TraceTime) -> Option<Found> {
        for stack in &mut self.lanes {
            stack.close_before(at);
        }
        let lanes = || self.lanes.iter().enumerate();
        let open = lanes().filter_map(|(lane, stack)| Some((lane, *stack.open.last()?)));
        let innermost = open.max_by_key(|(_, e)| (e.span.start, Reverse(e.span.end)));
        let (lane, entry) = innermost.or_else(|| {
            lanes().find_map(|(lane, s)| Some((lane, s.closed.filter(|e| e.span.end == at)?)))
        })?;
        let last = entry.span.end.as_nanos().saturating_sub(1);
        Some(Found {
            slice: entry.slice,
            place: self.lanes[lane].place,
            start: entry.span.start,
            at: at.min(TraceTime::from_nanos(last)).max(entry.span.start),
            lane,
            order: entry.order,
        })
    }

    /// Whether no other slice of the lane that begins together with it comes after it.
    fn drawn_last_at_its_start(&self, found: &Found) -> bool {
        let next = self.lanes[found.lane].starts.get(found.order + 1);
        next.is_none_or(|&start| start > found.start)
    }
}

impl Stack {
    fn new(place: Place) -> Self {
        Self {
            place,
            open: Vec::new(),
            closed: None,
            starts: Vec::new(),
        }
    }

    fn fits(&mut self, span: Interval) -> bool {
        self.close_before(span.start);
        self.open
            .last()
            .is_none_or(|parent| span.end <= parent.span.end)
    }

    fn close_before(&mut self, time: TraceTime) {
        while let Some(entry) = self.open.pop_if(|entry| entry.span.end <= time) {
            self.closed = Some(entry);
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
