//! Why a device did not compute.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A cause that time is charged to. Its [`id`](Cause::id) is stable: it stands in reports, in the
/// trace and in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// `data`: the trainer waited in a loader's `next()`; nothing recorded says more.
    #[serde(rename = "data")]
    Data,
    /// `data.compute`: the batch was computed, by the training thread itself, or by workers with
    /// no CPU left for one more.
    #[serde(rename = "data.compute")]
    DataCompute,
    /// `data.contended`: the workers that made the batch were ready to run and waited for a CPU.
    #[serde(rename = "data.contended")]
    DataContended,
    /// `data.io`: whoever made the batch was blocked on a file, a disk, or a peer.
    #[serde(rename = "data.io")]
    DataIo,
    /// `data.memory`: whoever made the batch waited for memory: page faults, reclaim, compaction.
    #[serde(rename = "data.memory")]
    DataMemory,
    /// `data.lock`: whoever made the batch was blocked on a lock.
    #[serde(rename = "data.lock")]
    DataLock,
    /// `data.worker-limit`: every worker was busy making batches, and CPUs were free for more.
    #[serde(rename = "data.worker-limit")]
    DataWorkerLimit,
    /// `data.startup`: `iter()` of a loader, and the first wait of an epoch, for which its workers
    /// had made nothing ahead.
    #[serde(rename = "data.startup")]
    DataStartup,
    /// `host.metrics`: a phase of the user's whose name says that it computes metrics.
    #[serde(rename = "host.metrics")]
    HostMetrics,
    /// `host.checkpoint`: a phase of the user's whose name says that it saves a checkpoint.
    #[serde(rename = "host.checkpoint")]
    HostCheckpoint,
    /// `host.preempted`: the thread that trains was ready to run and another one had the CPU.
    #[serde(rename = "host.preempted")]
    HostPreempted,
    /// `host.blocked`: the thread that trains was blocked outside of the loader.
    #[serde(rename = "host.blocked")]
    HostBlocked,
    /// `transfer.pageable`: the device waited for a copy from or to pageable memory.
    #[serde(rename = "transfer.pageable")]
    TransferPageable,
    /// `transfer.staging`: the device waited while its next copy was staged on the host.
    #[serde(rename = "transfer.staging")]
    TransferStaging,
    /// `transfer.bandwidth`: the device waited for a copy that does not touch pageable memory.
    #[serde(rename = "transfer.bandwidth")]
    TransferBandwidth,
    /// `host.launch-bound`: the host submitted work more slowly than the device finished it.
    #[serde(rename = "host.launch-bound")]
    HostLaunchBound,
    /// `host.compute`: the host submitted nothing for a stretch that stands out from its rhythm.
    #[serde(rename = "host.compute")]
    HostCompute,
    /// `host.compile`: kernels were compiled, tuned or loaded.
    #[serde(rename = "host.compile")]
    HostCompile,
    /// `host`: the host had not submitted work; nothing recorded says more.
    #[serde(rename = "host")]
    Host,
    /// `sync.readback`: the host waited for the device, which then had nothing to do.
    #[serde(rename = "sync.readback")]
    SyncReadback,
    /// `alloc.device`: memory of the device, or pinned memory, was allocated or freed.
    #[serde(rename = "alloc.device")]
    AllocDevice,
    /// `gpu.dependency`: the next kernel was submitted and waited for another stream.
    #[serde(rename = "gpu.dependency")]
    GpuDependency,
    /// `gpu.launch-latency`: the next kernel was submitted and had not begun.
    #[serde(rename = "gpu.launch-latency")]
    GpuLaunchLatency,
    /// `comm.exposed`: devices exchanged data and nothing else ran.
    #[serde(rename = "comm.exposed")]
    CommExposed,
    /// `comm.straggler`: a collective waited for the slowest device.
    #[serde(rename = "comm.straggler")]
    CommStraggler,
    /// `unknown`: nothing recorded explains it.
    #[serde(rename = "unknown")]
    Unknown,
}

/// The share of a wait in process that must be proven CPU time of the waiting thread for the wait
/// to be [`Cause::DataCompute`].
pub const DATA_COMPUTE_MIN_CPU_SHARE: f64 = 0.8;

