//! Globals that the user side sets before the programs are loaded. The verifier knows their values.

use aya_ebpf::Global;

/// Off-CPU intervals below this length get no record, ns.
#[unsafe(no_mangle)]
pub(crate) static THRESHOLD_NS: Global<u64> = Global::new(20_000);

/// Whether the machine is an aarch64: the object is the same for all.
#[unsafe(no_mangle)]
pub(crate) static ARM64: Global<u32> = Global::new(0);

/// Off-CPU intervals below this length get no kernel stack, ns.
#[unsafe(no_mangle)]
pub(crate) static STACK_NS: Global<u64> = Global::new(20_000);

macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) static $name: Global<u32> = Global::new(0);
    )+};
}

offsets! {
    /// Byte offset of `task_struct.pid`: the thread id.
    TASK_PID,
    /// Byte offset of `task_struct.tgid`: the process id.
    TASK_TGID,
    /// Byte offset of `task_struct.comm`.
    TASK_COMM,
    /// Byte offset of `task_struct.__state`.
    TASK_STATE,
    /// Byte offset of `task_struct.se.sum_exec_runtime`.
    TASK_EXEC,
    /// Byte that holds the bit `task_struct.in_iowait`.
    TASK_IOWAIT,
    /// The bit in that byte, as a mask.
    TASK_IOWAIT_MASK,
    /// Byte offset of `task_struct.flags`.
    TASK_FLAGS,
    /// Byte offset of `task_struct.min_flt`.
    TASK_MINOR_FAULTS,
    /// Byte offset of `task_struct.maj_flt`.
    TASK_MAJOR_FAULTS,
    /// Byte offset of `request.q`.
    REQUEST_QUEUE,
    /// Byte offset of `request.cmd_flags`.
    REQUEST_FLAGS,
    /// Byte offset of `request.__data_len`.
    REQUEST_BYTES,
    /// Byte offset of `request_queue.disk`.
    QUEUE_DISK,
    /// Byte offset of `gendisk.major`.
    DISK_MAJOR,
    /// Byte offset of `gendisk.first_minor`.
    DISK_MINOR,
    /// 1 where the kernel tells of requests only when they reach the device.
    REQUESTS_BY_ISSUE,
    /// 1 where `mark_victim` is given the task, 0 where it is given the id only.
    VICTIM_IS_TASK,
}
