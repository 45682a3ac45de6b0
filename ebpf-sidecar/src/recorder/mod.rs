//! A recording while it runs.

mod book;
mod cuda;
mod ending;
mod events;
mod machine;

pub(crate) use book::{Book, LossCounts};

use crate::close::close;
use crate::cuda::CudaLibraries;
use crate::error::{SetupError, TrackError};
use crate::event::Event;
use crate::host::{self, Host};
use crate::probes::{Options, Probes};
use crate::programs::Programs;
use crate::recording::Recording;
use crate::symbols::KernelSymbols;
use crate::view::View;
use crate::{privilege, procfs};
use gpustall_trace::{Clock, MonoTime, MonotonicClock, TraceTime};
use gpustall_wire::codes::loss;
use gpustall_wire::thread::ThreadState;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often names of the programs' functions are looked up: while the processes live, and so that
/// new stacks come together.
const LOOK_UP_EVERY: Duration = Duration::from_millis(500);

/// How often the counts of losses are read.
const LOSSES_EVERY: Duration = Duration::from_millis(100);

/// Tracks processes and keeps what the probes report of them. [`drain`](Self::drain) must be called
/// every [`Options::DRAIN_EVERY`].
pub struct Recorder {
    probes: Probes,
    book: Book,
    host: Host,
    /// `None` when calls of the CUDA driver are not recorded.
    cuda: Option<CudaLibraries>,
    programs: Programs,
    looked_up: Instant,
    losses_read: Instant,
    /// Intervals and CUDA calls that were taken out.
    taken: (usize, usize),
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub at: TraceTime,
    /// Tracked threads that live.
    pub threads: usize,
    /// Intervals recorded.
    pub intervals: usize,
    /// CUDA calls recorded.
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
        let (symbols, notes) = symbols(&probes);
        let start = MonotonicClock.now();
        let lost = probes.losses();
        let mut book = Book::new(options, start, View::default(), symbols, lost);
        notes.into_iter().for_each(|note| book.note(note));
        Ok(Self {
            probes,
            book,
            host: Host::start(),
            cuda,
            programs: Programs::new(),
            looked_up: Instant::now(),
            losses_read: Instant::now(),
            taken: (0, 0),
        })
    }

    /// Tracks a process, the processes that it forked, and whatever all their threads make from
    /// now on.
    ///
    /// # Errors
    /// When there is no such process, or more threads than [`Options::max_threads`].
    pub fn track_process(&mut self, pid: u32) -> Result<(), TrackError> {
        track_process(&mut self.probes, &mut self.book, pid, |_| true, |_| false)
    }

    /// Takes what the probes have reported since the last call.
    pub fn drain(&mut self) {
        // What is reported while this runs is left for the next call, so that it always ends.
        let until = MonotonicClock.now();
        while let Some(event) = self.probes.next_event() {
            if self.add(&event) > until {
                break;
            }
        }
        if self.losses_read.elapsed() >= LOSSES_EVERY {
            self.note_losses();
            self.losses_read = Instant::now();
        }
        self.find_cuda();
        self.look_at_the_machine(Host::EVERY, None);
        if self.looked_up.elapsed() >= LOOK_UP_EVERY {
            self.book.look_up(&mut self.programs);
            self.book.settle_requests(until);
            self.looked_up = Instant::now();
        }
    }

    /// How far the recording is.
    pub fn progress(&self) -> Progress {
        Progress {
            at: MonotonicClock.now().in_trace(self.book.start),
            threads: self.book.living(),
            intervals: self.taken.0 + self.book.intervals(),
            cuda_calls: self.taken.1 + self.book.cuda_calls.len(),
            lost: self.book.lost(),
        }
    }

    /// Time zero of the recording.
    pub fn start_time(&self) -> MonoTime {
        self.book.start
    }

    /// What was recorded since the last call: a part of the recording, of which
    /// [`finish`](Self::finish) then gives the last one.
    pub fn take(&mut self) -> Recording {
        let now = MonotonicClock.now();
        self.book.look_up(&mut self.programs);
        self.book.settle_requests(now);
        let part = self.book.take(now, false);
        self.taken.0 += part.intervals.len();
        self.taken.1 += part.cuda_calls.len();
        part
    }

    /// Ends the recording; what it gives is all of it, or the last part.
    pub fn finish(mut self) -> Recording {
        let end = self.probes.stop();
        self.look_at_the_machine(Host::AT_LEAST, Some(end));
        while let Some(event) = self.probes.next_event() {
            self.add(&event);
        }
        self.note_losses();
        for (tid, state) in self.probes.states() {
            self.unfinished_calls(tid, state.tgid, end.as_nanos());
            self.book.close_thread(tid, state, end);
        }
        self.book.end_requests(self.probes.in_flight(), end);
        self.book.look_up(&mut self.programs);
        for note in self.cuda.into_iter().flat_map(CudaLibraries::into_notes) {
            self.book.note(note);
        }
        self.book.take(end, true)
    }

    /// Adds one event; returns when it was.
    fn add(&mut self, event: &Event) -> MonoTime {
        if let Event::Exit(exit) = event {
            self.unfinished_calls(exit.tid, exit.tgid, exit.at_ns);
        }
        let tgid = process_of(&self.probes, &self.book, event);
        self.book.add(event, tgid)
    }

    /// Looks at the machine as a whole, when the last look is at least `after` ago. A look after the
    /// end of the recording counts as one at its end.
    fn look_at_the_machine(&mut self, after: Duration, end: Option<MonoTime>) {
        let at = end.unwrap_or_else(|| MonotonicClock.now());
        if let Some(sample) = self.host.look(after, || TraceTime::ZERO) {
            self.book.host_sample(sample, at);
        }
    }

    fn note_losses(&mut self) {
        let lost = self.probes.losses();
        if self.book.lost_since(&lost, loss::LIFE) {
            for exit in self.probes.take_dead() {
                self.unfinished_calls(exit.tid, exit.tgid, exit.at_ns);
                self.book.exit(&exit);
            }
        }
        self.book.note_losses(&lost);
    }
}

