//! The clock, the event model and the trace files of gpustall.
//!
//! A recording is a [`Trace`]: processes, tracks (threads and synthetic lanes), slices, instants,
//! counters, flows and async slices, all stamped in [`TraceTime`], nanoseconds since the trace
//! started on `CLOCK_MONOTONIC`. While a job runs, events are appended to a crash-safe
//! [`PartialWriter`]; at the end [`write_finished`] rewrites them as one Chrome JSON file that
//! Perfetto opens and that also carries everything recorded in a lossless block of its own.
//! [`read`] reads either back; [`read_any`] also takes the traces of PyTorch's profiler and other
//! programs that write Chrome JSON.
//!
//! The file format is described in `docs/trace-format.md`; the names that the recorder writes and
//! the diagnosis reads are in [`vocab`].

mod anchor;
mod block;
mod chrome;
mod error;
mod ids;
mod merge;
mod model;
mod schema;
mod strings;
mod time;
mod value;
pub mod vocab;

pub use anchor::{Anchor, NoAnchor};
pub use chrome::{
    ArgsRef, EventRef, FOREIGN_ROWS, PARTIAL_BUFFER_BYTES, PartialWriter, ReadOutcome, SCHED_LINES,
    Source, ViewOptions, WriteStats, partial_path, read, read_any, write_finished,
    write_finished_with,
};
pub use error::{ReadError, WriteError};
pub use ids::{BatchId, Pid, Tid, TrackId};
pub use merge::{MergeError, Part, merge, merge_job};
pub use model::{
    Arg, Args, AsyncSlice, CounterSample, CounterSeries, DeviceInfo, DistributedInfo, Flow,
    FlowEnd, Instant, Loss, Member, Meta, Process, Slice, State, Trace, Track, TrackKind, boot_id,
    job_of,
};
pub use schema::TRACE_SCHEMA;
pub use strings::{Strings, Symbol};
pub use time::{Clock, Interval, ManualClock, MonoTime, MonotonicClock, Nanos, TraceTime};
pub use value::{Value, ValueRef};

/// Runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
