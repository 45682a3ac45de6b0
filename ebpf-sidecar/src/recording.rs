//! What a recording consists of.

use crate::cuda::CudaCall;
use crate::disk::BlockIo;
use crate::host::HostSample;
use crate::memory::{MemoryWork, OomKill};
use crate::run::Run;
use crate::wait::Wait;
use gpustall_trace::vocab::state;
use gpustall_trace::{MonoTime, Nanos, Pid, Tid, TraceTime};
use gpustall_wire::codes::class;
use gpustall_wire::thread;
use std::collections::BTreeMap;

/// Everything that was recorded. All times are since `start`.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Time zero.
    pub start: MonoTime,
    /// When the probes were detached.
    pub end: TraceTime,
    /// The tracked threads, in the order they were first seen.
    pub threads: Vec<ThreadRecord>,
    /// Stretches off CPU above the threshold, in the order they ended.
    pub intervals: Vec<OffCpuInterval>,
    /// Threads that displaced or woke tracked ones, or are tracked ones that did.
    pub others: Vec<Other>,
    /// What was waited for.
    pub waits: Vec<Wait>,
    /// Samples of running threads, in the order they were taken.
    pub samples: Vec<CpuSample>,
    /// Calls of the CUDA driver, in the order they returned.
    pub cuda_calls: Vec<CudaCall>,
    /// What was run.
    pub runs: Vec<Run>,
    /// Work on memory that the kernel did on tracked threads, in the order it ended.
    pub memory_work: Vec<MemoryWork>,
    /// Processes that the kernel killed for want of memory, in the order it did.
    pub oom_kills: Vec<OomKill>,
    /// Requests to disks, in the order they were done.
    pub block_io: Vec<BlockIo>,
    /// The machine as a whole, five times a second.
    pub host: Vec<HostSample>,
    /// Counts of lost events: when the count was taken, the source, how many by then.
    pub losses: Vec<(TraceTime, &'static str, u64)>,
    /// What the user should know, each one sentence.
    pub notes: Vec<String>,
    /// Whether nothing follows: threads that still live are accounted up to `end`.
    pub finished: bool,
}

/// A tracked thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRecord {
    /// Its number: threads count from 0 in the order they were first seen.
    pub number: u32,
    /// Its id in the root pid namespace; for a client of the server, in the client's.
    pub tid: Tid,
    /// Its process.
    pub pid: Pid,
    /// Its last name.
    pub name: String,
    /// The thread that made it, when that was recorded.
    pub parent: Option<Tid>,
    /// When tracking began: its first wake-up for a thread made during the recording.
    pub first: TraceTime,
    /// When it ended, or the end of the recording.
    pub last: TraceTime,
    /// Whether it ended during the recording.
    pub ended: bool,
    /// Page faults that it had taken before `first`.
    pub faults_before: Faults,
    /// Where its time from `first` to `last` went.
    pub totals: Totals,
}

/// Counts of page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Taken without I/O.
    pub minor: u64,
    /// Taken with I/O: something was read from a disk.
    pub major: u64,
}

/// Where a thread's time went. Each is measured on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// On a CPU.
    pub on_cpu: Nanos,
    /// Off CPU although it could have run on.
    pub preempted: Nanos,
    /// Woken, or new, and waiting for a CPU.
    pub woken: Nanos,
    /// Blocked in an interruptible sleep.
    pub sleeping: Nanos,
    /// Blocked in an uninterruptible sleep.
    pub uninterruptible: Nanos,
    /// Stopped, traced or parked.
    pub stopped: Nanos,
    /// The part of the blocked time that the kernel counted as waiting for I/O.
    pub iowait: Nanos,
    /// Switches away while it could have run on.
    pub preemptions: u64,
    /// Switches away because it blocked, and its own start.
    pub waits: u64,
    /// Intervals too short for a record of their own.
    pub short_count: u64,
    /// Their length.
    pub short: Nanos,
    /// Intervals whose record was lost.
    pub lost_count: u64,
    /// Their length.
    pub lost: Nanos,
    /// Page faults.
    pub faults: Faults,
    /// Pages allocated; `None` unless [`Options::page_allocs`](crate::Options::page_allocs) asked for
    /// it.
    pub page_allocs: Option<u64>,
}

impl Totals {
    /// Able to run and not running: what the kernel's `schedstat` calls run delay.
    pub fn runnable(&self) -> Nanos {
        self.preempted + self.woken
    }

    /// Blocked in any way.
    pub fn blocked(&self) -> Nanos {
        self.sleeping + self.uninterruptible + self.stopped
    }

    /// All that was measured, to be compared with the wall time.
    pub fn measured(&self) -> Nanos {
        self.on_cpu + self.runnable() + self.blocked()
    }
}

impl Totals {
    /// As the probes counted them; `page_allocs` says whether they counted pages.
    pub(crate) fn new(raw: thread::Totals, page_allocs: bool) -> Self {
        Self {
            on_cpu: Nanos::new(raw.on_cpu_ns),
            preempted: Nanos::new(raw.preempted_ns),
            woken: Nanos::new(raw.woken_ns),
            sleeping: Nanos::new(raw.sleeping_ns),
            uninterruptible: Nanos::new(raw.uninterruptible_ns),
            stopped: Nanos::new(raw.stopped_ns),
            iowait: Nanos::new(raw.iowait_ns),
            preemptions: raw.preemptions,
            waits: raw.waits,
            short_count: raw.short_count,
            short: Nanos::new(raw.short_ns),
            lost_count: raw.lost_count,
            lost: Nanos::new(raw.lost_ns),
            faults: Faults {
                minor: raw.minor_faults,
                major: raw.major_faults,
            },
            page_allocs: page_allocs.then_some(raw.page_allocs),
        }
    }
}

