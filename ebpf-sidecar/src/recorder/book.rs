//! What is recorded of one job.

use crate::charge::Charges;
use crate::cuda::CudaCall;
use crate::disk::{BlockIo, Disks};
use crate::host::HostSample;
use crate::memory::{MemoryWork, OomKill};
use crate::people::{Others, Threads};
use crate::probes::Options;
use crate::procfs::{self, Status};
use crate::programs::Programs;
use crate::recording::{CpuSample, Faults, OffCpuInterval, Recording};
use crate::runs::Runs;
use crate::symbols::KernelSymbols;
use crate::view::View;
use crate::waits::Waits;
use gpustall_trace::{Clock, MonoTime, MonotonicClock, TraceTime};
use gpustall_wire::codes::loss;
use gpustall_wire::thread::ThreadState;
use std::collections::HashMap;
use std::sync::Arc;

/// Events lost so far, by source ([`loss`]).
pub(crate) type LossCounts = [u64; loss::SOURCES as usize];

/// The threads of one job and what the probes reported of them, since the last [`take`](Self::take).
pub(crate) struct Book {
    pub(super) options: Options,
    pub(super) start: MonoTime,
    pub(super) view: View,
    pub(super) threads: Threads,
    pub(super) others: Others,
    pub(super) waits: Waits,
    pub(super) intervals: Vec<OffCpuInterval>,
    pub(super) runs: Runs,
    pub(super) samples: Vec<CpuSample>,
    pub(super) memory_work: Vec<MemoryWork>,
    pub(super) oom_kills: Vec<OomKill>,
    pub(super) charges: Charges,
    pub(super) block_io: Vec<BlockIo>,
    pub(super) disks: Disks,
    pub(super) host_samples: Vec<HostSample>,
    pub(super) cuda_calls: Vec<CudaCall>,
    /// Threads that were tracked before for another job: their state when this one began.
    pub(super) before: HashMap<u32, ThreadState>,
    /// Intervals of which one end was inferred.
    pub(super) inferred: u64,
    /// Switches of the threads that were taken and are gone.
    switches: u64,
    /// Events for which there was no place, by source.
    refused: Vec<(&'static str, u64)>,
    /// Whether one was refused since the last `take`.
    newly_refused: bool,
    /// Counts of the probes as of the last look, and when the job began.
    lost: LossCounts,
    lost_before: LossCounts,
    losses: Vec<(TraceTime, &'static str, u64)>,
    notes: Vec<String>,
}

impl Book {
    /// Of a job whose time zero is `start`; `lost` is what the probes have lost before.
    pub(crate) fn new(
        options: &Options,
        start: MonoTime,
        view: View,
        symbols: Arc<KernelSymbols>,
        lost: LossCounts,
    ) -> Self {
        Self {
            options: *options,
            start,
            view,
            threads: Threads::default(),
            others: Others::default(),
            waits: Waits::new(symbols),
            intervals: Vec::new(),
            runs: Runs::default(),
            samples: Vec::new(),
            memory_work: Vec::new(),
            oom_kills: Vec::new(),
            charges: Charges::default(),
            block_io: Vec::new(),
            disks: Disks::default(),
            host_samples: Vec::new(),
            cuda_calls: Vec::new(),
            before: HashMap::new(),
            inferred: 0,
            switches: 0,
            refused: Vec::new(),
            newly_refused: false,
            lost,
            lost_before: lost,
            losses: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a thread that exists and has taken these page faults; `before` is its state when it is tracked already. False when it is
    /// gone.
    pub(crate) fn add_thread(
        &mut self,
        (tid, pid): (u32, u32),
        at: MonoTime,
        faults: Faults,
        before: Option<ThreadState>,
    ) -> bool {
        let Some(name) = procfs::name(pid, tid) else {
            return false;
        };
        if !self.threads.knows(tid) {
            let ids = self.view.thread(pid, tid);
            let index = self.threads.add(tid, ids, self.time(at.as_nanos()), name);
            if let Some(thread) = self.threads.get_mut(index) {
                thread.faults_before = faults;
            }
            self.before.extend(before.map(|state| (tid, state)));
        }
        true
    }

    /// Tells the user something.
    pub(crate) fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// Whether one more of `kept` events has a place; counts it for `source` when it has none.
    pub(super) fn has_place(&mut self, kept: usize, source: &'static str) -> bool {
        if kept < self.options.max_intervals {
            return true;
        }
        self.newly_refused = true;
        match self.refused.iter_mut().find(|(name, _)| *name == source) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((source, 1)),
        }
        false
    }

    /// Whether the source has lost more than at the last look.
    pub(crate) fn lost_since(&self, lost: &LossCounts, source: u32) -> bool {
        lost[source as usize] > self.lost[source as usize]
    }

    /// Notes what the probes have lost by now.
    pub(crate) fn note_losses(&mut self, lost: &LossCounts) {
        let at = MonotonicClock.now().in_trace(self.start);
        for (source, name) in loss::NAMES.into_iter().enumerate() {
            let inferred = source == loss::SWITCHES as usize;
            if !inferred && lost[source] > self.lost[source] {
                let since = lost[source] - self.lost_before[source];
                self.losses.push((at, name, since));
            }
        }
        self.lost = *lost;
    }

    /// Looks up names of the programs' functions, while the processes live.
    pub(crate) fn look_up(&mut self, programs: &mut Programs) {
        self.runs.look_up(programs);
    }

    /// Whether the thread is one of this job that lives.
    pub(crate) fn knows(&self, tid: u32) -> bool {
        self.threads.knows(tid)
    }

    /// Ids of the threads that live, in the root pid namespace.
    pub(crate) fn thread_ids(&self) -> Vec<u32> {
        self.threads.living_ids()
    }

    /// Whether the reader may see what a thread with this status does.
    pub(crate) fn may_see(&self, status: Option<&Status>) -> bool {
        // One that is gone did nothing since.
        status.is_none() || self.view.may_name(status)
    }

    /// The thread is no longer shown.
    pub(crate) fn hide(&mut self, tid: u32) {
        self.threads.bury(tid);
        self.before.remove(&tid);
    }

    /// Tracked threads that live.
    pub(crate) fn living(&self) -> usize {
        self.threads.living_count()
    }

    /// Threads held, those included that ended since the last `take`.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Intervals held.
    pub(crate) fn intervals(&self) -> usize {
        self.intervals.len()
    }

    /// Events lost, over all sources.
    pub(crate) fn lost(&self) -> u64 {
        let probes = self.lost.iter().zip(&self.lost_before);
        let probes = probes.map(|(now, before)| now - before).sum::<u64>();
        let refused = self.refused.iter().map(|(_, count)| count).sum::<u64>();
        probes - self.inferred_switches() + refused
    }

    fn inferred_switches(&self) -> u64 {
        let source = loss::SWITCHES as usize;
        self.lost[source] - self.lost_before[source]
    }

    /// What was recorded since the last call, up to `end`. The last part is `finished`: its threads
    /// must have been closed.
    pub(crate) fn take(&mut self, end: MonoTime, finished: bool) -> Recording {
        let end = end.in_trace(self.start);
        let threads = self.threads.take();
        let gone = threads.iter().filter(|thread| finished || thread.ended);
        let switches = gone.map(|thread| thread.totals.preemptions + thread.totals.waits);
        self.switches += switches.sum::<u64>();
        if finished {
            self.notes.extend(unreported(self.inferred, self.switches));
        }
        if std::mem::take(&mut self.newly_refused) {
            let refused = self.refused.iter().map(|&(source, n)| (end, source, n));
            self.losses.extend(refused);
        }
        let runs = self.runs.take(self.waits.symbols());
        Recording {
            start: self.start,
            end,
            threads,
            intervals: std::mem::take(&mut self.intervals),
            others: self.others.take(),
            waits: self.waits.take(),
            samples: std::mem::take(&mut self.samples),
            memory_work: std::mem::take(&mut self.memory_work),
            oom_kills: std::mem::take(&mut self.oom_kills),
            block_io: std::mem::take(&mut self.block_io),
            host: std::mem::take(&mut self.host_samples),
            cuda_calls: std::mem::take(&mut self.cuda_calls),
            runs,
            losses: std::mem::take(&mut self.losses),
            notes: std::mem::take(&mut self.notes),
            finished,
        }
    }

    pub(super) fn time(&self, ns: u64) -> TraceTime {
        MonoTime::from_nanos(ns).in_trace(self.start)
    }
}

/// What is said where at least one in a hundred switches was inferred; fewer matter to nobody.
fn unreported(inferred: u64, switches: u64) -> Option<String> {
    let switches = switches.max(inferred);
    let tells = inferred > 0 && inferred.saturating_mul(100) >= switches;
    tells.then(|| {
        format!(
            "the kernel did not report {inferred} of {switches} switches ({:.0} %); their times follow from \
             the CPU time that it counted",
            100.0 * inferred as f64 / switches as f64
        )
    })
}

#[cfg(test)]
mod tests {
    use super::unreported;

    #[test]
    fn switches_that_were_not_reported_are_told_by_their_share() {
        assert_eq!(unreported(0, 0), None);
        assert_eq!(unreported(4, 6_000), None);
        let note = unreported(60, 6_000).expect("it is one in a hundred");
        let text = "the kernel did not report 60 of 6000 switches (1 %)";
        assert!(note.starts_with(text), "{note}");
    }
}
