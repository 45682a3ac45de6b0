//! Findings and their chains, as they stand in a report.

use crate::cause::{Cause, Severity};
use crate::piece::{Edge, PieceKind};
use crate::stats::Distribution;
use gpustall_trace::vocab::kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Who had the CPU that its threads waited for, in words, where that is the cause; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_by: String,
    /// Numbers that prove the chain, by name; the unit ends the name.
    pub evidence: BTreeMap<String, f64>,
    /// The longest stalls, each with its own chain, the longest first.
    pub worst: Vec<Stall>,
    /// What to change.
    pub remedy: String,
    /// What the reader should know about the evidence of this finding; empty if nothing.
    #[serde(default)]
    pub caveat: String,
    /// The predicted mean step for each number of workers, for data causes where what a batch costs
    /// is known. Of steady steps; of all steps where the epochs of the loader are short, which the number
    /// `epoch_batches` in `evidence` says.
    #[serde(default)]
    pub worker_counts: Vec<WorkerCount>,
    /// What these take for granted about the disk and the CPUs that others keep busy; empty if nothing.
    #[serde(default)]
    pub worker_counts_assume: String,
    /// The mean step that the prediction is compared with.
    pub step_ns: Option<u64>,
    /// The mean step that the remedy is predicted to give: with the workers that it names; else without
    /// this loss, which is the best that mending the cause can give.
    pub predicted_step_ns: Option<u64>,
    /// What the prediction takes for granted.
    pub assumption: String,
    /// The mean step without this loss, where everything else stays as it is.
    #[serde(default)]
    pub step_without_loss_ns: Option<u64>,
    /// What it takes that the loss goes away.
    #[serde(default)]
    pub without_loss_assumption: String,
}

impl Finding {
    /// The number of workers that the remedy is about: the least with which a step is longer than with any
    /// other number by no more than a twentieth. `None` where none was predicted.
    pub fn advised_workers(&self) -> Option<&WorkerCount> {
        crate::worker_counts::enough(&self.worker_counts)
    }

    /// `the validation loader `, where the loader is one and its name is not the kind itself.
    pub(crate) fn loader_noun(&self) -> &'static str {
        let validates = self.kind.as_deref() == Some(kind::VALID);
        match validates && self.loader != self.kind {
            true => "the validation loader ",
            false => "",
        }
    }
}

/// What is predicted of a number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCount {
    /// How many workers.
    pub workers: u64,
    /// The mean step with so many. Where it depends on what the disk does with more readers at once than there were, the shortest
    /// one that it allows.
    pub predicted_step_ns: u64,
    /// The longest one then; `None` where `predicted_step_ns` is the prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_step_ns: Option<u64>,
    /// Whether the CPUs of the job are what keeps it from being shorter.
    pub cpus_are_the_limit: bool,
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
    /// What the scheduler says of the threads of the pieces meanwhile, the most first; empty where it
    /// was not recorded.
    #[serde(default)]
    pub states: Vec<StallState>,
}

/// What a thread did in a stall, as the scheduler saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallState {
    /// The thread.
    pub who: String,
    /// `running`, `ready to run, without a CPU`, `blocked in ...`, at work for memory, or not watched.
    pub what: String,
    /// How long.
    pub ns: u64,
    /// The same as a share of the stall.
    pub share: f64,
    /// Whether both ends of the intervals off CPU were seen.
    pub edge: Edge,
    /// Who had the CPU, who ended the wait, which functions ran.
    pub evidence: String,
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
    /// Share of it in which its thread was on a CPU, by the scheduler; where that was not recorded, of
    /// the whole stage that it is a piece of. `null` if neither is known.
    pub on_cpu: Option<f64>,
    /// Whether it was seen.
    pub edge: Edge,
}
