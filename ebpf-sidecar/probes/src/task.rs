//! Fields of `task_struct`.

use crate::settings::{
    TASK_COMM, TASK_EXEC, TASK_FLAGS, TASK_IOWAIT, TASK_IOWAIT_MASK, TASK_MAJOR_FAULTS,
    TASK_MINOR_FAULTS, TASK_PID, TASK_STATE, TASK_TGID,
};
use aya_ebpf::helpers::bpf_get_current_task_btf;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::record::{Comm, Other};

/// A `task_struct` that the verifier trusts: an argument of a BTF tracepoint, or the current task.
#[derive(Clone, Copy)]
pub(crate) struct Task(*const u8);

impl Task {
    /// Argument `n` of the tracepoint, which must be a `struct task_struct *`.
    #[inline(always)]
    pub(crate) fn arg(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// The task that runs on this CPU.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: the helper takes nothing and always returns the current task.
        Self(unsafe { bpf_get_current_task_btf() }.cast_const().cast())
    }

    /// For helpers that take a task.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut aya_ebpf::bindings::task_struct {
        self.0.cast_mut().cast()
    }

    #[inline(always)]
    fn load<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks the access against the kernel's type of the task and makes a
        // load that faults read zero.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }

    /// Thread id in the root pid namespace.
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        self.load(TASK_PID.load())
    }

    /// Process id in the root pid namespace.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        self.load(TASK_TGID.load())
    }

    /// Its state (`TASK_...`).
    #[inline(always)]
    pub(crate) fn state(self) -> u32 {
        self.load(TASK_STATE.load())
    }

    /// CPU time that the kernel has counted for it, ns; complete at a switch away.
    #[inline(always)]
    pub(crate) fn exec_ns(self) -> u64 {
        self.load(TASK_EXEC.load())
    }

    /// Whether it waits for I/O as the kernel counts it.
    #[inline(always)]
    pub(crate) fn in_iowait(self) -> bool {
        let byte: u8 = self.load(TASK_IOWAIT.load());
        u32::from(byte) & TASK_IOWAIT_MASK.load() != 0
    }

    /// Page faults without I/O that it has taken.
    #[inline(always)]
    pub(crate) fn minor_faults(self) -> u64 {
        self.load(TASK_MINOR_FAULTS.load())
    }

    /// Page faults with I/O that it has taken.
    #[inline(always)]
    pub(crate) fn major_faults(self) -> u64 {
        self.load(TASK_MAJOR_FAULTS.load())
    }

    /// Whether it is a thread of the kernel.
    #[inline(always)]
    pub(crate) fn is_kernel_thread(self) -> bool {
        /// `PF_KTHREAD` (include/linux/sched.h).
        const KERNEL_THREAD: u32 = 0x0020_0000;
        self.load::<u32>(TASK_FLAGS.load()) & KERNEL_THREAD != 0
    }

    /// Its name.
    #[inline(always)]
    pub(crate) fn comm(self) -> Comm {
        let at = TASK_COMM.load();
        let halves: [u64; 2] = [self.load(at), self.load(at + 8)];
        let mut comm = [0; 16];
        let [first, second] = halves.map(u64::to_ne_bytes);
        comm[..8].copy_from_slice(&first);
        comm[8..].copy_from_slice(&second);
        comm
    }

    /// Its ids and name.
    #[inline(always)]
    pub(crate) fn named(self) -> Other {
        Other {
            tid: self.tid(),
            tgid: self.tgid(),
            comm: self.comm(),
        }
    }
}
