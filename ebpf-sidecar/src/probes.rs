//! The loaded probes: the one place that speaks with the kernel about eBPF.

use crate::bitmap::TrackedBitmap;
use crate::cuda::CudaPrograms;
use crate::error::{SetupError, TrackError};
use crate::event::Event;
use crate::kernel::{self, Offsets, RequestOffsets};
use crate::recording::Faults;
use crate::state::{Calls, InFlight, State};
use crate::tracepoints::{self, Tracepoint};
use aya::maps::{HashMap, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::util::online_cpus;
use aya::{Btf, Ebpf, EbpfLoader};
use gpustall_trace::{MonoTime, MonotonicClock, Nanos};
use gpustall_wire::codes::{loss, mode};
use gpustall_wire::cuda::OpenCalls;
use gpustall_wire::record::{BlockIo, Exit};
use gpustall_wire::thread::{ThreadState, Totals};
use std::time::{Duration, Instant};

/// The eBPF programs, built by `probes/build.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../prebuilt/gpustall-probes.bpf.o");

/// Which of the two ways to hold registers the probes take.
static ARM64: u32 = cfg!(target_arch = "aarch64") as u32;

/// How the probes record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Off-CPU intervals below this length are only counted in the totals of their thread.
    pub threshold: Nanos,
    /// Off-CPU intervals below this length have no kernel stack: what they waited for is not known.
    pub stack_threshold: Nanos,
    /// Size of the ring buffer, bytes; a power of two and at least a page.
    pub ring_bytes: u32,
    /// Most threads tracked at one time.
    pub max_threads: u32,
    /// How often each CPU is looked at, Hz, to see what the tracked thread on it runs; 0 for never.
    pub sample_hz: u32,
    /// Whether the pages that each thread allocates are counted. Slows every allocation of a page on
    /// the machine.
    pub page_allocs: bool,
    /// Most intervals (about 100 bytes each), most samples, and most CUDA calls, kept in memory; what comes after
    /// them is counted as lost, and stays in the totals.
    pub max_intervals: usize,
    /// Whether calls of the CUDA driver are recorded.
    pub cuda_calls: bool,
}