/// Names of the kernel's functions, and what the user should know of the probes and them.
pub(crate) fn symbols(probes: &Probes) -> (Arc<KernelSymbols>, Vec<String>) {
    let mut notes = probes.notes().to_vec();
    let symbols = KernelSymbols::of_running_kernel().unwrap_or_default();
    if symbols.is_empty() {
        notes.push(
            "the kernel hides the addresses of its functions: what threads waited for is unknown"
                .to_owned(),
        );
    }
    notes.extend(host::pressure_problem().map(|problem| {
        format!("{problem}: how long tasks of the machine waited for CPU, memory or I/O is unknown")
    }));
    (Arc::new(symbols), notes)
}

/// Tracks a process and those that it forked for one job: the processes that are `wanted`. Threads
/// that are `shared` are tracked for another job too.
pub(crate) fn track_process(
    probes: &mut Probes,
    book: &mut Book,
    pid: u32,
    wanted: impl Fn(u32) -> bool,
    shared: impl Fn(u32) -> bool,
) -> Result<(), TrackError> {
    let threads = procfs::threads(pid);
    if threads.is_empty() {
        return Err(TrackError::NoProcess(pid));
    }
    let dead = |&tid: &u32| matches!(procfs::state(pid, tid), Some('Z' | 'X'));
    if threads.iter().all(dead) {
        return Err(TrackError::Ended(pid));
    }
    // What a thread made before it was tracked itself shows in the next look, and what it makes
    // after that is tracked by the probes: when a look finds nothing new, nothing is missing.
    loop {
        let mut found = false;
        let family = procfs::family(pid, &procfs::processes());
        for pid in family.into_iter().filter(|&pid| wanted(pid)) {
            for tid in procfs::threads(pid) {
                found |= track_thread(probes, book, tid, pid, &shared)?;
            }
        }
        if !found {
            return Ok(());
        }
    }
}

fn track_thread(
    probes: &mut Probes,
    book: &mut Book,
    tid: u32,
    pid: u32,
    shared: impl Fn(u32) -> bool,
) -> Result<bool, TrackError> {
    let now = MonotonicClock.now();
    let faults = procfs::faults(pid, tid).unwrap_or_default();
    let new = probes.track(tid, pid, faults, now)?;
    // The probes report the beginning of those that are neither new to them nor shared.
    if !new && (book.knows(tid) || !shared(tid)) {
        return Ok(false);
    }
    let before = match new {
        true => None,
        false => probes.state(tid).and_then(|state| as_of(tid, state, now)),
    };
    // It may have ended between being listed and being tracked.
    if !book.add_thread((tid, pid), now, faults, before) && new {
        probes.forget(tid);
    }
    Ok(true)
}

/// The process of the thread that an event is about; asked only where it matters.
pub(crate) fn process_of(probes: &Probes, book: &Book, event: &Event) -> u32 {
    let tid = event.tid();
    match book.knows(tid) {
        true => 0,
        false => probes.process_of(tid),
    }
}

/// The state of a thread with everything up to `now` in its totals.
fn as_of(tid: u32, state: ThreadState, now: MonoTime) -> Option<ThreadState> {
    let letter = procfs::state(state.tgid, tid);
    let closed = close(state, now.as_nanos(), letter)?;
    Some(ThreadState {
        since_ns: now.as_nanos(),
        ..closed.state
    })
}
