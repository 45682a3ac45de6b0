//! Work on memory that the kernel did on tracked threads, and kills for want of it.

use crate::recording::OtherId;
use gpustall_trace::vocab::cat;
use gpustall_trace::{Pid, TraceTime};
use gpustall_wire::codes::memory;

/// What the kernel did on a thread before it gave the thread the memory that it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryWorkKind {
    /// The machine was short of memory: some was freed.
    DirectReclaim,
    /// The thread's memory cgroup was at its limit: some of its memory was freed.
    CgroupReclaim,
    /// Pages were moved together to make room for a large one.
    Compaction,
    /// Pages were moved to another place or node.
    Migration,
}

impl MemoryWorkKind {
    /// The name that traces use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DirectReclaim => "direct reclaim",
            Self::CgroupReclaim => "cgroup reclaim",
            Self::Compaction => "compaction",
            Self::Migration => "migration",
        }
    }

    /// The category of its slices.
    pub const fn category(self) -> &'static str {
        match self {
            Self::DirectReclaim | Self::CgroupReclaim => cat::RECLAIM,
            Self::Compaction => cat::COMPACTION,
            Self::Migration => cat::MIGRATION,
        }
    }

    /// The kind with this number, see [`memory`].
    pub(crate) fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            memory::DIRECT_RECLAIM => Self::DirectReclaim,
            memory::CGROUP_RECLAIM => Self::CgroupReclaim,
            memory::COMPACTION => Self::Compaction,
            memory::MIGRATION => Self::Migration,
            _ => return None,
        })
    }
}

/// One piece of such work. Those of one thread nest: compaction migrates pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryWork {
    /// Position of the thread in [`Recording::threads`](crate::Recording::threads).
    pub thread: u32,
    /// What was done.
    pub kind: MemoryWorkKind,
    /// When it began.
    pub begin: TraceTime,
    /// When it was over; for unfinished work, the end of the recording.
    pub end: TraceTime,
    /// Pages that were freed or moved; `None` where the kernel does not say.
    pub pages: Option<u64>,
    /// Whether it still went on when the recording ended.
    pub unfinished: bool,
}

/// The kernel killed a tracked process for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomKill {
    /// Position of a thread of the process in [`Recording::threads`](crate::Recording::threads).
    pub thread: u32,
    /// The process.
    pub pid: Pid,
    /// When it was chosen.
    pub at: TraceTime,
    /// The thread that wanted memory when there was none.
    pub wanted_by: OtherId,
}
