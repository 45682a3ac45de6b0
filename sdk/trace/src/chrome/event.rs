//! One event as a recorder hands it to a writer, with everything borrowed.

use crate::{Interval, Pid, Tid, TraceTime, TrackKind, ValueRef};

/// Arguments of an event, in order.
pub type ArgsRef<'a> = &'a [(&'a str, ValueRef<'a>)];

/// One event to be appended to a partial file. Threads and processes are named by their ids;
/// they should be introduced ([`EventRef::Process`], [`EventRef::Track`]) before their first
/// event, and may be introduced again when their name changes.
#[derive(Debug, Clone, Copy)]
pub enum EventRef<'a> {
    /// A process and its name.
    Process {
        /// Its id.
        pid: Pid,
        /// Its name.
        name: &'a str,
        /// Where viewers put it; smaller is higher.
        sort: i32,
    },
    /// A track and its name.
    Track {
        /// Process it belongs to.
        pid: Pid,
        /// Thread id, or the made-up id of a synthetic track.
        tid: Tid,
        /// Thread name or title.
        name: &'a str,
        /// Where viewers put it in its process; smaller is higher.
        sort: i32,
        /// Whether an OS thread stands behind it.
        kind: TrackKind,
    },
    /// See [`Slice`](crate::Slice).
    Slice {
        /// Process of the track.
        pid: Pid,
        /// Thread id of the track.
        tid: Tid,
        /// What was done.
        name: &'a str,
        /// Category.
        cat: &'a str,
        /// From when to when.
        span: Interval,
        /// Its arguments.
        args: ArgsRef<'a>,
    },
    /// A slice that is still open while the file is flushed. When the file ends without a slice of
    /// the same track and start, readers return it as a slice that ends with the recording and
    /// has the argument [`UNFINISHED`](crate::vocab::arg::UNFINISHED). Its name and category may
    /// be others at its end: a wait for the next batch becomes the end of the epoch.
    Open {
        /// Process of the track.
        pid: Pid,
        /// Thread id of the track.
        tid: Tid,
        /// What is being done.
        name: &'a str,
        /// Category that the slice will have.
        cat: &'a str,
        /// Since when.
        start: TraceTime,
        /// The time of the flush.
        at: TraceTime,
        /// Its arguments so far.
        args: ArgsRef<'a>,
    },
    /// See [`Instant`](crate::Instant).
    Instant {
        /// Process of the track.
        pid: Pid,
        /// Thread id of the track.
        tid: Tid,
        /// What happened.
        name: &'a str,
        /// Category.
        cat: &'a str,
        /// When.
        at: TraceTime,
        /// Its arguments.
        args: ArgsRef<'a>,
    },
    /// See [`CounterSample`](crate::CounterSample).
    Counter {
        /// Process that the counter belongs to.
        pid: Pid,
        /// Its name.
        name: &'a str,
        /// From when.
        at: TraceTime,
        /// The value.
        value: f64,
    },
    /// See [`Flow`](crate::Flow).
    Flow {
        /// Unique among flows of this name and category.
        id: u64,
        /// Its name.
        name: &'a str,
        /// Category.
        cat: &'a str,
        /// The track it leaves, and a time inside a slice there.
        from: (Pid, Tid, TraceTime),
        /// The track it reaches, and a time inside a slice there; not earlier than `from`.
        to: (Pid, Tid, TraceTime),
    },
    /// See [`AsyncSlice`](crate::AsyncSlice).
    Async {
        /// Process it belongs to.
        pid: Pid,
        /// What it was.
        name: &'a str,
        /// Category.
        cat: &'a str,
        /// Unique among async slices of this process and category.
        id: u64,
        /// From when to when.
        span: Interval,
        /// Its arguments.
        args: ArgsRef<'a>,
    },
    /// See [`Loss`](crate::Loss).
    Loss {
        /// What lost them.
        source: &'a str,
        /// When the count was taken.
        at: TraceTime,
        /// How many that source has lost since the recording started.
        total: u64,
    },
    /// A sentence for the user, see [`Meta::notes`](crate::Meta::notes).
    Note {
        /// The sentence.
        text: &'a str,
    },
}
