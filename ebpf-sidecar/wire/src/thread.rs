//! What the probes know of each tracked thread: the value of the map of threads.

use crate::codes::{class, flag, memory};
use crate::record::Other;

/// Where a thread's time went since it was tracked. Each is measured on its own, from the two
/// events that bound it; none is what the others leave over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Totals {
    /// When tracking began, ns of `CLOCK_MONOTONIC`; for a new thread, its first wake-up.
    pub first_ns: u64,
    /// On a CPU, ns.
    pub on_cpu_ns: u64,
    /// Off CPU although it could have run on, ns.
    pub preempted_ns: u64,
    /// Woken (or new) and waiting for a CPU, ns.
    pub woken_ns: u64,
    /// Blocked in an interruptible sleep, ns.
    pub sleeping_ns: u64,
    /// Blocked in an uninterruptible sleep, ns.
    pub uninterruptible_ns: u64,
    /// Stopped, traced or parked, ns.
    pub stopped_ns: u64,
    /// The part of the blocked time that the kernel counted as waiting for I/O, ns.
    pub iowait_ns: u64,
    /// Off-CPU intervals that began with the thread able to run.
    pub preemptions: u64,
    /// Off-CPU intervals that began with the thread blocked (or new).
    pub waits: u64,
    /// Intervals below the threshold: they are in the totals and have no record.
    pub short_count: u64,
    /// Length of the intervals below the threshold, ns.
    pub short_ns: u64,
    /// Intervals whose record did not fit into the ring buffer.
    pub lost_count: u64,
    /// Length of the intervals whose record did not fit into the ring buffer, ns.
    pub lost_ns: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Pages allocated; counted only when that was asked for.
    pub page_allocs: u64,
}

impl Totals {
    /// Blocked in any way, ns.
    pub const fn blocked_ns(&self) -> u64 {
        self.sleeping_ns + self.uninterruptible_ns + self.stopped_ns
    }

    /// Able to run and not running, ns: what the kernel's `schedstat` calls run delay.
    pub const fn runnable_ns(&self) -> u64 {
        self.preempted_ns + self.woken_ns
    }

    /// Everything that was measured, ns; to be compared with the wall time.
    pub const fn measured_ns(&self) -> u64 {
        self.on_cpu_ns + self.runnable_ns() + self.blocked_ns()
    }
}

/// What the probes know of one tracked thread.
///
/// A wake-up writes only the `wake_` fields and `waker`; `memory_ns` and `totals.page_allocs` are
/// written by the thread itself while it runs; everything else is written by switches, and the
/// scheduler never switches one thread on two CPUs at once. So no two CPUs write one field at the
/// same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ThreadState {
    /// What the thread is doing, see [`mode`](crate::codes::mode).
    pub mode: u32,
    /// Its process.
    pub tgid: u32,
    /// When it began to do that, ns.
    pub since_ns: u64,
    /// When it last left a CPU, ns.
    pub out_ns: u64,
    /// CPU time that the kernel had counted for it when it last left a CPU, ns.
    pub exec_ns: u64,
    /// Why it left, see [`class`].
    pub class: u32,
    /// Bits of [`flag`] for the interval that is open.
    pub flags: u32,
    /// The CPU that it left.
    pub cpu_out: u32,
    /// Always zero.
    pub reserved: u32,
    /// Who got that CPU.
    pub taker: Other,
    /// When it was last woken, ns; 0 when not since it last came onto a CPU.
    pub wake_ns: u64,
    /// Who woke it, see [`waker`](crate::codes::waker).
    pub wake_kind: u32,
    /// Its kernel state when it was woken: it tells what a thread did that was blocked before the
    /// probes were there.
    pub wake_state: u32,
    /// The thread that woke it.
    pub waker: Other,
    /// Page faults without I/O that it had taken before it was tracked.
    pub minor_before: u64,
    /// Page faults with I/O that it had taken before it was tracked.
    pub major_before: u64,
    /// When the work on memory began that the kernel does on it now, ns, by its kind (see
    /// [`memory`]); 0 when there is none.
    pub memory_ns: [u64; memory::KINDS],
    /// Where its time went.
    pub totals: Totals,
}

/// An off-CPU interval cut at the moment the thread could run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// When it was woken, ns; 0 when it was not blocked or no wake-up was seen.
    pub woken_ns: u64,
    /// Blocked before that, ns.
    pub blocked_ns: u64,
    /// Able to run after that, ns.
    pub runnable_ns: u64,
}

impl ThreadState {
    /// The interval that is open, as it stands at `now`.
    ///
    /// The last wake-up seen is the one that ended the wait, even when it came before the switch
    /// away: a thread that is on its way off its CPU can already be woken. Waited without a wake-up
    /// that was seen, it counts as blocked to the end.
    #[inline(always)]
    pub fn split(&self, now: u64) -> Split {
        let out = self.out_ns;
        if self.class == class::PREEMPTED {
            return Split {
                woken_ns: 0,
                blocked_ns: 0,
                runnable_ns: now.saturating_sub(out),
            };
        }
        let ready = match self.wake_ns {
            0 => now,
            at if at < out => out,
            at if at > now => now,
            at => at,
        };
        Split {
            woken_ns: if self.wake_ns == 0 { 0 } else { ready },
            blocked_ns: ready.saturating_sub(out),
            runnable_ns: now.saturating_sub(ready),
        }
    }

    /// Adds the interval that is open to the totals.
    #[inline(always)]
    pub fn add(&mut self, split: &Split) {
        let (blocked, totals) = (split.blocked_ns, &mut self.totals);
        match self.class {
            class::PREEMPTED => {
                totals.preempted_ns += split.runnable_ns;
                totals.preemptions += 1;
                return;
            }
            class::SLEEPING => totals.sleeping_ns += blocked,
            class::UNINTERRUPTIBLE => totals.uninterruptible_ns += blocked,
            // A new thread is woken at the moment its time begins: nothing is blocked.
            _ => totals.stopped_ns += blocked,
        }
        if self.flags & flag::IOWAIT != 0 {
            totals.iowait_ns += blocked;
        }
        totals.woken_ns += split.runnable_ns;
        totals.waits += 1;
    }

    /// Takes the kernel's counts of page faults since the thread was born.
    #[inline(always)]
    pub fn count_faults(&mut self, minor: u64, major: u64) {
        self.totals.minor_faults = minor.saturating_sub(self.minor_before);
        self.totals.major_faults = major.saturating_sub(self.major_before);
    }

    /// Page faults without and with I/O since the thread was born, when they were last counted.
    #[inline(always)]
    pub fn faults_since_birth(&self) -> (u64, u64) {
        (
            self.totals.minor_faults + self.minor_before,
            self.totals.major_faults + self.major_before,
        )
    }
}
