//! The tracks of devices, streams and threads, introduced when they are first needed.

use crate::emit::EventSink;
use gpustall_trace::{EventRef, Pid, Tid, TrackKind};
use std::collections::{HashMap, HashSet};

/// First made-up id of a track.
const FIRST_TID: u32 = 0xC000_0000;
/// Where viewers put devices: below the processes.
const DEVICE_SORT: i32 = 5_000_000;

/// A track, by its ids.
pub(crate) type Lane = (Pid, Tid);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Stream(u32, u32),
    Waits(u32, Option<u32>),
    Overhead,
}

/// The tracks of one process.
#[derive(Debug)]
pub(crate) struct Tracks {
    pid: Pid,
    threads: HashSet<Tid>,
    made: HashMap<Made, Lane>,
    last: Option<(Made, Lane)>,
    devices: HashMap<u32, String>,
    introduced: HashSet<u32>,
    contexts: HashMap<u32, u32>,
}

impl Tracks {
    /// Of process `pid`.
    pub(crate) fn new(pid: Pid) -> Self {
        Self {
            pid,
            threads: HashSet::new(),
            made: HashMap::new(),
            last: None,
            devices: HashMap::new(),
            introduced: HashSet::new(),
            contexts: HashMap::new(),
        }
    }

    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// A context belongs to a device.
    pub(crate) fn context(&mut self, context: u32, device: u32) {
        self.contexts.insert(context, device);
    }

    /// The device of a context; 0 if it is not known, which is right where there is one device.
    pub(crate) fn device_of(&self, context: u32) -> u32 {
        self.contexts.get(&context).copied().unwrap_or(0)
    }

    /// The track of a thread of the process.
    pub(crate) fn thread(&mut self, tid: Tid, sink: &mut dyn EventSink) -> Lane {
        if self.threads.insert(tid) {
            let name = thread_name(self.pid, tid);
            sink.push(&EventRef::Track {
                pid: self.pid,
                tid,
                name: &name,
                sort: 0,
                kind: TrackKind::Thread,
            });
        }
        (self.pid, tid)
    }

    /// The track of a stream.
    pub(crate) fn stream(&mut self, device: u32, stream: u32, sink: &mut dyn EventSink) -> Lane {
        self.lane(Made::Stream(device, stream), sink)
    }

    /// Whether there are tracks of more than one stream of a device.
    pub(crate) fn has_several_streams(&self) -> bool {
        let mut devices = HashSet::new();
        self.made.keys().any(|made| match made {
            Made::Stream(device, _) => !devices.insert(*device),
            _ => false,
        })
    }

    /// The track of the waits for a stream, or for the whole device.
    pub(crate) fn waits(
        &mut self,
        device: u32,
        stream: Option<u32>,
        sink: &mut dyn EventSink,
    ) -> Lane {
        self.lane(Made::Waits(device, stream), sink)
    }

    /// The track of what the profiler took for itself.
    pub(crate) fn overhead(&mut self, sink: &mut dyn EventSink) -> Lane {
        self.lane(Made::Overhead, sink)
    }

    fn lane(&mut self, made: Made, sink: &mut dyn EventSink) -> Lane {
        if let Some((last, lane)) = self.last
            && last == made
        {
            return lane;
        }
        let lane = match self.made.get(&made) {
            Some(&lane) => lane,
            None => self.introduce(made, sink),
        };
        self.last = Some((made, lane));
        lane
    }

    fn introduce(&mut self, made: Made, sink: &mut dyn EventSink) -> Lane {
        let sorted = |stream: u32, order: i32| {
            let stream = i32::try_from(stream).unwrap_or(i32::MAX / 8);
            stream.saturating_mul(4).saturating_add(order)
        };
        let (pid, name, sort) = match made {
            Made::Stream(device, stream) => {
                let name = format!("stream {stream}");
                (self.device(device, sink), name, sorted(stream, 0))
            }
            Made::Waits(device, Some(stream)) => {
                let name = format!("stream {stream} waits");
                (self.device(device, sink), name, sorted(stream, 2))
            }
            Made::Waits(device, None) => (self.device(device, sink), "waits".into(), i32::MAX / 2),
            Made::Overhead => (self.pid, "CUPTI overhead".into(), 1_000),
        };
        let tid = Tid(FIRST_TID + self.made.len() as u32);
        sink.push(&EventRef::Track {
            pid,
            tid,
            name: &name,
            sort,
            kind: TrackKind::Synthetic,
        });
        self.made.insert(made, (pid, tid));
        (pid, tid)
    }

    fn device(&mut self, device: u32, sink: &mut dyn EventSink) -> Pid {
        let pid = Pid::of_device(device);
        if self.introduced.insert(device) {
            // Asked only now, when the driver is surely initialised.
            let known = crate::devices().into_iter();
            self.devices = known.map(|info| (info.id, info.name)).collect();
            let name = match self.devices.get(&device) {
                Some(name) => format!("GPU {device} ({name})"),
                None => format!("GPU {device}"),
            };
            let sort = DEVICE_SORT.saturating_add(i32::try_from(device).unwrap_or(0));
            sink.push(&EventRef::Process {
                pid,
                name: &name,
                sort,
            });
        }
        pid
    }
}

/// What the kernel calls a thread.
fn thread_name(pid: Pid, tid: Tid) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).map_or_else(
        |_| format!("thread {tid}"),
        |name| name.trim_end().to_owned(),
    )
}
