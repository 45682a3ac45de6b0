//! The report: what the diagnosis found, as data.

use crate::cause::{Cause, Severity};
use crate::chain::{Edge, PieceKind};
use crate::stats::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema of [`Report`]. It grows when a field changes its meaning or goes away; new fields come
/// without a new schema.
pub const REPORT_SCHEMA: u32 = 1;

/// What a recording says about its stalls. `Display` is the text on one screen; as JSON it is
/// described field by field in `docs/report.md`.
///
/// Times and lengths are nanoseconds, times counted from the start of the trace; shares are 0..1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// See [`REPORT_SCHEMA`].
    pub schema: u32,
    /// What the user called the recording.
    pub name: String,
    /// The result in one sentence.
    pub verdict: String,
    /// What was recorded, and what would say more.
    pub evidence: Evidence,
    /// Whether the recording was closed; if not, it ends where the file ends.
    pub finished: bool,
    /// Start of the window: that of the first complete step.
    pub window_start_ns: u64,
    /// Length of the window, to the end of the recording, pauses not counted. 0 if no step was
    /// complete.
    pub window_ns: u64,
    /// Time in the window in which recording was paused.
    pub paused_ns: u64,
    /// What the charges add up to: the window, once for each device.
    pub device_ns: u64,
    /// Whether the steps are of an evaluation, since nothing was trained.
    pub evaluation: bool,
    /// Steady steps: those that are neither first in their epoch nor warm-up, nor cut.
    pub steps: Distribution,
    /// The first steps of the epochs, and warm-up.
    pub first_steps: FirstSteps,
    /// Each device; without one, each thread that runs steps.
    pub devices: Vec<Device>,
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
    /// Phases that the user marked, on the threads that run steps, in the window.
    pub phases: Vec<Phase>,
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
    /// Level of evidence; `spans`: slices of the SDK only.
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

/// How a device spent the window. What was not measured is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the device; without one, of the thread.
    pub name: String,
    /// OS thread id, where a thread stands for the device.
    pub tid: Option<u32>,
    /// Share of the window in which it computed.
    pub compute: f64,
    /// Share in which only communication ran.
    pub exposed_comm: Option<f64>,
    /// Share in which only copies ran.
    pub exposed_copy: Option<f64>,
    /// Share in which nothing ran.
    pub idle: f64,
}

/// One cause at one place, over the whole window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Why.
    pub cause: Cause,
    /// How much of the window it costs.
    pub severity: Severity,
    /// The loader, for data causes.
    pub loader: Option<String>,
    /// What the loader is for, `train` or `valid`.
    pub kind: Option<String>,
    /// Device time lost.
    pub lost_ns: u64,
    /// The same as a share of the device time.
    pub share: f64,
    /// Stalls; their `count` and percentiles, as in [`Distribution`].
    #[serde(flatten)]
    pub stalls: Distribution,
    /// From the device to what it waited for. The links of one depth under one link add up to it.
    pub chain: Vec<Link>,
    /// Numbers that prove the chain, by name; the unit ends the name.
    pub evidence: BTreeMap<String, f64>,
    /// The longest stalls, each with its own chain, the longest first.
    pub worst: Vec<Stall>,
    /// What to change.
    pub remedy: String,
    /// The mean step that the prediction is compared with.
    pub step_ns: Option<u64>,
    /// The mean step without this loss.
    pub predicted_step_ns: Option<u64>,
    /// What the prediction takes for granted.
    pub assumption: String,
}

/// One link of a finding's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// How far from the device, from 0. A link hangs on the last one before it that is less deep.
    pub depth: u32,
    /// Which thread or threads.
    pub who: String,
    /// What they did.
    pub what: String,
    /// For how long, all stalls together.
    pub ns: u64,
    /// The same as a share of the finding's loss.
    pub share: f64,
    /// Whether it was seen.
    pub edge: Edge,
    /// The numbers behind it.
    pub evidence: String,
}

/// One stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began.
    pub start_ns: u64,
    /// Device time lost.
    pub lost_ns: u64,
    /// Thread that stalled.
    pub thread: String,
    /// Epoch, from 0.
    pub epoch: Option<u64>,
    /// Step in the epoch, from 0.
    pub step: Option<u64>,
    /// Batch that was waited for.
    pub batch: Option<u64>,
    /// Whether it still went on when the recording ended.
    pub unfinished: bool,
    /// What filled it, in order; with `unlisted_ns` the lengths add up to `lost_ns`.
    pub pieces: Vec<StallPiece>,
    /// Length of the pieces after those.
    pub unlisted_ns: u64,
}

/// A piece of one stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallPiece {
    /// What filled it.
    pub what: PieceKind,
    /// On which thread, where it is known.
    pub who: Option<String>,
    /// Batch that this was for, where it is known.
    pub batch: Option<u64>,
    /// How long.
    pub ns: u64,
    /// The same as a share of the stall.
    pub share: f64,
    /// Share of the whole stage in which its thread was on a CPU, where it was measured.
    pub on_cpu: Option<f64>,
    /// Whether it was seen.
    pub edge: Edge,
}

/// A loader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loader {
    /// Its name.
    pub name: String,
    /// `train` or `valid`.
    pub kind: String,
    /// Batches that were taken.
    pub batches: u64,
    /// The waits for them.
    pub wait: Distribution,
    /// Share of the loader's steps that was wait; `null` if it has no steps in the window.
    pub wait_share: Option<f64>,
    /// Whether batches are made inside `next()`; `null` if nothing says so.
    pub in_process: Option<bool>,
    /// Batches made and not yet taken, where that was counted.
    pub queue: Option<Queue>,
}

/// How many finished batches a queue held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Mean over the time of the window.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// Share of the waits that began with an empty queue.
    pub empty: f64,
}

/// A worker: all threads of one name that made batches of one loader for one consumer (Burn
/// starts new threads in every epoch).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Thread name.
    pub name: String,
    /// OS thread id of the last of the threads.
    pub tid: Option<u32>,
    /// How many threads.
    pub threads: u64,
    /// The loader they worked for, where it is known.
    pub loader: Option<String>,
    /// Batches made.
    pub batches: u64,
    /// Mean time to read the items of a batch.
    pub get_mean_ns: Option<u64>,
    /// Mean time to collate a batch.
    pub collate_mean_ns: Option<u64>,
    /// Share of the window spent in either.
    pub busy_share: f64,
    /// Share of that time on a CPU, where it was measured.
    pub cpu_share: Option<f64>,
}

/// A phase that the user marked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
    /// All of it.
    pub total_ns: u64,
    /// Mean of one.
    pub mean_ns: u64,
}

/// Something that went wrong in the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When.
    pub at_ns: u64,
    /// On which thread.
    pub thread: String,
    /// In which stage, where it is known.
    pub stage: Option<String>,
    /// What it said.
    pub message: String,
    /// What follows from it.
    pub consequence: String,
}

/// Something that had not ended when the recording did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// On which thread.
    pub thread: String,
    /// What.
    pub what: String,
    /// Since when.
    pub since_ns: u64,
    /// For how long until the recording ended.
    pub for_ns: u64,
    /// Whether it is a hang: a wait of a thread that runs steps, much longer than any before.
    pub hang: bool,
}