/// Position of a thread in [`Recording::others`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherId(pub(crate) u32);

/// A thread that played a part in an interval of a tracked one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Other {
    /// Its id; 0 is the idle thread of a CPU.
    pub tid: Tid,
    /// Its process.
    pub pid: Pid,
    /// Its name at that moment.
    pub name: String,
    /// Whether its ids are those that the reader of the recording knows; otherwise it has only a
    /// name.
    pub has_ids: bool,
}

impl Other {
    /// Whether it is the idle thread: nobody wanted the CPU.
    pub fn is_idle(&self) -> bool {
        self.tid.0 == 0
    }
}

/// Position of a wait in [`Recording::waits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitId(pub(crate) u32);

/// Position of a run in [`Recording::runs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunId(pub(crate) u32);

/// What a thread was running when the sampling clock of its CPU ticked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSample {
    /// Position of the thread in [`Recording::threads`].
    pub thread: u32,
    /// When.
    pub at: TraceTime,
    /// On which CPU.
    pub cpu: u32,
    /// What it ran.
    pub run: RunId,
}

/// Why a thread was not on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// It could have run on: its CPU was given to another thread, or it yielded.
    Preempted,
    /// It slept, and a signal could have woken it.
    Sleeping,
    /// It slept, and only the event could have woken it.
    Uninterruptible,
    /// It was stopped, traced or parked.
    Stopped,
    /// It was new and had not run yet.
    Starting,
}

impl Why {
    /// The name that traces use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preempted => state::PREEMPTED,
            Self::Sleeping => state::SLEEPING,
            Self::Uninterruptible => state::UNINTERRUPTIBLE,
            Self::Stopped => state::STOPPED,
            Self::Starting => state::STARTING,
        }
    }

    pub(crate) fn of_class(code: u32) -> Self {
        match code {
            class::PREEMPTED => Self::Preempted,
            class::SLEEPING => Self::Sleeping,
            class::UNINTERRUPTIBLE => Self::Uninterruptible,
            class::STARTING => Self::Starting,
            _ => Self::Stopped,
        }
    }
}

/// Who woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waker {
    /// Nobody (it was not blocked, or still is), or the wake-up was not seen.
    None,
    /// A thread.
    Thread(OtherId),
    /// A timer that ran out.
    Timer,
    /// A device's interrupt.
    Device,
    /// Other work of the kernel in an interrupt.
    Kernel,
}

/// A stretch of time that a tracked thread was not on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffCpuInterval {
    /// Position of the thread in [`Recording::threads`].
    pub thread: u32,
    /// When it left its CPU; for a truncated interval, when tracking began.
    pub out: TraceTime,
    /// When it was woken: it was able to run from then on.
    pub woken: Option<TraceTime>,
    /// When it was back on a CPU; for an unfinished interval, the end of the recording.
    pub back: TraceTime,
    /// Why it was off.
    pub why: Why,
    /// Whether the kernel counted it as waiting for I/O.
    pub iowait: bool,
    /// Whether it was off before tracking began.
    pub truncated: bool,
    /// Whether the kernel did not report one of the two switches: that time follows from the CPU time
    /// that the kernel counted for the thread.
    pub inferred: bool,
    /// Whether it was still off when the recording ended.
    pub unfinished: bool,
    /// CPU that it left; `None` for a truncated or inferred interval.
    pub cpu_out: Option<u32>,
    /// CPU that it came back on; `None` for an unfinished interval.
    pub cpu_in: Option<u32>,
    /// Who woke it.
    pub waker: Waker,
    /// Who got the CPU that it left; `None` for a truncated or inferred interval.
    pub taker: Option<OtherId>,
    /// Who was on the CPU that it came back on; `None` for an unfinished or inferred interval.
    pub giver: Option<OtherId>,
    /// What it waited for; `None` when it was not blocked, no stack could be taken, or it was below
    /// [`Options::stack_threshold`](crate::Options::stack_threshold).
    pub wait: Option<WaitId>,
    /// Page faults that the thread had taken when it left the CPU, since it was born.
    pub faults: Faults,
}

impl OffCpuInterval {
    /// Its length.
    pub fn len(&self) -> Nanos {
        self.back.since(self.out)
    }

    /// Whether it took no time.
    pub fn is_empty(&self) -> bool {
        self.len() == Nanos::ZERO
    }

    /// The part of it in which the thread could have run.
    pub fn runnable(&self) -> Nanos {
        match (self.why, self.woken) {
            (Why::Preempted | Why::Starting, _) => self.len(),
            (_, Some(woken)) => self.back.since(woken),
            (_, None) => Nanos::ZERO,
        }
    }
}

impl Recording {
    /// The other thread with this id.
    pub fn other(&self, id: OtherId) -> &Other {
        &self.others[id.0 as usize]
    }

    /// The wait with this id.
    pub fn wait(&self, id: WaitId) -> &Wait {
        &self.waits[id.0 as usize]
    }

    /// The run with this id.
    pub fn run(&self, id: RunId) -> &Run {
        &self.runs[id.0 as usize]
    }

    /// Events lost by the end, by source; those without losses are left out.
    pub fn lost_by_source(&self) -> BTreeMap<&'static str, u64> {
        self.losses
            .iter()
            .map(|&(_, source, n)| (source, n))
            .collect()
    }
}
