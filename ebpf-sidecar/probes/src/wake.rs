//! A thread is woken, by whom.

use crate::task::Task;
use crate::{interrupt, threads, tracked};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::{class, mode, waker};
use gpustall_wire::record::Other;

/// `sched_waking(p)`. It can come while `p` is still on its way off the CPU, before the switch is
/// seen: so it is only noted here, and judged when `p` is back on a CPU.
#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    let woken = Task::arg(&ctx, 0);
    let tid = woken.tid();
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let Some(state) = threads::get(tid) else {
        return 0;
    };
    let (kind, by) = who();
    state.wake_kind = kind;
    state.waker = by;
    state.wake_state = woken.state();
    state.wake_ns = now();
    0
}

/// `sched_wakeup_new(p)`: a new thread may run for the first time; its time begins here.
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    let woken = Task::arg(&ctx, 0);
    let tid = woken.tid();
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let Some(state) = threads::get(tid) else {
        return 0;
    };
    if state.mode != mode::NEW {
        return 0;
    }
    let now = now();
    let (kind, by) = who();
    state.wake_kind = kind;
    state.waker = by;
    state.wake_ns = now;
    state.mode = mode::OFF;
    state.class = class::STARTING;
    state.since_ns = now;
    state.out_ns = now;
    state.totals.first_ns = now;
    0
}

#[inline(always)]
fn who() -> (u32, Other) {
    if let Some(kind) = interrupt::source() {
        return (kind, Other::default());
    }
    let current = Task::current();
    if current.tid() == 0 {
        // The idle loop wakes nobody of itself: an interrupt that has no tracepoint did.
        return (waker::KERNEL, Other::default());
    }
    (waker::THREAD, current.named())
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
