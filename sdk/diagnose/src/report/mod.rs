//! The report: what the diagnosis found, as data.

mod finding;
mod ranks;
mod tables;
mod threads;

pub use finding::{Finding, Link, Stall, StallPiece, StallState, WorkerCount};
pub use ranks::Rank;
pub use tables::{CudaCall, DeviceTime, Fault, Loader, Phase, Queue, Unfinished, Worker};
pub use threads::{Function, Process, Thread, Usage, WorstOff};

use crate::stats::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema of [`Report`]. It grows when a field changes its meaning or goes away; new fields come
/// without a new schema.
pub const REPORT_SCHEMA: u32 = 1;

/// The rules by which this version diagnoses: its version, and a number of its sources, so that a report that
/// others made is known by it.
pub const RULES: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("GPUSTALL_RULES"));

/// What a recording says about its stalls. `Display` is the text on one screen; as JSON it is
/// described field by field in `docs/report.md`.
///
/// Times and lengths are nanoseconds, times counted from the start of the trace; shares are 0..1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// See [`REPORT_SCHEMA`].
    pub schema: u32,
    /// Which rules made it, see [`RULES`]. Empty where a version made it that did not say so.
    #[serde(default)]
    pub rules: String,
    /// What the user called the recording.
    pub name: String,
    /// The result in one sentence.
    pub verdict: String,
    /// How the run ended, in one sentence, where it ended with an error: who, what, when, and the exit code.
    /// Empty where it is not known to have.
    #[serde(default)]
    pub ended: String,
    /// What was recorded, and what would say more.
    pub evidence: Evidence,
    /// Whether the recording was closed; if not, it ends where the file ends.
    pub finished: bool,
    /// Start of the window: that of the first account, with the first complete step.
    pub window_start_ns: u64,
    /// Length of the window, to the end of the recording, pauses not counted. 0 if no step was
    /// complete.
    pub window_ns: u64,
    /// Time in the window in which recording was paused.
    pub paused_ns: u64,
    /// What the charges add up to: the window, once for each device; without one, the accounts of
    /// all threads that train, each from its first complete step to its end.
    pub device_ns: u64,
    /// Whether the steps are of an evaluation, since nothing was trained.
    pub evaluation: bool,
    /// Steady steps: those that are neither first in their epoch nor warm-up, nor cut.
    pub steps: Distribution,
    /// The first steps of the epochs, and warm-up.
    pub first_steps: FirstSteps,
    /// Each device; without one, each thread that runs steps.
    pub devices: Vec<Device>,
    /// Each process of the job, by rank, where several were joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// Share of the device time of each cause, and of `compute`. They add up to 1; empty if there
    /// is no window.
    pub breakdown: BTreeMap<String, f64>,
    /// The same in nanoseconds. They add up to `device_ns` exactly.
    pub charges_ns: BTreeMap<String, u64>,
    /// What costs at least 5 % of the device time, the largest loss first.
    pub findings: Vec<Finding>,
    /// Loaders that were iterated in the window.
    pub loaders: Vec<Loader>,
    /// Threads that made batches in the window.
    pub workers: Vec<Worker>,
    /// Threads that the kernel was asked about: those that train first, then those that make
    /// batches, then the busiest.
    #[serde(default)]
    pub threads: Vec<Thread>,
    /// Their processes, the busiest first; sums over all their watched threads.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// Phases that the user marked, on the threads that run steps, in the window.
    pub phases: Vec<Phase>,
    /// What devices did for threads that were in no phase. `None` without phases or devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_phases: Option<DeviceTime>,
    /// What devices did for several phases at once: Burn's fusion makes one kernel of operations of several.
    /// `None` without phases or devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several_phases: Option<DeviceTime>,
    /// What devices did of which it is not known for which phase. `None` without phases or devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untied: Option<DeviceTime>,
    /// Calls of the CUDA runtime and driver in the window, the most time in total first.
    #[serde(default)]
    pub calls: Vec<CudaCall>,
    /// What went wrong in the job.
    pub faults: Vec<Fault>,
    /// What had not ended when the recording did, the longest first.
    pub unfinished: Vec<Unfinished>,
    /// Events that each source could not keep. Where there are any, the window is incomplete.
    pub lost_events: BTreeMap<String, u64>,
    /// What the reader should know, each one sentence.
    pub notes: Vec<String>,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Level of evidence: `spans` (slices of the SDK only), `spans + device`, `gpustall run`,
    /// `gpustall run with the Python hook`, or `foreign trace` (of another profiler); `+ sidecar` follows where the kernel's events were recorded.
    pub level: String,
    /// What there is.
    pub have: Vec<String>,
    /// What there is not.
    pub missing: Vec<Missing>,
}

/// Evidence that was not collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What it would say.
    pub adds: String,
    /// How to get it; empty where this version cannot record it.
    pub how: String,
}

/// The steps that are reported apart from the steady ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FirstSteps {
    /// How long they took.
    #[serde(flatten)]
    pub length: Distribution,
    /// How many of them are warm-up rather than first in their epoch.
    pub warmup: u64,
}

/// How a device spent the window, or a thread its account. What was not measured is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the device; without one, of the thread.
    pub name: String,
    /// OS thread id, where a thread stands for the device.
    pub tid: Option<u32>,
    /// Length of its account.
    #[serde(default)]
    pub window_ns: u64,
    /// Its account by cause, `compute` included. They add up to `window_ns` exactly.
    #[serde(default)]
    pub charges_ns: BTreeMap<String, u64>,
    /// Share of the window in which it computed.
    pub compute: f64,
    /// Share in which only communication ran.
    pub exposed_comm: Option<f64>,
    /// Share in which only copies ran.
    pub exposed_copy: Option<f64>,
    /// Share in which nothing ran.
    pub idle: f64,
}