/// The same, for a wait of a loader whose waits all together reach
/// [`DATA_COMPUTE_MIN_CPU_SHARE`]: that other programs slow down one of them is no other cause.
pub const DATA_COMPUTE_MIN_OWN_SHARE: f64 = 0.5;

/// What time is called that no stall accounts for.
pub const COMPUTE: &str = "compute";

impl Cause {
    /// Every cause, in the order of their families.
    pub const ALL: [Cause; 26] = [
        Cause::Data,
        Cause::DataCompute,
        Cause::DataContended,
        Cause::DataIo,
        Cause::DataMemory,
        Cause::DataLock,
        Cause::DataWorkerLimit,
        Cause::DataStartup,
        Cause::HostMetrics,
        Cause::HostCheckpoint,
        Cause::HostPreempted,
        Cause::HostBlocked,
        Cause::TransferPageable,
        Cause::TransferStaging,
        Cause::TransferBandwidth,
        Cause::HostLaunchBound,
        Cause::HostCompute,
        Cause::HostCompile,
        Cause::Host,
        Cause::SyncReadback,
        Cause::AllocDevice,
        Cause::GpuDependency,
        Cause::GpuLaunchLatency,
        Cause::CommExposed,
        Cause::CommStraggler,
        Cause::Unknown,
    ];

    /// The stable identifier.
    pub fn id(self) -> &'static str {
        match self {
            Cause::Data => "data",
            Cause::DataCompute => "data.compute",
            Cause::DataContended => "data.contended",
            Cause::DataIo => "data.io",
            Cause::DataMemory => "data.memory",
            Cause::DataLock => "data.lock",
            Cause::DataWorkerLimit => "data.worker-limit",
            Cause::DataStartup => "data.startup",
            Cause::HostMetrics => "host.metrics",
            Cause::HostCheckpoint => "host.checkpoint",
            Cause::HostPreempted => "host.preempted",
            Cause::HostBlocked => "host.blocked",
            Cause::TransferPageable => "transfer.pageable",
            Cause::TransferStaging => "transfer.staging",
            Cause::TransferBandwidth => "transfer.bandwidth",
            Cause::HostLaunchBound => "host.launch-bound",
            Cause::HostCompute => "host.compute",
            Cause::HostCompile => "host.compile",
            Cause::Host => "host",
            Cause::SyncReadback => "sync.readback",
            Cause::AllocDevice => "alloc.device",
            Cause::GpuDependency => "gpu.dependency",
            Cause::GpuLaunchLatency => "gpu.launch-latency",
            Cause::CommExposed => "comm.exposed",
            Cause::CommStraggler => "comm.straggler",
            Cause::Unknown => "unknown",
        }
    }

    /// The cause that a phase of this name stands for, whatever its case: `metrics.push`,
    /// `compute_metrics`, `checkpoint`, `save_checkpoint`, `ModelCheckpoint`.
    pub(crate) fn of_phase(name: &str) -> Option<Cause> {
        let starts = |with: &str| {
            name.get(..with.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(with))
        };
        if starts("metric") {
            return Some(Cause::HostMetrics);
        }
        if starts("checkpoint") {
            return Some(Cause::HostCheckpoint);
        }
        if !mentions(name, "metrics") && !mentions(name, "checkpoint") && !mentions(name, "ckpt") {
            return None;
        }
        let words = words(name);
        let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let saves = any(&[
            "save", "saving", "saves", "write", "writing", "dump", "model",
        ]);
        if saves && any(&["checkpoint", "checkpoints", "checkpointing", "ckpt"]) {
            return Some(Cause::HostCheckpoint);
        }
        any(&["metrics"]).then_some(Cause::HostMetrics)
    }

    /// Whether a copy took the time.
    pub(crate) fn is_transfer(self) -> bool {
        use Cause::{TransferBandwidth, TransferPageable, TransferStaging};
        matches!(self, TransferBandwidth | TransferPageable | TransferStaging)
    }

    /// Whether a thread of the host was held up, whatever it was in.
    pub(crate) fn is_held_up(self) -> bool {
        matches!(self, Cause::HostPreempted | Cause::HostBlocked)
    }

    /// Whether the trainer waited for a batch.
    pub(crate) fn is_data(self) -> bool {
        self == Cause::DataStartup || self.is_batch()
    }

    /// Whether the trainer waited for a batch that was not the first of an epoch.
    pub(crate) fn is_batch(self) -> bool {
        use Cause::{
            Data, DataCompute, DataContended, DataIo, DataLock, DataMemory, DataWorkerLimit,
        };
        matches!(
            self,
            Data | DataCompute | DataContended | DataIo | DataMemory | DataLock | DataWorkerLimit
        )
    }
}

