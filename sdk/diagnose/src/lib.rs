//! From a recording to the reason why the device was starved.
//!
//! [`diagnose`] takes a [`Trace`] and gives a [`Report`]: every nanosecond of the window is
//! charged to compute or to exactly one cause, the charges add up to the whole, and what costs
//! enough becomes a finding with a chain from the device's thread over the worker that made the
//! batch to the stage that took the time. [`annotate`] draws the chains into the trace.
//!
//! It is a function of the timeline: no clock, no file, no knowledge of a framework beyond the
//! names in [`gpustall_trace::vocab`] and the words of its remedies.
//!
//! ```
//! use gpustall_trace::Trace;
//!
//! let mut trace = Trace::default();
//! let report = gpustall_diagnose::diagnose(&trace);
//! assert!(report.verdict.starts_with("too little to judge"));
//! gpustall_diagnose::annotate(&mut trace, &report);
//! ```

mod advice;
mod advised;
mod analysis;
mod annotations;
mod at_once;
mod burn;
mod call_table;
mod cause;
mod caveat;
mod chain;
mod charge;
mod contended;
mod cover;
mod crew;
mod culprits;
mod cut_off;
mod device;
mod device_chain;
mod device_proof;
mod disk;
mod ending;
mod epochs;
mod events;
mod evidence;
mod feeders;
mod finding;
mod finding_place;
mod findings_track;
mod foreign;
mod framework;
mod group;
mod id_map;
mod iterable;
mod job;
mod kernel_advice;
mod links;
mod loader_waits;
mod loaders;
mod loop_steps;
mod maker;
mod names;
mod need;
mod own_steps;
mod partition;
mod piece;
mod pipeline;
mod pytorch;
mod ranks;
mod recorded;
mod remedy;
mod report;
pub mod rules;
mod sampling;
mod stages;
mod state_links;
mod stats;
mod steps;
mod stopping;
mod taken;
mod tally;
mod text;
mod thread_table;
mod threads;
mod timeline;
mod trainers;
mod turnover;
mod uneven;
mod unmarked;
mod unseen_kernels;
mod user_spans;
mod verdict;
mod wait_cause;
mod waits;
mod window;
mod worker_counts;
mod workers;
mod worst;
mod worth;

pub use at_once::AT_ONCE_PART;
pub use cause::{COMPUTE, Cause, DATA_COMPUTE_MIN_CPU_SHARE, DATA_COMPUTE_MIN_OWN_SHARE, Severity};
pub use device_proof::PINNED_OVER_PAGEABLE;
pub use disk::{
    HELD_BACK_SHARE, MIN_BATCHES, MIN_READS, MIN_SPREAD, ONE_AT_A_TIME_GAIN, PACE_OF_SOURCE,
    READ_AHEAD_REQUESTS, REGULAR_GAP, REGULAR_SHARE, SHORT_WAIT,
};
pub use epochs::SHORT_EPOCH;
pub use finding::KERNEL_START_NS;
pub use findings_track::{
    MAX_DRAWN_PIECES, MAX_DRAWN_STALLS, MAX_STATE_PARTS, STATE_TRACK_NAME, TRACK_NAME, annotate,
};
pub use job::{HANG_FACTOR, HANG_MIN, MAX_LISTED};
pub use loader_waits::{MAX_FAULTING_SHARE, MAX_LOCKED_SHARE};
pub use piece::{Edge, PieceKind};
pub use report::{
    CudaCall, Device, DeviceTime, Evidence, Fault, Finding, FirstSteps, Function, Link, Loader,
    Missing, Phase, Process, Queue, REPORT_SCHEMA, RULES, Rank, Report, Stall, StallPiece,
    StallState, Thread, Unfinished, Usage, Worker, WorkerCount, WorstOff,
};
pub use rules::WORKERS_BUSY_SHARE;
pub use sampling::MIN_SAMPLER_SHARE;
pub use stats::Distribution;
pub use steps::{
    MIN_KERNELS, MIN_LONG_STEPS, MIN_LONG_TIME, MIN_STEPS, WARMUP_FACTOR, WARMUP_MAX_STEPS,
};
pub use thread_table::MAX_LISTED_THREADS;
pub use threads::{MAX_LOST_PART, SAMPLE_REACH, WAKE_UP};
pub use timeline::MAX_UNRECORDED;
pub use uneven::{MIN_WORKER_BATCHES, SLOW_WORKER_FACTOR};
pub use unseen_kernels::MIN_UNSEEN_LAUNCHES;
pub use worker_counts::MAX_WORKER_COUNTS;
pub use workers::{CONTENDED_MIN_RUNNABLE_SHARE, CONTENDED_MIN_WINDOW_SHARE};
pub use worst::{MAX_PIECES, WORST_STALLS};

use gpustall_trace::Trace;

/// What a trace says about its stalls.
///
/// Never panics, whatever the trace; what is contradictory in it is cut to fit. Takes
/// `n log n` for `n` events. Slices of the category `finding` are ignored, so a trace that has
/// been annotated gives the same report again.
pub fn diagnose(trace: &Trace) -> Report {
    analysis::report(trace)
}
