//! The rows of a report: loaders, workers, phases, and what went wrong.

use crate::stats::Distribution;
use serde::{Deserialize, Serialize};

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

/// A worker: all threads of one name that made batches of one loader for one consumer. A loader
/// that is sliced, or moved to another device, has new threads of the same names.
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
    /// Share of that time in which it was ready to run and waited for a CPU, where it was measured.
    #[serde(default)]
    pub runnable_share: Option<f64>,
    /// Share of that time in which it was neither: blocked on I/O, a lock, a timer.
    #[serde(default)]
    pub blocked_share: Option<f64>,
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
    /// What devices did for it; `None` where that is not known of any operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceTime>,
}

/// What devices did for one asker: a phase, or whatever is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTime {
    /// Time in which at least one of the operations ran, of each device by itself.
    pub total_ns: u64,
    /// Kernels that ran.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Memsets.
    pub memsets: u64,
    /// What the framework measured around the phase on the device, idle time within it included;
    /// `None` where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
}

impl DeviceTime {
    /// All operations.
    pub fn operations(&self) -> u64 {
        self.kernels + self.copies + self.memsets
    }
}

/// A call of the CUDA runtime or driver, over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CudaCall {
    /// Its name.
    pub name: String,
    /// How often it was called, on any thread.
    pub count: u64,
    /// Time in it, all calls together.
    pub total_ns: u64,
    /// Half of the calls were not longer.
    pub p50_ns: u64,
    /// 99 % of the calls were not longer.
    pub p99_ns: u64,
    /// The longest one.
    pub max_ns: u64,
    /// `p99_ns` over `p50_ns`; `null` if that is 0.
    pub p99_over_p50: Option<f64>,
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
    /// Whether the run ended with it.
    #[serde(default)]
    pub ended_run: bool,
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
