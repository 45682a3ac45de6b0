//! What the probes put into the ring buffer. The first word of a record is its kind.

use crate::MAX_FRAMES;
use crate::thread::Totals;

/// A thread's name as the kernel keeps it: 16 bytes, ended by a zero.
pub type Comm = [u8; 16];

/// Another thread, named at the moment it mattered. All zero: there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Other {
    /// Thread id in the root pid namespace; 0 is the idle thread of a CPU.
    pub tid: u32,
    /// Process id in the root pid namespace.
    pub tgid: u32,
    /// Its name then.
    pub comm: Comm,
}

/// One stretch of time that a tracked thread was not on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct OffCpu {
    /// [`OFF_CPU`](crate::codes::kind::OFF_CPU) or
    /// [`OFF_CPU_STACK`](crate::codes::kind::OFF_CPU_STACK).
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// When it left its CPU, ns.
    pub out_ns: u64,
    /// When it was woken, ns, not before `out_ns`; 0 when it was not blocked or no wake-up was seen.
    pub woken_ns: u64,
    /// When it was back on a CPU, ns.
    pub in_ns: u64,
    /// Why it was off, see [`class`](crate::codes::class).
    pub class: u32,
    /// Bits of [`flag`](crate::codes::flag).
    pub flags: u32,
    /// CPU that it left.
    pub cpu_out: u32,
    /// CPU that it came back on.
    pub cpu_in: u32,
    /// Who woke it, see [`waker`](crate::codes::waker).
    pub waker_kind: u32,
    /// Frames of the stack that follows; 0 without one.
    pub frames: u32,
    /// The thread that woke it, when `waker_kind` says thread.
    pub waker: Other,
    /// Who got the CPU that it left.
    pub taker: Other,
    /// Who was on the CPU that it came back on, until then.
    pub giver: Other,
    /// Page faults without I/O that it had taken by then, since it was born.
    pub minor_faults: u64,
    /// Page faults with I/O that it had taken by then, since it was born.
    pub major_faults: u64,
}

/// An off-CPU interval and the kernel stack on which the thread waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct OffCpuStack {
    /// The interval; its `frames` says how many of `stack` are filled.
    pub off: OffCpu,
    /// Return addresses, the innermost first, the scheduler's own left out.
    pub stack: [u64; MAX_FRAMES],
}

/// A turn in the life of a thread, see [`kind`](crate::codes::kind).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Life {
    /// FORK, EXEC or RENAME.
    pub kind: u32,
    /// The thread; the new one for FORK.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// FORK: the thread that made it. EXEC: its thread id before. Otherwise 0.
    pub other_tid: u32,
    /// When, ns.
    pub at_ns: u64,
    /// Its name from then on.
    pub comm: Comm,
}

/// The end of a thread: its last switch away from a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Exit {
    /// [`EXIT`](crate::codes::kind::EXIT).
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Always zero.
    pub reserved: u32,
    /// When, ns.
    pub at_ns: u64,
    /// Where its time went.
    pub totals: Totals,
}

/// What a tracked thread was running when the sampling clock ticked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// [`SAMPLE`](crate::codes::kind::SAMPLE).
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The CPU.
    pub cpu: u32,
    /// When, ns.
    pub at_ns: u64,
    /// How many of `kernel` are filled; 0 when the thread was in user mode.
    pub kernel_frames: u32,
    /// How many of `user` are filled.
    pub user_frames: u32,
    /// Addresses in the kernel, the innermost first.
    pub kernel: [u64; MAX_FRAMES],
    /// Addresses in the program, the innermost first.
    pub user: [u64; MAX_FRAMES],
}

/// Work on memory that the kernel did on a tracked thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct MemoryWork {
    /// [`MEMORY_WORK`](crate::codes::kind::MEMORY_WORK).
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Which work, see [`memory`](crate::codes::memory).
    pub work: u32,
    /// When it began, ns.
    pub begin_ns: u64,
    /// When it was over, ns.
    pub end_ns: u64,
    /// Pages that were freed or moved; 0 for compaction, which does not say.
    pub pages: u64,
}

/// A request to a block device, from when it was handed in until it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct BlockIo {
    /// [`BLOCK_IO`](crate::codes::kind::BLOCK_IO).
    pub kind: u32,
    /// What it does, see [`request`](crate::codes::request).
    pub op: u32,
    /// Bits of [`request_flag`](crate::codes::request_flag).
    pub flags: u32,
    /// Major number of the disk.
    pub major: u32,
    /// Minor number of the disk (the first: that of the whole disk).
    pub minor: u32,
    /// Its length with all that was merged into it, bytes; 0 for a flush.
    pub bytes: u32,
    /// The thread that handed it in.
    pub submitter: Other,
    /// When it was handed in, ns.
    pub start_ns: u64,
    /// When it was done, ns.
    pub done_ns: u64,
}

/// The kernel chose a tracked process to be killed, for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct OomKill {
    /// [`OOM_KILL`](crate::codes::kind::OOM_KILL).
    pub kind: u32,
    /// A thread of the process.
    pub tid: u32,
    /// When, ns.
    pub at_ns: u64,
    /// The thread that wanted memory when there was none.
    pub wanted_by: Other,
}
