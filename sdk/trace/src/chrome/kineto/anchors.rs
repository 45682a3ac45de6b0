//! Anchors in a file: from its clock and ids to those of the machine.

use super::lanes::Key;
use crate::{Anchor, MonoTime, Pid, Tid};
use std::collections::HashMap;

/// All that a file has.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    /// Of each lane the first.
    lanes: HashMap<u32, Anchor>,
    pids: HashMap<Key, Pid>,
    /// Time zero of the file's own clock on `CLOCK_MONOTONIC` and on the wall clock.
    zero: Option<(i128, i128)>,
}

impl Anchors {
    /// Adds the anchor of a lane, of a process, at `ts` nanoseconds on the file's clock.
    pub(super) fn add(&mut self, lane: u32, process: Key, ts: i64, anchor: Anchor) {
        self.lanes.entry(lane).or_insert(anchor);
        self.pids.entry(process).or_insert(anchor.pid);
        let mono = i128::from(anchor.mono.as_nanos()) - i128::from(ts);
        let unix = i128::from(anchor.unix_ns) - i128::from(ts);
        // It is taken after the event, so the smallest distance is the best.
        if self.zero.is_none_or(|(best, _)| mono < best) {
            self.zero = Some((mono, unix));
        }
    }

    /// The time `ts` of the file's clock on `CLOCK_MONOTONIC`, and on the wall clock.
    pub(super) fn clock(&self, ts: i64) -> Option<(MonoTime, u64)> {
        let (mono, unix) = self.zero?;
        let mono = u64::try_from(mono + i128::from(ts)).ok()?;
        let unix = u64::try_from(unix + i128::from(ts)).unwrap_or(0);
        Some((MonoTime::from_nanos(mono), unix))
    }

    /// The ids of the thread of a lane.
    pub(super) fn thread(&self, lane: u32) -> Option<(Pid, Tid)> {
        self.lanes.get(&lane).map(|anchor| (anchor.pid, anchor.tid))
    }

    /// The processes that the file's process ids stand for.
    pub(super) fn processes(&self) -> HashMap<Key, Pid> {
        self.pids.clone()
    }

    /// Any process of the file.
    pub(super) fn any_process(&self) -> Option<Pid> {
        self.pids.values().copied().min()
    }
}
