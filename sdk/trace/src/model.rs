//! What a recording consists of.
//!
//! Events stand in one vector per kind, each in the order of its times, so that readers,
//! the diagnosis and the lossless block all walk plain arrays.

use crate::{Interval, MonoTime, Nanos, Pid, Strings, Symbol, Tid, TraceTime, TrackId, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole recording in memory.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Where and when it was recorded.
    pub meta: Meta,
    /// Every name, category and text in it.
    pub strings: Strings,
    /// Processes, real and synthetic.
    pub processes: Vec<Process>,
    /// Tracks: the threads, and the synthetic lanes beside them.
    pub tracks: Vec<Track>,
    /// Slices, by start and then the longest first, so that a parent comes before its children.
    pub slices: Vec<Slice>,
    /// Instants, by time.
    pub instants: Vec<Instant>,
    /// What the counter samples count.
    pub counter_series: Vec<CounterSeries>,
    /// Counter samples, by time.
    pub counters: Vec<CounterSample>,
    /// Arrows, by the time they leave.
    pub flows: Vec<Flow>,
    /// Async slices, by start.
    pub async_slices: Vec<AsyncSlice>,
    /// Events that could not be kept, by time.
    pub losses: Vec<Loss>,
    /// The diagnosis, as `gpustall-diagnose` wrote it.
    pub report: Option<serde_json::Value>,
}

/// Where, when and by what a recording was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// What the user called the recording.
    pub name: String,
    /// What recorded it: the version of gpustall; or `kineto`, `kineto (legacy)` or `chrome` for a
    /// file of another program.
    pub recorder: String,
    /// Trace time zero on `CLOCK_MONOTONIC`; zero for a trace of another program.
    pub start_mono: MonoTime,
    /// Trace time zero on the wall clock, nanoseconds since the Unix epoch; zero if
    /// not known. For people only.
    pub start_unix_ns: u64,
    /// End of the recording; for a partial file, the time of its last event.
    pub end: TraceTime,
    /// Process that was recorded.
    pub pid: Pid,
    /// CPUs that the process was allowed to use when the recording started.
    pub cpus: u32,
    /// Whether the recording was closed.
    pub state: State,
    /// What the user should know about this recording (a sidecar that was absent, a subscriber
    /// that was already taken), each one sentence.
    pub notes: Vec<String>,
    /// Devices that the machine has, as far as the recorder named them; not only those used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceInfo>,
    /// Which of several processes that train together this is; `None` if it trains alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<DistributedInfo>,
    /// What the launcher calls the job that the process belongs to; empty if nothing says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// Id of the boot of the machine: recordings that have the same one share `CLOCK_MONOTONIC`. Empty if
    /// it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// The processes of one job that were joined in this trace, see [`merge_job`](crate::merge_job); empty
    /// if it is of one process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// What the job exited with, as a shell says it: 128 and the number of the signal where one ended it. `None`
    /// where the recorder did not see its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// A process whose recording is a part of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The process, by its id in this trace.
    pub pid: Pid,
    /// Its rank, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<DistributedInfo>,
    /// From when to when it was recorded.
    pub recorded: Interval,
    /// Devices that it used, by their numbers in this trace, ascending.
    pub devices: Vec<u32>,
}

/// The place of a process among those that train one model together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DistributedInfo {
    /// Its number among them, from 0.
    pub rank: u32,
    /// How many they are.
    pub world_size: u32,
}

impl DistributedInfo {
    /// From the variables of the environment that launchers such as `torchrun` set, `RANK` and
    /// `WORLD_SIZE`, which `variable` looks up. `None` unless both are there and fit together.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let (rank, world_size) = (number("RANK")?, number("WORLD_SIZE")?);
        (rank < world_size).then_some(Self { rank, world_size })
    }
}

/// What the launcher calls the job, from the variables of the environment that `variable` looks up:
/// `torchrun`'s id of the run, else where the processes meet. Empty if there is neither.
pub fn job_of(variable: impl Fn(&str) -> Option<String>) -> String {
    let meets = || {
        let (host, port) = (variable("MASTER_ADDR")?, variable("MASTER_PORT")?);
        Some(format!("{host}:{port}"))
    };
    let run = variable("TORCHELASTIC_RUN_ID").filter(|id| !id.is_empty() && id != "none");
    run.or_else(meets).unwrap_or_default()
}

/// The id of the boot of this machine; empty where the kernel does not tell it.
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or(String::new(), |id| id.trim().to_owned())
}

/// A device that can run kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceInfo {
    /// Its number, as in [`arg::DEVICE`](crate::vocab::arg::DEVICE).
    pub id: u32,
    /// What its maker calls it (`NVIDIA H200`).
    pub name: String,
    /// Its memory in bytes; 0 if the recorder did not say.
    pub memory_bytes: u64,
    /// Streaming multiprocessors; 0 if the recorder did not say.
    pub multiprocessors: u32,
    /// What tells it from every other device, whatever number a process has for it: its UUID as
    /// `nvidia-smi -L` prints it; empty if the recorder did not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
}

/// How far a recording got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Closed by `finish`.
    Finished,
    /// The job ended, or still runs, without `finish`: the file ends where it was last flushed.
    #[default]
    Partial,
}

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its name.
    pub name: Symbol,
    /// Where viewers put it; smaller is higher.
    pub sort: i32,
}

