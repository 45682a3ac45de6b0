//! Numbers with names: kinds of records, classes of intervals, kinds of wakers, sources of losses.

/// Kinds of records in the ring buffer; the first word of each.
pub mod kind {
    /// An [`OffCpu`](crate::record::OffCpu).
    pub const OFF_CPU: u32 = 1;
    /// An [`OffCpuStack`](crate::record::OffCpuStack).
    pub const OFF_CPU_STACK: u32 = 2;
    /// A [`Life`](crate::record::Life): a tracked thread made a thread or process.
    pub const FORK: u32 = 3;
    /// A [`Life`](crate::record::Life): a tracked process runs another program.
    pub const EXEC: u32 = 4;
    /// A [`Life`](crate::record::Life): a tracked thread has another name.
    pub const RENAME: u32 = 5;
    /// An [`Exit`](crate::record::Exit).
    pub const EXIT: u32 = 6;
    /// A [`Sample`](crate::record::Sample).
    pub const SAMPLE: u32 = 7;
    /// A [`MemoryWork`](crate::record::MemoryWork).
    pub const MEMORY_WORK: u32 = 8;
    /// A [`BlockIo`](crate::record::BlockIo).
    pub const BLOCK_IO: u32 = 9;
    /// An [`OomKill`](crate::record::OomKill).
    pub const OOM_KILL: u32 = 10;
    /// A [`CudaCall`](crate::cuda::CudaCall).
    pub const CUDA_CALL: u32 = 16;
}

/// Work on memory that the kernel does on a thread before it gives the thread what it asked for.
pub mod memory {
    /// The machine was short of memory, and the thread freed some of it.
    pub const DIRECT_RECLAIM: u32 = 0;
    /// The thread's memory cgroup was at its limit, and the thread freed some of its memory.
    pub const CGROUP_RECLAIM: u32 = 1;
    /// Pages were moved together to make room for a large one.
    pub const COMPACTION: u32 = 2;
    /// Pages were moved to another place or node.
    pub const MIGRATION: u32 = 3;
    /// How many kinds there are.
    pub const KINDS: usize = 4;
}

/// What a request to a block device does: the numbers of `enum req_op` that have been the same since
/// Linux 4.10, and that name requests here.
pub mod request {
    /// The bits of a request's flags that hold the operation.
    pub const OP_MASK: u32 = 0xFF;
    /// Data is read.
    pub const READ: u32 = 0;
    /// Data is written.
    pub const WRITE: u32 = 1;
    /// The device writes out its cache.
    pub const FLUSH: u32 = 2;
    /// Data is given up.
    pub const DISCARD: u32 = 3;
    /// Data is given up and erased.
    pub const SECURE_ERASE: u32 = 5;
}

/// Bits of [`BlockIo::flags`](crate::record::BlockIo::flags).
pub mod request_flag {
    /// A thread of the kernel handed it in: somebody else may wait for it.
    pub const KERNEL_THREAD: u32 = 1;
}

/// Why a thread was not on a CPU.
pub mod class {
    /// It could have run on: its CPU was given to another thread, or it yielded.
    pub const PREEMPTED: u32 = 0;
    /// It slept and a signal could have woken it (`S`).
    pub const SLEEPING: u32 = 1;
    /// It slept and nothing but the event could have woken it (`D`).
    pub const UNINTERRUPTIBLE: u32 = 2;
    /// It was stopped, traced or parked.
    pub const STOPPED: u32 = 3;
    /// It was new and had not run yet.
    pub const STARTING: u32 = 4;

    /// The class of a thread that leaves its CPU in this state of its task.
    #[inline(always)]
    pub const fn of_state(state: u32) -> u32 {
        use super::task_state;
        if state == 0 {
            PREEMPTED
        } else if state & task_state::UNINTERRUPTIBLE != 0 {
            UNINTERRUPTIBLE
        } else if state & task_state::INTERRUPTIBLE != 0 {
            SLEEPING
        } else {
            STOPPED
        }
    }
}

/// Bits of a task's state that have been the same since Linux 4.14 (`include/linux/sched.h`).
pub mod task_state {
    /// A signal can wake it.
    pub const INTERRUPTIBLE: u32 = 0x01;
    /// Only the event can wake it.
    pub const UNINTERRUPTIBLE: u32 = 0x02;
    /// It switches away for the last time.
    pub const DEAD: u32 = 0x80;
}

/// What a tracked thread is doing as far as the probes know.
pub mod mode {
    /// It was there before the probes, and nothing has happened to it since.
    pub const UNKNOWN: u32 = 0;
    /// It has been made and not yet been woken for the first time.
    pub const NEW: u32 = 1;
    /// It is on a CPU.
    pub const RUNNING: u32 = 2;
    /// It is off CPU since [`out_ns`](crate::thread::ThreadState::out_ns).
    pub const OFF: u32 = 3;
    /// It is gone, and its exit record did not fit into the ring buffer.
    pub const DEAD: u32 = 4;
}

/// Who woke a thread.
pub mod waker {
    /// Nobody, or it was not seen.
    pub const NONE: u32 = 0;
    /// The thread that the record names.
    pub const THREAD: u32 = 1;
    /// A timer that ran out.
    pub const TIMER: u32 = 2;
    /// A device's interrupt, or the work that it left to a soft interrupt.
    pub const DEVICE: u32 = 3;
    /// Other work of the kernel in an interrupt or in the idle loop.
    pub const KERNEL: u32 = 4;
}

/// Bits of [`OffCpu::flags`](crate::record::OffCpu::flags).
pub mod flag {
    /// The kernel counted the wait as one for I/O.
    pub const IOWAIT: u32 = 1;
    /// The thread was off CPU before the probes were there: the interval starts with tracking.
    pub const TRUNCATED: u32 = 2;
    /// The kernel did not report one of the two switches: its time follows from the CPU time that
    /// the kernel counted for the thread, and who had the CPU then is not known.
    pub const INFERRED: u32 = 4;
}

/// Where an event was lost; index into the probes' array of counts.
pub mod loss {
    /// Off-CPU records that did not fit into the ring buffer. Totals still hold their time.
    pub const OFF_CPU: u32 = 0;
    /// Records of the life of threads that did not fit into the ring buffer.
    pub const LIFE: u32 = 1;
    /// New threads for which the map of threads had no place: they are not tracked.
    pub const THREADS: u32 = 2;
    /// Switches that the kernel did not report and that were inferred: no time is lost.
    pub const SWITCHES: u32 = 3;
    /// Samples of running threads that did not fit into the ring buffer.
    pub const SAMPLES: u32 = 4;
    /// Work on memory that did not fit into the ring buffer.
    pub const MEMORY_WORK: u32 = 5;
    /// Kills for want of memory that did not fit into the ring buffer.
    pub const OOM_KILLS: u32 = 6;
    /// Requests to block devices that did not fit into the ring buffer.
    pub const BLOCK_IO: u32 = 7;
    /// Requests to block devices for which the map of those in flight had no place.
    pub const IN_FLIGHT: u32 = 8;
    /// Calls into the CUDA driver that did not fit into the ring buffer, were nested too deeply or found
    /// no place in the map of calls.
    pub const CUDA_CALLS: u32 = 9;
    /// How many sources there are.
    pub const SOURCES: u32 = 10;

    /// Names of the sources, by their numbers.
    pub const NAMES: [&str; SOURCES as usize] = [
        "off-cpu intervals",
        "thread events",
        "untracked threads",
        "unreported switches",
        "cpu samples",
        "memory work",
        "oom kills",
        "disk requests",
        "disk requests in flight",
        "CUDA calls",
    ];
}
