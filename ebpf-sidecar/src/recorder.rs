//! A recording while it runs.

use crate::close::close;
use crate::error::{SetupError, TrackError};
use crate::event::Event;
use crate::people::{Others, Threads, name_of};
use crate::probes::{Options, Probes};
use crate::recording::{CpuSample, OffCpuInterval, Recording, Waker, Why};
use crate::runs::{Runs, Stacks};
use crate::symbols::KernelSymbols;
use crate::waits::Waits;
use crate::{privilege, procfs};
use blazesym::symbolize::Symbolizer;
use gpustall_trace::{Clock, MonoTime, MonotonicClock, Tid, TraceTime};
use gpustall_wire::codes::{flag, loss, mode, waker};
use gpustall_wire::record::{Exit, Life, OffCpu, Sample};
use gpustall_wire::thread::ThreadState;
use std::time::{Duration, Instant};

/// Source of losses on this side: intervals and samples beyond [`Options::max_intervals`].
const BEYOND_LIMIT: &str = "events beyond the limit in memory";

/// How often names of the programs' functions are looked up: while the processes live, and so that
/// new stacks come together.
const LOOK_UP_EVERY: Duration = Duration::from_millis(500);

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
    symbolizer: Symbolizer,
    looked_up: Instant,
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
        let probes = Probes::attach(options)?;
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
            symbolizer: Symbolizer::new(),
            looked_up: Instant::now(),
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
        self.note_losses();
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
            runs: self.runs.into_list(&symbols),
            losses: self.losses,
            notes: self.notes,
        }
    }

    /// Takes one event; returns when it was.
    fn take(&mut self, event: Event) -> MonoTime {
        match event {
            Event::OffCpu(off, stack) => self.off_cpu(&off, stack),
            Event::Fork(life) => self.fork(&life),
            Event::Exec(life) => {
                if life.other_tid != life.tid {
                    self.threads.take_id(life.other_tid, life.tid);
                }
                self.rename(&life)
            }
            Event::Rename(life) => self.rename(&life),
            Event::Exit(exit) => self.exit(&exit),
            Event::Sample(sample) => self.sample(&sample),
        }
    }

    fn off_cpu(&mut self, off: &OffCpu, stack: Vec<u64>) -> MonoTime {
        let at = MonoTime::from_nanos(off.in_ns);
        if self.intervals.len() >= self.options.max_intervals {
            self.beyond_limit += 1;
            return at;
        }
        if !self.threads.knows(off.tid) {
            // The record of its beginning was lost.
            let tgid = self.probes.state(off.tid).map_or(off.tid, |s| s.tgid);
            self.threads
                .find_or_add(off.tid, tgid, self.time(off.out_ns));
        }
        let thread = self
            .threads
            .find_or_add(off.tid, off.tid, self.time(off.out_ns));
        let truncated = off.flags & flag::TRUNCATED != 0;
        let inferred = off.flags & flag::INFERRED != 0;
        let whole = !truncated && !inferred;
        let waker = self.waker(off.waker_kind, off.waker);
        self.intervals.push(OffCpuInterval {
            thread,
            out: self.time(off.out_ns),
            woken: (off.woken_ns != 0).then(|| self.time(off.woken_ns)),
            back: self.time(off.in_ns),
            why: Why::of_class(off.class),
            iowait: off.flags & flag::IOWAIT != 0,
            truncated,
            inferred,
            unfinished: false,
            cpu_out: whole.then_some(off.cpu_out),
            cpu_in: Some(off.cpu_in),
            waker,
            taker: whole.then(|| self.others.id(off.taker)),
            giver: (!inferred).then(|| self.others.id(off.giver)),
            wait: self.waits.of_addresses(stack),
        });
        at
    }

    fn sample(&mut self, sample: &Sample) -> MonoTime {
        let at = self.time(sample.at_ns);
        if self.samples.len() >= self.options.max_intervals {
            self.beyond_limit += 1;
        } else {
            let part = |stack: &[u64], frames: u32| -> Vec<u64> {
                let filled = stack.iter().copied().take(frames as usize);
                filled.take_while(|&ip| ip != 0).collect()
            };
            let stacks = Stacks {
                pid: sample.tgid,
                kernel: part(&sample.kernel, sample.kernel_frames),
                user: part(&sample.user, sample.user_frames),
            };
            self.samples.push(CpuSample {
                thread: self.threads.find_or_add(sample.tid, sample.tgid, at),
                at,
                cpu: sample.cpu,
                run: self.runs.id(stacks),
            });
        }
        MonoTime::from_nanos(sample.at_ns)
    }

    fn waker(&mut self, kind: u32, other: gpustall_wire::record::Other) -> Waker {
        match kind {
            waker::THREAD => Waker::Thread(self.others.id(other)),
            waker::TIMER => Waker::Timer,
            waker::DEVICE => Waker::Device,
            waker::KERNEL => Waker::Kernel,
            _ => Waker::None,
        }
    }

    fn fork(&mut self, life: &Life) -> MonoTime {
        let at = self.time(life.at_ns);
        if !self.threads.knows(life.tid) {
            self.threads
                .add(life.tid, life.tgid, at, name_of(&life.comm));
        }
        if let Some(thread) = self.threads.living(life.tid) {
            thread.parent = Some(Tid(life.other_tid));
        }
        MonoTime::from_nanos(life.at_ns)
    }

    fn rename(&mut self, life: &Life) -> MonoTime {
        if let Some(thread) = self.threads.living(life.tid) {
            thread.name = name_of(&life.comm);
        }
        MonoTime::from_nanos(life.at_ns)
    }

    fn exit(&mut self, exit: &Exit) -> MonoTime {
        let (first, last) = (self.time(exit.totals.first_ns), self.time(exit.at_ns));
        let index = self.threads.find_or_add(exit.tid, exit.tgid, first);
        if let Some(thread) = self.threads.get_mut(index) {
            (thread.first, thread.last, thread.ended) = (first, last, true);
            thread.totals = exit.totals.into();
        }
        self.threads.bury(exit.tid);
        MonoTime::from_nanos(exit.at_ns)
    }

    fn note_losses(&mut self) {
        let lost = self.probes.losses();
        let at = MonotonicClock.now().in_trace(self.start);
        for (source, name) in loss::NAMES.into_iter().enumerate() {
            let inferred = source == loss::SWITCHES as usize;
            if !inferred && lost[source] > self.lost[source] {
                self.losses.push((at, name, lost[source]));
            }
        }
        let life = loss::LIFE as usize;
        if lost[life] > self.lost[life] {
            self.collect_dead();
        }
        self.lost = lost;
    }

    /// Threads whose exit record was lost have left their totals in the map.
    fn collect_dead(&mut self) {
        for (tid, state) in self.probes.states() {
            if state.mode == mode::DEAD {
                self.exit(&Exit {
                    tid,
                    tgid: state.tgid,
                    at_ns: state.since_ns,
                    totals: state.totals,
                    ..Exit::default()
                });
                self.probes.forget(tid);
            }
        }
    }

    fn close_thread(&mut self, tid: u32, state: ThreadState, end: MonoTime) {
        let now = procfs::state(state.tgid, tid);
        let Some(closed) = close(state, end.as_nanos(), now) else {
            return;
        };
        let first = self.time(closed.state.totals.first_ns);
        let thread = self.threads.find_or_add(tid, state.tgid, first);
        if let Some(record) = self.threads.get_mut(thread) {
            record.first = first;
            record.last = end.in_trace(self.start);
            record.totals = closed.state.totals.into();
        }
        if closed.off {
            self.unfinished(thread, tid, &closed.state, end);
        }
    }

    /// A thread that is off CPU when the recording ends: a hang at the end is a stall.
    fn unfinished(&mut self, thread: u32, tid: u32, state: &ThreadState, end: MonoTime) {
        let (out, back) = (self.time(state.out_ns), end.in_trace(self.start));
        if back.since(out) < self.options.threshold {
            return;
        }
        let why = Why::of_class(state.class);
        let blocked = !matches!(why, Why::Preempted | Why::Starting);
        let woken_ns = state.split(end.as_nanos()).woken_ns;
        let names = match blocked && woken_ns == 0 {
            true => procfs::stack(state.tgid, tid),
            false => Vec::new(),
        };
        let truncated = state.flags & flag::TRUNCATED != 0;
        let waker = match woken_ns {
            0 => Waker::None,
            _ => self.waker(state.wake_kind, state.waker),
        };
        self.intervals.push(OffCpuInterval {
            thread,
            out,
            woken: (woken_ns != 0).then(|| self.time(woken_ns)),
            back,
            why,
            iowait: state.flags & flag::IOWAIT != 0,
            truncated,
            inferred: false,
            unfinished: true,
            cpu_out: (!truncated).then_some(state.cpu_out),
            cpu_in: None,
            waker,
            taker: (!truncated).then(|| self.others.id(state.taker)),
            giver: None,
            wait: self.waits.of_names(&names),
        });
    }

    fn time(&self, ns: u64) -> TraceTime {
        MonoTime::from_nanos(ns).in_trace(self.start)
    }
}