/// A lane of slices: a thread, or a synthetic lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Process it belongs to.
    pub pid: Pid,
    /// Thread id; made up for synthetic lanes, unique with `pid`.
    pub tid: Tid,
    /// Thread name or title.
    pub name: Symbol,
    /// Where viewers put it in its process; smaller is higher.
    pub sort: i32,
    /// Whether an OS thread stands behind it.
    pub kind: TrackKind,
}

/// Whether an OS thread stands behind a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TrackKind {
    /// An OS thread.
    #[default]
    Thread,
    /// A lane made for the reader of the trace.
    Synthetic,
}

/// One named argument.
pub type Arg = (Symbol, Value);

/// The arguments of an event, in the order they were given.
pub type Args = Box<[Arg]>;

/// Something that took time on one track. Slices of one track nest.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// Track it lies on.
    pub track: TrackId,
    /// What was done.
    pub name: Symbol,
    /// Category, see [`vocab`](crate::vocab).
    pub cat: Symbol,
    /// From when to when.
    pub span: Interval,
    /// Its arguments.
    pub args: Args,
}

/// Something that happened at one moment on one track.
#[derive(Debug, Clone, PartialEq)]
pub struct Instant {
    /// Track it lies on.
    pub track: TrackId,
    /// What happened.
    pub name: Symbol,
    /// Category, see [`vocab`](crate::vocab).
    pub cat: Symbol,
    /// When.
    pub at: TraceTime,
    /// Its arguments.
    pub args: Args,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterSeries {
    /// Process that the counter belongs to.
    pub pid: Pid,
    /// Its name.
    pub name: Symbol,
}

/// The value of a counter from one time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSample {
    /// Position in [`Trace::counter_series`].
    pub series: u32,
    /// From when.
    pub at: TraceTime,
    /// The value.
    pub value: f64,
}

/// One end of an arrow: it lies inside a slice of that track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// Track of the slice.
    pub track: TrackId,
    /// A time inside the slice.
    pub at: TraceTime,
}

/// An arrow from one slice to another that it made possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Unique among flows of this name and category.
    pub id: u64,
    /// Its name.
    pub name: Symbol,
    /// Category, see [`vocab`](crate::vocab).
    pub cat: Symbol,
    /// The slice it leaves.
    pub from: FlowEnd,
    /// The slice it reaches; never earlier than it leaves.
    pub to: FlowEnd,
}

/// Something that took time in a process, on no thread in particular (a batch in a queue).
/// Those of one process may overlap.
#[derive(Debug, Clone, PartialEq)]
pub struct AsyncSlice {
    /// Process it belongs to.
    pub pid: Pid,
    /// What it was.
    pub name: Symbol,
    /// Category, see [`vocab`](crate::vocab).
    pub cat: Symbol,
    /// Unique among async slices of this process and category.
    pub id: u64,
    /// From when to when.
    pub span: Interval,
    /// Its arguments.
    pub args: Args,
}

/// Events that one source could not keep, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// What lost them.
    pub source: Symbol,
    /// When the count was taken.
    pub at: TraceTime,
    /// How many that source had lost by then, since the recording started.
    pub total: u64,
}

impl Trace {
    /// The text of a symbol.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.strings.get(symbol)
    }

    /// The track with this id, if there is one.
    pub fn track(&self, id: TrackId) -> Option<&Track> {
        self.tracks.get(id.index())
    }

    /// The value of argument `key` in `args`.
    pub fn arg(&self, args: &[Arg], key: &str) -> Option<Value> {
        let key = self.strings.find(key)?;
        args.iter()
            .find(|(k, _)| *k == key)
            .map(|&(_, value)| value)
    }

    /// The unsigned integer argument `key` in `args`.
    pub fn arg_u64(&self, args: &[Arg], key: &str) -> Option<u64> {
        self.arg(args, key)?.as_u64()
    }

    /// The text argument `key` in `args`.
    pub fn arg_str(&self, args: &[Arg], key: &str) -> Option<&str> {
        match self.arg(args, key)? {
            Value::Str(symbol) => Some(self.text(symbol)),
            _ => None,
        }
    }

    /// Length of the recording.
    pub fn length(&self) -> Nanos {
        self.meta.end.since(TraceTime::ZERO)
    }

    /// Events in the trace: slices, instants, counter samples, flows and async slices.
    pub fn event_count(&self) -> usize {
        self.slices.len()
            + self.instants.len()
            + self.counters.len()
            + self.flows.len()
            + self.async_slices.len()
    }

    /// The last count of each source that lost events.
    pub fn lost_by_source(&self) -> BTreeMap<&str, u64> {
        self.losses
            .iter()
            .map(|loss| (self.text(loss.source), loss.total))
            .collect()
    }

    /// Puts every vector in the order that its documentation promises.
    pub fn sort(&mut self) {
        self.slices
            .sort_by_key(|s| (s.span.start, std::cmp::Reverse(s.span.end)));
        self.instants.sort_by_key(|i| i.at);
        self.counters.sort_by_key(|c| c.at);
        self.flows.sort_by_key(|f| f.from.at);
        self.async_slices.sort_by_key(|a| a.span.start);
        self.losses.sort_by_key(|l| l.at);
    }
}
