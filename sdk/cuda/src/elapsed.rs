//! How much time went by, and how much of it a thread ran.

use gpustall_trace::{MonoTime, Nanos};

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos::new((t.tv_sec as u64).saturating_mul(1_000_000_000) + t.tv_nsec as u64)
}

/// How long after `before` it is `now`; nothing if that is earlier.
pub(crate) fn since(before: MonoTime, now: MonoTime) -> Nanos {
    Nanos::new(now.as_nanos().saturating_sub(before.as_nanos()))
}
