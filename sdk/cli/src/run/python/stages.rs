//! The stages in which batches are made: their items got, and collated.

use super::calls::Made;
use super::mark::{Kind, Mark};
use super::record::Recording;
use std::collections::{HashMap, HashSet};

/// How a stage ended that failed, that found no item, and that was cut off; the hook's numbers.
const FAILED: u32 = 1;
const NONE_LEFT: u32 = 2;
const CUT: u32 = 3;

/// One stage of one batch. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) tid: u32,
    /// Whether items are made into a batch; else they are read.
    pub(super) collates: bool,
    /// Whether a worker does it for its loader; else a loader in its own process.
    pub(super) works: bool,
    /// Which iteration of the worker, and which batch of it.
    pub(super) served: u32,
    pub(super) n: u64,
    pub(super) start: u64,
    /// `None` if it had not ended when the recording did.
    pub(super) end: Option<u64>,
    /// Whether the batch is made with it.
    pub(super) last: bool,
    pub(super) items: Option<u64>,
    pub(super) cpu: Option<u64>,
    pub(super) ready: Option<u64>,
    pub(super) failed: bool,
    /// Whether it was cut off, as by an interrupt, and made no batch.
    pub(super) cut: bool,
}

impl Stage {
    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self.collates {
            true => "collate",
            false => "get",
        }
    }

    /// The batch of a worker, the process `pid`.
    pub(super) fn made(&self, pid: u32) -> Made {
        Made {
            pid,
            served: self.served,
            n: self.n,
        }
    }
}

/// The stages that a process went through, by their starts. The last batch of an iterable data set,
/// which is none, has no stages.
pub(super) fn stages(recording: &Recording) -> Vec<Stage> {
    let key = |mark: &Mark| (mark.tid, mark.a, mark.b, mark.n, mark.start);
    let mut found: Vec<Stage> = Vec::new();
    let mut open: HashMap<_, &Mark> = HashMap::new();
    let mut collated = HashSet::new();
    for mark in &recording.marks {
        match mark.kind {
            Kind::GetBegan | Kind::CollateBegan => {
                open.insert(key(mark), mark);
            }
            Kind::Get | Kind::Collate => {
                open.remove(&key(mark));
                if mark.d == NONE_LEFT {
                    continue;
                }
                if mark.kind == Kind::Collate {
                    collated.insert((mark.tid, mark.a, mark.b, mark.n));
                }
                found.push(stage(mark, Some(mark.end)));
            }
            _ => {}
        }
    }
    // A get that has not ended is over if its collate began.
    let mut begun: Vec<&Mark> = open.into_values().collect();
    begun.sort_by_key(|mark| mark.start);
    for mark in &begun {
        let batch = (mark.tid, mark.a, mark.b, mark.n);
        let collates = |m: &&&Mark| {
            m.kind == Kind::CollateBegan && (m.tid, m.a, m.b, m.n) == batch && m.start >= mark.start
        };
        let end = match mark.kind {
            Kind::GetBegan => begun.iter().find(collates).map(|m| m.start),
            _ => None,
        };
        found.push(stage(mark, end));
    }
    for stage in &mut found {
        let batch = (stage.tid, stage.served, u32::from(stage.works), stage.n);
        stage.last =
            stage.end.is_some() && !stage.cut && (stage.collates || !collated.contains(&batch));
    }
    found.sort_by_key(|stage| stage.start);
    found
}

fn stage(mark: &Mark, end: Option<u64>) -> Stage {
    Stage {
        tid: mark.tid,
        collates: matches!(mark.kind, Kind::Collate | Kind::CollateBegan),
        works: mark.b == 1,
        served: mark.a,
        n: mark.n,
        start: mark.start,
        end,
        last: false,
        items: Some(u64::from(mark.c)).filter(|&items| items > 0),
        cpu: mark.cpu,
        ready: mark.ready,
        failed: mark.d == FAILED,
        cut: mark.d == CUT,
    }
}
