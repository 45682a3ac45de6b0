//! The loaded probes: the one place that speaks with the kernel about eBPF.

mod attach;
mod options;

pub use options::Options;

use crate::bitmap::TrackedBitmap;
use crate::cuda::CudaPrograms;
use crate::error::TrackError;
use crate::event::Event;
use crate::recording::Faults;
use crate::state::{Calls, InFlight, State};
use aya::Ebpf;
use aya::maps::{HashMap, MapData, MapError, PerCpuArray, RingBuf};
use gpustall_trace::{MonoTime, MonotonicClock};
use gpustall_wire::codes::{loss, mode};
use gpustall_wire::cuda::OpenCalls;
use gpustall_wire::record::{BlockIo, Exit};
use gpustall_wire::thread::{ThreadState, Totals};
use std::time::{Duration, Instant};

/// The programs, attached, and their maps.
pub(crate) struct Probes {
    /// Holds the programs' attachments; `None` once they are detached.
    programs: Option<Ebpf>,
    cuda: Option<CudaPrograms>,
    tracked: TrackedBitmap,
    threads: HashMap<MapData, u32, State>,
    calls: HashMap<MapData, u32, Calls>,
    events: RingBuf<MapData>,
    lost: PerCpuArray<MapData, u64>,
    in_flight: HashMap<MapData, u64, InFlight>,
    max_threads: u32,
    notes: Vec<String>,
    /// Threads that are no longer tracked, and since when, whose states are still in the map: a
    /// program that has just looked may write to them.
    untracked: Vec<(Instant, u32)>,
}

/// An untracked thread's state leaves the map after this. Programs run for microseconds.
const LINGER: Duration = Duration::from_millis(10);

impl Probes {
    /// What the probes do without on this kernel, each one sentence.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The programs for CUDA calls and what holds their maps, for more to be attached; `None` when the
    /// kernel refused them, and once they are detached.
    pub(crate) fn cuda(&mut self) -> Option<(&mut CudaPrograms, &mut Ebpf)> {
        Some((self.cuda.as_mut()?, self.programs.as_mut()?))
    }

    /// The CUDA calls of a thread that have not returned; they are forgotten.
    pub(crate) fn take_open_calls(&mut self, tid: u32) -> Option<OpenCalls> {
        let open = self.calls.get(&tid, 0).ok()?;
        let _ = self.calls.remove(&tid);
        Some(open.0)
    }

    /// Tracks a thread that exists and has taken these page faults, from `now` on. What it is doing
    /// shows by what it does next. False when it is tracked already.
    pub(crate) fn track(
        &mut self,
        tid: u32,
        tgid: u32,
        before: Faults,
        now: MonoTime,
    ) -> Result<bool, TrackError> {
        if self.untracked.iter().any(|&(_, other)| other == tid) {
            std::thread::sleep(LINGER);
            self.sweep();
        }
        let now = now.as_nanos();
        let state = ThreadState {
            mode: mode::UNKNOWN,
            tgid,
            since_ns: now,
            minor_before: before.minor,
            major_before: before.major,
            totals: Totals {
                first_ns: now,
                ..Totals::default()
            },
            ..ThreadState::default()
        };
        // Only where there is no entry: the probes may have put one at the thread's birth.
        const NO_EXIST: u64 = 1;
        match self.threads.insert(tid, State(state), NO_EXIST) {
            Ok(()) => {
                self.tracked.set(tid);
                Ok(true)
            }
            Err(error) => match self.threads.get(&tid, 0) {
                Ok(_) => Ok(false),
                Err(_) if self.threads.keys().count() >= self.max_threads as usize => {
                    Err(TrackError::Full(self.max_threads))
                }
                Err(_) => Err(TrackError::Refused {
                    tid,
                    why: error.to_string(),
                }),
            },
        }
    }

    /// What is known of a tracked thread.
    pub(crate) fn state(&self, tid: u32) -> Option<ThreadState> {
        self.threads.get(&tid, 0).ok().map(|state| state.0)
    }

    /// The process of a tracked thread, as far as it is known.
    pub(crate) fn process_of(&self, tid: u32) -> u32 {
        self.state(tid).map_or(tid, |state| state.tgid)
    }

    /// Threads that are gone and whose exit record was lost: they left their totals in the map.
    pub(crate) fn take_dead(&mut self) -> Vec<Exit> {
        let states = self.states().into_iter();
        let dead: Vec<Exit> = states
            .filter(|(_, state)| state.mode == mode::DEAD)
            .map(|(tid, state)| Exit {
                tid,
                tgid: state.tgid,
                at_ns: state.since_ns,
                totals: state.totals,
                ..Exit::default()
            })
            .collect();
        for exit in &dead {
            self.forget(exit.tid);
        }
        dead
    }

    /// Tracks a living thread no longer. What is known of it stays until [`sweep`](Self::sweep).
    pub(crate) fn untrack(&mut self, tid: u32) {
        self.tracked.clear(tid);
        if self.threads.get(&tid, 0).is_ok() {
            self.untracked.push((Instant::now(), tid));
        }
    }

    /// Forgets threads that were untracked some time ago.
    pub(crate) fn sweep(&mut self) {
        let Self {
            untracked,
            tracked,
            threads,
            ..
        } = self;
        untracked.retain(|&(since, tid)| {
            let waits = since.elapsed() < LINGER;
            // Unless the id is that of a new thread by now, which the probes track.
            if !waits && !tracked.has(tid) {
                let _ = threads.remove(&tid);
            }
            waits
        });
    }

    /// Whether something is left to [`sweep`](Self::sweep).
    pub(crate) fn has_untracked(&self) -> bool {
        !self.untracked.is_empty()
    }

    /// Whether the kernel lets this process look into the maps.
    pub(crate) fn can_look_up(&self) -> bool {
        let looked = self.threads.get(&0, 0);
        matches!(looked, Ok(_) | Err(MapError::KeyNotFound))
    }

    /// Forgets a thread that is gone.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.tracked.clear(tid);
        let _ = self.threads.remove(&tid);
    }

    /// All tracked threads.
    pub(crate) fn states(&self) -> Vec<(u32, ThreadState)> {
        let all = self.threads.iter().filter_map(Result::ok);
        all.map(|(tid, state)| (tid, state.0)).collect()
    }

    /// Requests to disks that are not done.
    pub(crate) fn in_flight(&self) -> Vec<BlockIo> {
        let all = self.in_flight.iter().filter_map(Result::ok);
        all.map(|(_, request)| request.0).collect()
    }

    /// The oldest record that has not been taken.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        loop {
            let record = self.events.next()?;
            if let Some(event) = Event::parse(&record) {
                return Some(event);
            }
        }
    }

    /// Events lost so far, by source ([`loss`]).
    pub(crate) fn losses(&self) -> [u64; loss::SOURCES as usize] {
        std::array::from_fn(|source| {
            let counts = self.lost.get(&(source as u32), 0);
            counts.map_or(0, |by_cpu| by_cpu.iter().sum())
        })
    }

    /// Ends the recording: nothing changes any more, and what was recorded can be taken. Returns
    /// when that was.
    pub(crate) fn stop(&mut self) -> MonoTime {
        let end = MonotonicClock::read();
        self.tracked.clear_all();
        self.cuda = None;
        self.programs = None;
        end
    }
}