impl Options {
    /// Below this length a wait hardly shows among a training step's milliseconds.
    pub const DEFAULT_THRESHOLD: Nanos = Nanos::new(20_000);
    /// Walking a stack doubles what an interval costs.
    pub const DEFAULT_STACK_THRESHOLD: Nanos = Nanos::new(20_000);
    /// Room for about 25,000 intervals with stacks: 500 ms at 50,000 a second.
    pub const DEFAULT_RING_BYTES: u32 = 8 << 20;
    /// Not a divisor of the kernel's tick, so that what happens at every tick is not seen too often.
    pub const DEFAULT_SAMPLE_HZ: u32 = 199;
    /// About 5 MB of kernel memory.
    pub const DEFAULT_MAX_THREADS: u32 = 16_384;
    /// About 200 MB.
    pub const DEFAULT_MAX_INTERVALS: usize = 2_000_000;
    /// How often the ring buffer must be emptied: the probes wake nobody when they write.
    pub const DRAIN_EVERY: Duration = Duration::from_millis(20);
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: Self::DEFAULT_THRESHOLD,
            stack_threshold: Self::DEFAULT_STACK_THRESHOLD,
            ring_bytes: Self::DEFAULT_RING_BYTES,
            max_threads: Self::DEFAULT_MAX_THREADS,
            sample_hz: Self::DEFAULT_SAMPLE_HZ,
            page_allocs: false,
            max_intervals: Self::DEFAULT_MAX_INTERVALS,
            cuda_calls: true,
        }
    }
}

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
    /// Loads the programs and attaches them.
    pub(crate) fn attach(options: &Options) -> Result<Self, SetupError> {
        let types = kernel::types()?;
        let offsets = Offsets::of(&types)?;
        let (threshold_ns, stack_ns) = (options.threshold.get(), options.stack_threshold.get());
        let btf = Btf::from_sys_fs().map_err(|e| Box::new(aya::EbpfError::from(e)))?;
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("THRESHOLD_NS", &threshold_ns, true)
            .override_global("STACK_NS", &stack_ns, true)
            .map_max_entries("EVENTS", options.ring_bytes)
            .map_max_entries("THREADS", options.max_threads)
            .map_max_entries("CALLS", options.max_threads)
            .override_global("ARM64", &ARM64, true);
        for (name, value) in offsets.globals() {
            loader.override_global(name, value, true);
        }
        let requests = RequestOffsets::of(&types);
        for (name, value) in requests.iter().flat_map(RequestOffsets::globals) {
            loader.override_global(name, value, true);
        }
        let mut programs = loader.load(OBJECT).map_err(Box::new)?;
        let mut notes = Vec::new();
        if let Err(error) = &requests {
            notes.push(format!("{error}: {}", tracepoints::WITHOUT_REQUESTS));
        }
        for tracepoint in &tracepoints::wanted(&types, options.page_allocs) {
            let attached = tracepoints::has(&types, tracepoint)
                .and_then(|()| attach(&mut programs, tracepoint, &btf));
            match (attached, tracepoint.without) {
                (Ok(()), _) => {}
                (Err(error), None) => return Err(error),
                (Err(error), Some(missing)) => notes.push(format!("{error}: {missing}")),
            }
        }
        if options.sample_hz > 0
            && let Err(error) = sample(&mut programs, options.sample_hz)
        {
            notes.push(format!("{error}: what running threads ran is unknown"));
        }
        // Loaded before the maps are taken; attached when a library is found.
        let cuda = match options.cuda_calls {
            true => CudaPrograms::load(OBJECT, &mut programs)
                .inspect_err(|e| notes.push(format!("{e}: CUDA calls are not recorded")))
                .ok(),
            false => None,
        };
        let Map::Array(tracked) = take(&mut programs, "TRACKED")? else {
            return Err(map_error("TRACKED", "not an array"));
        };
        Ok(Self {
            tracked: TrackedBitmap::map(tracked.fd()).map_err(|e| map_error("TRACKED", e))?,
            threads: HashMap::try_from(take(&mut programs, "THREADS")?)
                .map_err(|e| map_error("THREADS", e))?,
            calls: HashMap::try_from(take(&mut programs, "CALLS")?)
                .map_err(|e| map_error("CALLS", e))?,
            events: RingBuf::try_from(take(&mut programs, "EVENTS")?)
                .map_err(|e| map_error("EVENTS", e))?,
            lost: PerCpuArray::try_from(take(&mut programs, "LOST")?)
                .map_err(|e| map_error("LOST", e))?,
            in_flight: HashMap::try_from(take(&mut programs, "IN_FLIGHT")?)
                .map_err(|e| map_error("IN_FLIGHT", e))?,
            max_threads: options.max_threads,
            programs: Some(programs),
            cuda,
            notes,
            untracked: Vec::new(),
        })
    }

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

fn attach(programs: &mut Ebpf, tracepoint: &Tracepoint, btf: &Btf) -> Result<(), SetupError> {
    let name = tracepoint.name;
    let program = programs
        .program_mut(name)
        .ok_or_else(|| map_error(name, "the object has no such program"))?;
    let mut load = || {
        let program: &mut BtfTracePoint = program.try_into()?;
        program.load(name, btf)?;
        program.attach()
    };
    match load() {
        Ok(_) => Ok(()),
        Err(source) => Err(SetupError::Program {
            name,
            source: Box::new(source),
        }),
    }
}

/// Attaches the sampling program to the clock of each CPU.
fn sample(programs: &mut Ebpf, hz: u32) -> Result<(), SetupError> {
    const NAME: &str = "cpu_clock";
    let program = programs
        .program_mut(NAME)
        .ok_or_else(|| map_error(NAME, "the object has no such program"))?;
    let cpus =
        online_cpus().map_err(|(file, error)| map_error(NAME, format!("{file}: {error}")))?;
    let mut attach = || {
        let program: &mut PerfEvent = program.try_into()?;
        program.load()?;
        for &cpu in &cpus {
            program.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Frequency(hz.into()),
                false,
            )?;
        }
        Ok(())
    };
    attach().map_err(|source| SetupError::Program {
        name: NAME,
        source: Box::new(source),
    })
}

fn take(programs: &mut Ebpf, name: &'static str) -> Result<Map, SetupError> {
    programs
        .take_map(name)
        .ok_or_else(|| map_error(name, "the object does not have it"))
}

fn map_error(name: &'static str, why: impl ToString) -> SetupError {
    let why = why.to_string();
    SetupError::Map { name, why }
}
