//! The rows of a report about threads and processes, as the kernel saw them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A watched thread, over the time that it was watched.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// OS thread id.
    pub tid: u32,
    /// Its process, where it is known.
    pub pid: Option<u32>,
    /// When watching it began: threads that had one id in turn are told apart by it. `null` where its
    /// totals were not recorded.
    pub since_ns: Option<u64>,
    /// Whether it runs steps.
    pub trains: bool,
    /// The loader that it makes batches for.
    pub worker_of: Option<String>,
    /// Where its time went.
    #[serde(flatten)]
    pub usage: Usage,
    /// Time blocked by what it waited for, of the intervals that were recorded one by one.
    pub blocked_ns_by_class: BTreeMap<String, u64>,
    /// The longest interval off CPU.
    pub worst_off_cpu: Option<WorstOff>,
    /// The functions that ran most often when a sample was taken, the most frequent first.
    pub functions: Vec<Function>,
}

/// A process: all its watched threads together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its id.
    pub pid: u32,
    /// How many of its threads were watched.
    pub threads: u64,
    /// Where their time went.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Where the time of watched threads went, and what they asked of the kernel. What was not counted
/// is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// How long they were watched.
    pub watched_ns: u64,
    /// Switches away although the thread could have run on.
    pub preemptions: Option<u64>,
    /// Switches away because the thread blocked.
    pub voluntary_switches: Option<u64>,
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// Ready to run, without a CPU.
    pub runnable_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// Page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults that read from a disk.
    pub major_faults: Option<u64>,
    /// Pages allocated.
    pub page_allocs: Option<u64>,
    /// Bytes that requests to disks read, for which it waited.
    pub disk_read_bytes: u64,
    /// Bytes that they wrote.
    pub disk_written_bytes: u64,
    /// Intervals off CPU that were lost.
    pub lost_intervals: u64,
}

/// The longest interval of a thread off CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorstOff {
    /// When it began.
    pub start_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// What the thread waited for.
    pub what: String,
}

/// A function that ran when samples were taken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What kind of work it is: `user`, or one of the kernel's.
    pub class: String,
    /// Share of the thread's samples.
    pub share: f64,
}