/// Whether a name has these letters, whatever their case.
fn mentions(name: &str, letters: &str) -> bool {
    let mut places = name.as_bytes().windows(letters.len());
    places.any(|place| place.eq_ignore_ascii_case(letters.as_bytes()))
}

/// The words of a name, in lower case: `ModelCheckpoint.on_train_end` has five.
fn words(name: &str) -> Vec<String> {
    // Nobody names a phase by a whole text.
    let name = name.get(..200).unwrap_or(name);
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        let begins = !before.is_ascii_alphanumeric()
            || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
        before = c;
        if !c.is_ascii_alphanumeric() {
            continue;
        }
        match words.last_mut().filter(|_| !begins) {
            Some(word) => word.push(c.to_ascii_lowercase()),
            None => words.push(c.to_ascii_lowercase().to_string()),
        }
    }
    words
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// How much of the window a finding costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// At least 5 % of the window.
    Low,
    /// At least 10 % of the window.
    Medium,
    /// At least 20 % of the window.
    High,
}

impl Severity {
    /// The severity of losing `share` (0..1) of the window; `None` below 5 %, which is no finding. It
    /// goes by the share as it is printed: 9.96 % are 10 % there.
    pub fn of(share: f64) -> Option<Severity> {
        let percent = share * 100.0;
        match if percent >= 9.95 {
            percent.round()
        } else {
            percent
        } {
            p if p >= 20.0 => Some(Severity::High),
            p if p >= 10.0 => Some(Severity::Medium),
            _ if share >= 0.05 => Some(Severity::Low),
            _ => None,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Low => "LOW",
            Severity::Medium => "MEDIUM",
            Severity::High => "HIGH",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_in_a_report_is_the_one_that_is_printed() {
        for cause in Cause::ALL {
            let json = serde_json::to_value(cause).expect("a cause is a string");
            assert_eq!(json, cause.id());
        }
    }

    #[test]
    fn a_phase_is_known_by_its_name() {
        assert_eq!(Cause::of_phase("metrics.push"), Some(Cause::HostMetrics));
        assert_eq!(Cause::of_phase("Checkpoint"), Some(Cause::HostCheckpoint));
        for name in [
            "save_checkpoint",
            "ModelCheckpoint.on_train_end",
            "write ckpt 7",
        ] {
            assert_eq!(Cause::of_phase(name), Some(Cause::HostCheckpoint), "{name}");
        }
        for name in ["compute_metrics", "log train metrics"] {
            assert_eq!(Cause::of_phase(name), Some(Cause::HostMetrics), "{name}");
        }
        for name in ["forward", "activation_checkpoint", "metre", "save_figure"] {
            assert_eq!(Cause::of_phase(name), None, "{name}");
        }
        assert_eq!(Cause::of_phase("mé"), None);
    }

    #[test]
    fn below_five_percent_there_is_no_finding() {
        assert_eq!(Severity::of(0.0499), None);
        assert_eq!(Severity::of(0.05), Some(Severity::Low));
        assert_eq!(Severity::of(0.10), Some(Severity::Medium));
        assert_eq!(Severity::of(0.20), Some(Severity::High));
    }

    #[test]
    fn the_severity_is_that_of_the_share_that_is_printed() {
        use crate::links::percent;
        for (share, text, severity) in [
            (0.0994, "9.9 %", Severity::Low),
            (0.0998, "10 %", Severity::Medium),
            (0.194, "19 %", Severity::Medium),
            (0.196, "20 %", Severity::High),
        ] {
            assert_eq!(percent(share), text);
            assert_eq!(Severity::of(share), Some(severity), "{text}");
        }
    }
}
