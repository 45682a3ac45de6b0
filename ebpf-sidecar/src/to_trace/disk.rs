//! Requests to disks, on lanes beside the thread that waited.

use super::{ArgList, Builder, Tracks};
use crate::disk::BlockIo;
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Interval, Slice, Tid, TraceTime, TrackId, TrackKind, Value};
use std::collections::HashMap;

/// First thread id of these lanes. Linux never gives one that large.
const FIRST_LANE: u32 = 0xD800_0000;

/// Lanes of requests: those of one thread may overlap, those of one lane do not.
#[derive(Debug, Default)]
pub(super) struct DiskLanes {
    /// By number of the thread: each lane, and until when it is taken.
    by_thread: HashMap<u32, Vec<(TrackId, TraceTime)>>,
    /// How many lanes there are.
    count: u32,
}

impl Builder<'_> {
    /// All requests, in the order they were handed in.
    pub(super) fn disk_requests(&mut self, tracks: &[Tracks]) {
        let mut requests: Vec<&BlockIo> = self.recording.block_io.iter().collect();
        requests.sort_by_key(|request| (request.start, request.done));
        for request in requests {
            self.disk_request(tracks, request);
        }
    }

    fn disk_request(&mut self, tracks: &[Tracks], request: &BlockIo) {
        let recording = self.recording;
        let track = self.disk_lane(tracks, request);
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        let thread = &recording.threads[request.thread as usize];
        args.number(arg::THREAD, thread.tid.0);
        args.number(arg::BYTES, request.bytes);
        args.text(arg::DISK, &request.disk);
        if let Some(id) = request.submitter {
            args.other(arg::SUBMITTER, recording.other(id));
        }
        if request.unfinished {
            args.push(arg::UNFINISHED, Value::Bool(true));
        }
        let slice = Slice {
            track,
            name: args.strings.intern(request.kind.name()),
            cat: args.strings.intern(cat::BLOCK_IO),
            span: Interval::new(request.start, request.done),
            args: args.list.into(),
        };
        self.conversion.trace.slices.push(slice);
    }

    /// The first lane of the thread that is free when the request starts.
    fn disk_lane(&mut self, tracks: &[Tracks], request: &BlockIo) -> TrackId {
        let thread = &self.recording.threads[request.thread as usize];
        let all = &mut self.conversion.disk_lanes;
        let lanes = all.by_thread.entry(thread.number).or_default();
        let free = lanes.iter_mut().find(|(_, until)| *until <= request.start);
        if let Some((track, until)) = free {
            *until = request.done;
            return *track;
        }
        let name = match lanes.len() {
            0 => format!("{} disk", thread.name),
            n => format!("{} disk ({})", thread.name, n + 1),
        };
        let place = (thread.pid, Tid(FIRST_LANE + all.count));
        all.count += 1;
        let beside = tracks[request.thread as usize].lane.index();
        let sort = self.conversion.trace.tracks[beside].sort;
        let lane = self
            .conversion
            .track(place, &name, sort, TrackKind::Synthetic);
        let lanes = &mut self.conversion.disk_lanes.by_thread;
        let lanes = lanes.entry(thread.number).or_default();
        lanes.push((lane, request.done));
        lane
    }
}
