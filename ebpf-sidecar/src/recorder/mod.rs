//! A recording while it runs.

mod cuda;
mod ending;
mod events;

use crate::cuda::{CudaCall, CudaLibraries};
use crate::error::{SetupError, TrackError};
use crate::people::{Others, Threads};
use crate::probes::{Options, Probes};
use crate::recording::{CpuSample, OffCpuInterval, Recording};
use crate::runs::Runs;
use crate::symbols::KernelSymbols;
use crate::waits::Waits;
use crate::{privilege, procfs};
use blazesym::symbolize::Symbolizer;
use gpustall_trace::{Clock, MonoTime, MonotonicClock, TraceTime};
use gpustall_wire::codes::loss;
use std::time::{Duration, Instant};

/// Source of losses on this side: intervals, samples and CUDA calls beyond [`Options::max_intervals`].
const BEYOND_LIMIT: &str = "events beyond the limit in memory";

/// How often names of the programs' functions are looked up: while the processes live, and so that
/// new stacks come together.
const LOOK_UP_EVERY: Duration = Duration::from_millis(500);

/// How often counts of losses are read: each takes a system call a source.
const LOSSES_EVERY: Duration = Duration::from_millis(100);

/// Tracks processes and keeps what the probes report of them. [`drain`](Self::drain) must be called
/// every [`Options::DRAIN_EVERY`].
pub struct Recorder {
    probes: Probes,
    options: Options,
    start: MonoTime,
    threads: Threads,
    others: Others,
    waits: Waits,
    intervals: Vec<OffCpuInterval>,
    runs: Runs,
    samples: Vec<CpuSample>,
    /// `None` when calls of the CUDA driver are not recorded.
    cuda: Option<CudaLibraries>,
    cuda_calls: Vec<CudaCall>,
    symbolizer: Symbolizer,
    looked_up: Instant,
    losses_read: Instant,
    beyond_limit: u64,
    /// Counts by source as of the last drain.
    lost: [u64; loss::SOURCES as usize],
    losses: Vec<(TraceTime, &'static str, u64)>,
    notes: Vec<String>,
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub at: TraceTime,
    /// Tracked threads that live.
    pub threads: usize,
    /// Intervals kept.
    pub intervals: usize,
    /// Calls of the CUDA driver kept.
    pub cuda_calls: usize,
    /// Events lost, over all sources.
    pub lost: u64,
}

impl Recorder {
    /// Loads and attaches the probes. Nothing is tracked yet.
    ///
    /// # Errors
    /// [`SetupError`] says which requirement is missing and what mends it.
    pub fn start(options: &Options) -> Result<Self, SetupError> {
        privilege::require()?;
        let mut probes = Probes::attach(options)?;
        let mut cuda = options.cuda_calls.then(CudaLibraries::new);
        if let Some(libraries) = &mut cuda {
            libraries.attach_known(&mut probes);
        }
        let mut notes = probes.notes().to_vec();
        let symbols = KernelSymbols::of_running_kernel().unwrap_or_default();
        if symbols.is_empty() {
            notes.push(
                "the kernel hides the addresses of its functions: what threads waited for is unknown"
                    .to_owned(),
            );
        }
        Ok(Self {
            probes,
            options: *options,
            start: MonotonicClock.now(),
            threads: Threads::default(),
            others: Others::default(),
            waits: Waits::new(symbols),
            intervals: Vec::new(),
            runs: Runs::default(),
            samples: Vec::new(),
            cuda,
            cuda_calls: Vec::new(),
            symbolizer: Symbolizer::new(),
            looked_up: Instant::now(),
            losses_read: Instant::now(),
            beyond_limit: 0,
            lost: [0; loss::SOURCES as usize],
            losses: Vec::new(),
            notes,
        })
    }

    /// Tracks a process, the processes that it forked, and whatever all their threads make from
    /// now on.
    ///
    /// # Errors
    /// When there is no such process, or more threads than [`Options::max_threads`].
    pub fn track_process(&mut self, pid: u32) -> Result<(), TrackError> {
        if procfs::threads(pid).is_empty() {
            return Err(TrackError::NoProcess(pid));
        }
        // What a thread made before it was tracked itself shows in the next look, and what it makes
        // after that is tracked by the probes: when a look finds nothing new, nothing is missing.
        loop {
            let mut found = false;
            for pid in procfs::family(pid, &procfs::processes()) {
                for tid in procfs::threads(pid) {
                    found |= self.track_thread(tid, pid)?;
                }
            }
            if !found {
                return Ok(());
            }
        }
    }

    fn track_thread(&mut self, tid: u32, pid: u32) -> Result<bool, TrackError> {
        let now = MonotonicClock.now();
        if !self.probes.track(tid, pid, now)? {
            return Ok(false);
        }
        match procfs::name(pid, tid) {
            Some(name) => {
                self.threads.add(tid, pid, now.in_trace(self.start), name);
            }
            // It ended between being listed and being tracked.
            None => self.probes.forget(tid),
        }
        Ok(true)
    }

    /// Takes what the probes have reported since the last call.
    pub fn drain(&mut self) {
        // What is reported while this runs is left for the next call, so that it always ends.
        let until = MonotonicClock.now();
        while let Some(event) = self.probes.next_event() {
            if self.take(event) > until {
                break;
            }
        }
        if self.losses_read.elapsed() >= LOSSES_EVERY {
            self.note_losses();
            self.losses_read = Instant::now();
        }
        self.find_cuda();
        if self.looked_up.elapsed() >= LOOK_UP_EVERY {
            self.runs.look_up(&self.symbolizer);
            self.looked_up = Instant::now();
        }
    }

    /// How far the recording is.
    pub fn progress(&self) -> Progress {
        Progress {
            at: MonotonicClock.now().in_trace(self.start),
            threads: self.threads.living_count(),
            intervals: self.intervals.len(),
            cuda_calls: self.cuda_calls.len(),
            lost: self.lost.iter().sum::<u64>() - self.lost[loss::SWITCHES as usize]
                + self.beyond_limit,
        }
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Recording {
        let end_mono = self.probes.stop();
        let end = end_mono.in_trace(self.start);
        while let Some(event) = self.probes.next_event() {
            self.take(event);
        }
        self.note_losses();
        for (tid, state) in self.probes.states() {
            self.unfinished_calls(tid, state.tgid, end_mono.as_nanos());
            self.close_thread(tid, state, end_mono);
        }
        let inferred = self.lost[loss::SWITCHES as usize];
        if inferred > 0 {
            self.notes.push(format!(
                "the kernel did not report {inferred} switches; their times follow from the CPU time \
                 that it counted"
            ));
        }
        if self.beyond_limit > 0 {
            self.losses.push((end, BEYOND_LIMIT, self.beyond_limit));
        }
        if let Some(libraries) = self.cuda {
            self.notes.extend(libraries.into_notes());
        }
        self.runs.look_up(&self.symbolizer);
        let (waits, symbols) = self.waits.into_list();
        Recording {
            start: self.start,
            end,
            threads: self.threads.into_list(),
            intervals: self.intervals,
            others: self.others.into_list(),
            waits,
            samples: self.samples,
            cuda_calls: self.cuda_calls,
            runs: self.runs.into_list(&symbols),
            losses: self.losses,
            notes: self.notes,
        }
    }

    fn time(&self, ns: u64) -> TraceTime {
        MonoTime::from_nanos(ns).in_trace(self.start)
    }
}
