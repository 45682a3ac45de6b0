//! From records to events of the partial file.

use super::open::OpenSlice;
use super::record::{BatchTaken, StepTrack};
use super::ring::Lane;
use super::{Args, Category};
use crate::instrument::queue::Queue;
use gpustall_trace::{
    EventRef, Interval, MonoTime, PartialWriter, Pid, Tid, TraceTime, TrackKind, ValueRef,
    WriteError, vocab,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Process that groups the tracks made for the reader: steps, pauses, starvation chains.
pub(crate) const STORY_PID: Pid = Pid(Pid::SYNTHETIC);
/// Process that groups the batches in flight.
pub(crate) const QUEUES_PID: Pid = Pid(Pid::SYNTHETIC + 1);
/// Track of pauses in the recording.
pub(crate) const PAUSE_TID: Tid = Tid(Pid::SYNTHETIC + 1);
/// Tracks of steps start here.
pub(crate) const FIRST_STEP_TID: u32 = Pid::SYNTHETIC + 0x100;

/// Writes the events of one session.
#[derive(Debug)]
pub(crate) struct Emitter {
    pub(super) partial: PartialWriter,
    start: MonoTime,
    pub(super) pid: Pid,
    step_tracks: HashSet<StepTrack>,
    /// Threads of the process that were introduced, by themselves or by the sidecar.
    threads: HashMap<Tid, KnownThread>,
    pub(super) nameless: Vec<(Arc<Queue>, MonoTime, i64)>,
    /// Taken batches since the last drain, and before it.
    pub(super) taken: [Vec<(Tid, BatchTaken)>; 2],
    #[cfg(feature = "cuda")]
    devices: Option<crate::cuda::Devices>,
}

#[derive(Debug, Default)]
struct KnownThread {
    /// What the thread calls itself; the kernel knows the first 15 bytes of it.
    name: Option<String>,
    sort: i32,
}

impl Emitter {
    /// Introduces the processes of the recording `title` of process `pid`, called `process`.
    pub(crate) fn new(
        mut partial: PartialWriter,
        start: MonoTime,
        pid: Pid,
        process: &str,
        title: &str,
    ) -> Self {
        let story = format!("gpustall: {title}");
        for (pid, name, sort) in [
            (STORY_PID, story.as_str(), -2),
            (pid, process, 0),
            (QUEUES_PID, "gpustall: batches in flight", 1000),
        ] {
            partial.push(&EventRef::Process { pid, name, sort });
        }
        Self {
            partial,
            start,
            pid,
            step_tracks: HashSet::new(),
            threads: HashMap::new(),
            nameless: Vec::new(),
            taken: Default::default(),
            #[cfg(feature = "cuda")]
            devices: None,
        }
    }

    /// Starts to record what the devices of the process do.
    #[cfg(feature = "cuda")]
    pub(crate) fn start_devices(&mut self) {
        let devices = crate::cuda::Devices::start(self.pid, self.start, &mut self.partial);
        self.devices = Some(devices);
    }

    /// The track of a thread of the recorded process.
    pub(crate) fn place(&self, tid: Tid) -> (Pid, Tid) {
        (self.pid, tid)
    }

    pub(crate) fn time(&self, at: MonoTime) -> TraceTime {
        at.in_trace(self.start)
    }

    pub(super) fn interval(&self, (start, end): (MonoTime, MonoTime)) -> Interval {
        Interval::new(self.time(start), self.time(end))
    }

    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        #[cfg(feature = "cuda")]
        if let Some(devices) = &mut self.devices {
            devices.poll(&mut self.partial);
        }
        self.partial.flush()
    }

    /// Looks after a window of the devices that is to close soon; how soon to do so again, if there is one.
    pub(crate) fn look_at_devices(&mut self) -> Option<std::time::Duration> {
        #[cfg(feature = "cuda")]
        if let Some(devices) = &mut self.devices {
            return devices.look(&mut self.partial);
        }
        None
    }

    /// A step on this track is over: how long steps take tells what capturing the devices costs.
    pub(crate) fn step_ended(&mut self, track: StepTrack, start: MonoTime, end: MonoTime) {
        #[cfg(feature = "cuda")]
        if let Some(devices) = &mut self.devices {
            devices.step(track.tid.0, start, end);
        }
        #[cfg(not(feature = "cuda"))]
        let _ = (track, start, end);
    }

    /// Ends the recording; the devices' last events may still have to be flushed.
    #[cfg_attr(
        not(feature = "cuda"),
        allow(unused_mut, reason = "only devices are still to be asked")
    )]
    pub(crate) fn into_partial(mut self) -> PartialWriter {
        #[cfg(feature = "cuda")]
        if let Some(devices) = self.devices.take() {
            devices.finish(&mut self.partial);
            // A failure was told by the flush before, or is told by the reader.
            let _ = self.partial.flush();
        }
        self.partial
    }

    /// A thread recorded its first event.
    pub(crate) fn thread(&mut self, lane: &Lane) {
        let kernel_name;
        let name = if lane.name.is_empty() {
            kernel_name = thread_name(lane.tid);
            &kernel_name
        } else {
            &lane.name
        };
        let known = self.threads.entry(lane.tid).or_default();
        known.name = Some(name.to_owned());
        self.partial.push(&EventRef::Track {
            pid: self.pid,
            tid: lane.tid,
            name,
            sort: known.sort,
            kind: TrackKind::Thread,
        });
    }

    /// An event of the sidecar. The process, and its threads that recorded something, have their
    /// names from this session; where viewers put them, so that each is beside its lane, from the
    /// sidecar.
    pub(crate) fn kernel(&mut self, event: &EventRef<'_>) {
        match *event {
            EventRef::Process { pid, .. } if pid == self.pid => {}
            EventRef::Track {
                pid,
                tid,
                name,
                sort,
                kind: TrackKind::Thread,
            } if pid == self.pid => {
                let known = self.threads.entry(tid).or_default();
                known.sort = sort;
                self.partial.push(&EventRef::Track {
                    pid,
                    tid,
                    name: known.name.as_deref().unwrap_or(name),
                    sort,
                    kind: TrackKind::Thread,
                });
            }
            _ => self.partial.push(event),
        }
    }

    pub(crate) fn slice(
        &mut self,
        (pid, tid): (Pid, Tid),
        cat: Category,
        name: &str,
        span: (MonoTime, MonoTime),
        args: &Args,
    ) {
        let span = self.interval(span);
        let cat = cat.as_str();
        with_args(args, |args| {
            self.partial.push(&EventRef::Slice {
                pid,
                tid,
                name,
                cat,
                span,
                args,
            });
        });
    }

    /// A `tracing` span; its module path is its first argument.
    pub(crate) fn span(
        &mut self,
        (pid, tid): (Pid, Tid),
        metadata: &tracing::Metadata<'_>,
        span: (MonoTime, MonoTime),
        args: &Args,
    ) {
        let span = self.interval(span);
        let target = (vocab::arg::TARGET, ValueRef::Str(metadata.target()));
        with_args(args, |fields| {
            let mut args = Vec::with_capacity(fields.len() + 1);
            args.push(target);
            args.extend_from_slice(fields);
            self.partial.push(&EventRef::Slice {
                pid,
                tid,
                name: metadata.name(),
                cat: Category::Span.as_str(),
                span,
                args: &args,
            });
        });
    }

    pub(crate) fn open(&mut self, slice: &OpenSlice, now: MonoTime) {
        let (pid, tid) = slice.place;
        let (start, at) = (self.time(slice.start), self.time(now));
        with_args(&slice.args, |args| {
            self.partial.push(&EventRef::Open {
                pid,
                tid,
                name: slice.name,
                cat: slice.cat.as_str(),
                start,
                at,
                args,
            });
        });
    }

    pub(crate) fn instant(
        &mut self,
        (pid, tid): (Pid, Tid),
        cat: Category,
        name: &str,
        at: MonoTime,
        args: &Args,
    ) {
        let at = self.time(at);
        let cat = cat.as_str();
        with_args(args, |args| {
            // A log event is called by what it says; its own name is a source position.
            let message = args.iter().find_map(|(key, value)| match value {
                ValueRef::Str(text) if *key == vocab::arg::MESSAGE => Some(*text),
                _ => None,
            });
            let name = match message {
                Some(message) if cat == vocab::cat::EVENT => message,
                _ => name,
            };
            self.partial.push(&EventRef::Instant {
                pid,
                tid,
                name,
                cat,
                at,
                args,
            });
        });
    }

    pub(crate) fn counter(&mut self, name: &str, at: MonoTime, value: f64) {
        let at = self.time(at);
        self.partial.push(&EventRef::Counter {
            pid: self.pid,
            name,
            at,
            value,
        });
    }

    /// The track of a loop's steps; introduced when it is first asked for.
    pub(crate) fn step_place(&mut self, track: StepTrack) -> (Pid, Tid) {
        if self.step_tracks.insert(track) {
            self.partial.push(&EventRef::Track {
                pid: STORY_PID,
                tid: track.tid,
                name: track.name,
                sort: 1,
                kind: TrackKind::Synthetic,
            });
        }
        (STORY_PID, track.tid)
    }

    /// The recording was paused from `start` on; until `end`, once that is known.
    pub(crate) fn pause(&mut self, start: MonoTime, end: Option<MonoTime>, now: MonoTime) {
        let (pid, tid) = (STORY_PID, PAUSE_TID);
        self.partial.push(&EventRef::Track {
            pid,
            tid,
            name: "recording paused",
            sort: 9,
            kind: TrackKind::Synthetic,
        });
        let (name, cat) = ("paused", vocab::cat::PAUSE);
        let event = match end {
            Some(end) => EventRef::Slice {
                pid,
                tid,
                name,
                cat,
                span: self.interval((start, end)),
                args: &[],
            },
            None => EventRef::Open {
                pid,
                tid,
                name,
                cat,
                start: self.time(start),
                at: self.time(now),
                args: &[],
            },
        };
        self.partial.push(&event);
    }

    pub(crate) fn loss(&mut self, source: &str, at: MonoTime, total: u64) {
        let at = self.time(at);
        self.partial.push(&EventRef::Loss { source, at, total });
    }
}

fn with_args(args: &Args, write: impl FnOnce(&[(&str, ValueRef<'_>)])) {
    match args.as_deref() {
        None => write(&[]),
        Some(args) => {
            let args: Vec<_> = args.iter().map(|(k, v)| (*k, v.as_ref())).collect();
            write(&args);
        }
    }
}

/// What the kernel calls a thread of this process.
fn thread_name(tid: Tid) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).map_or_else(
        |_| format!("thread {tid}"),
        |name| name.trim_end().to_owned(),
    )
}
