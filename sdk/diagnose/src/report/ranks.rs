//! A process of a job of several.

use crate::stats::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process whose recording was joined with those of others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Its rank; `null` if its launcher gave it none.
    pub rank: Option<u32>,
    /// How many ranks the job has.
    pub world_size: Option<u32>,
    /// Its process id.
    pub pid: u32,
    /// The devices that it used.
    pub devices: Vec<String>,
    /// Its steady steps.
    pub steps: Distribution,
    /// Collectives that it took part in with others of this report.
    pub collectives: u64,
    /// In how many of them it was the last to begin.
    pub last_in: u64,
    /// Exposed time that it waited for others to begin a collective.
    pub waits_ns: u64,
    /// Exposed time that others, all together, waited for it.
    pub waited_for_ns: u64,
    /// The same by what it had more of than those that waited, since they last met: a cause, or `compute`.
    /// They add up to `waited_for_ns` exactly.
    pub late_by_ns: BTreeMap<String, u64>,
}
