//! A thread leaves a CPU, a thread comes onto one.

use crate::settings::THRESHOLD_NS;
use crate::task::Task;
use crate::{output, threads, tracked};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_get_task_stack, bpf_ktime_get_ns};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::MAX_FRAMES;
use gpustall_wire::codes::{class, flag, kind, loss, mode, task_state};
use gpustall_wire::record::{Exit, OffCpu, OffCpuStack};
use gpustall_wire::thread::{Split, ThreadState};

/// `sched_switch(preempt, prev, next, prev_state)`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next) = (Task::arg(&ctx, 1), Task::arg(&ctx, 2));
    let (prev_tid, next_tid) = (prev.tid(), next.tid());
    let (leaves, comes) = (
        tracked::is_tracked(prev_tid),
        tracked::is_tracked(next_tid),
    );
    if !leaves && !comes {
        return 0;
    }
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    if leaves && let Some(state) = threads::get(prev_tid) {
        let preempt = ctx.arg::<u64>(0) as u8 != 0;
        let prev_state = if preempt { 0 } else { ctx.arg::<u32>(3) };
        switch_out(state, now, prev, next, prev_state);
    }
    if comes && let Some(state) = threads::get(next_tid) {
        switch_in(state, now, prev, next);
    }
    0
}

#[inline(always)]
fn switch_out(state: &mut ThreadState, now: u64, prev: Task, next: Task, prev_state: u32) {
    if state.mode == mode::OFF {
        output::lost(loss::SWITCHES);
    } else {
        // Also a thread that was there before the probes: what is first seen of it is that it
        // leaves a CPU, so it was on that CPU since it was tracked.
        state.totals.on_cpu_ns += now.saturating_sub(state.since_ns);
    }
    if prev_state & task_state::DEAD != 0 {
        return exit(state, now, prev.tid());
    }
    state.mode = mode::OFF;
    state.class = class::of_state(prev_state);
    state.flags = if prev.in_iowait() { flag::IOWAIT } else { 0 };
    state.since_ns = now;
    state.out_ns = now;
    state.cpu_out = cpu();
    state.taker = next.named();
}

#[inline(always)]
fn switch_in(state: &mut ThreadState, now: u64, prev: Task, next: Task) {
    match state.mode {
        mode::OFF => {}
        mode::UNKNOWN => begin_with_tracking(state),
        _ => {
            output::lost(loss::SWITCHES);
            state.mode = mode::RUNNING;
            state.since_ns = now;
            state.wake_ns = 0;
            if state.totals.first_ns == 0 {
                state.totals.first_ns = now;
            }
            return;
        }
    }
    let split = state.split(now);
    state.add(&split);
    let length = now.saturating_sub(state.out_ns);
    if length < THRESHOLD_NS.load() {
        state.totals.short_count += 1;
        state.totals.short_ns += length;
    } else {
        let kept = if matches!(state.class, class::PREEMPTED | class::STARTING) {
            output::put::<OffCpu>(loss::OFF_CPU, |place| {
                // SAFETY: the place is reserved and as large as the record.
                unsafe { write(place, kind::OFF_CPU, 0, state, now, &split, prev, next) }
            })
        } else {
            put_with_stack(state, now, &split, prev, next)
        };
        if !kept {
            state.totals.lost_count += 1;
            state.totals.lost_ns += length;
        }
    }
    state.mode = mode::RUNNING;
    state.since_ns = now;
    state.wake_ns = 0;
}

/// A thread that was off CPU when tracking began comes onto one: if it was woken meanwhile, it was
/// blocked, in the state that the wake-up saw; otherwise it was able to run.
#[inline(always)]
fn begin_with_tracking(state: &mut ThreadState) {
    state.class = match state.wake_ns {
        0 => class::PREEMPTED,
        _ => class::of_state(state.wake_state),
    };
    state.flags = flag::TRUNCATED;
    state.out_ns = state.since_ns;
}

#[inline(always)]
fn put_with_stack(state: &ThreadState, now: u64, split: &Split, prev: Task, next: Task) -> bool {
    output::put::<OffCpuStack>(loss::OFF_CPU, |place| {
        // SAFETY: the place is reserved and as large as the record; the helper writes at most
        // the size it is given, and the frames it did not fill are set to zero by it.
        unsafe {
            let bytes = bpf_get_task_stack(
                next.as_ptr(),
                (&raw mut (*place).stack).cast(),
                (MAX_FRAMES * 8) as u32,
                0,
            );
            let frames = if bytes > 0 { bytes as u32 / 8 } else { 0 };
            let off = &raw mut (*place).off;
            write(off, kind::OFF_CPU_STACK, frames, state, now, split, prev, next);
        }
    })
}

/// Writes the record of the interval that ends now.
///
/// # Safety
/// `place` is a place in the ring buffer for an [`OffCpu`].
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "inlined; a struct would be copied on the stack")]
unsafe fn write(
    place: *mut OffCpu,
    kind: u32,
    frames: u32,
    state: &ThreadState,
    now: u64,
    split: &Split,
    prev: Task,
    next: Task,
) {
    let record = OffCpu {
        kind,
        tid: next.tid(),
        out_ns: state.out_ns,
        woken_ns: split.woken_ns,
        in_ns: now,
        class: state.class,
        flags: state.flags,
        cpu_out: state.cpu_out,
        cpu_in: cpu(),
        waker_kind: if split.woken_ns == 0 { 0 } else { state.wake_kind },
        frames,
        waker: state.waker,
        taker: state.taker,
        giver: prev.named(),
    };
    // SAFETY: by this function's contract.
    unsafe { place.write(record) }
}

/// The last switch away from a CPU: the totals go out with the record, or stay for the user side
/// to find when the ring buffer is full.
#[inline(always)]
fn exit(state: &mut ThreadState, now: u64, tid: u32) {
    tracked::forget(tid);
    let kept = output::put::<Exit>(loss::LIFE, |place| {
        let record = Exit {
            kind: kind::EXIT,
            tid,
            tgid: state.tgid,
            reserved: 0,
            at_ns: now,
            totals: state.totals,
        };
        // SAFETY: the place is reserved and as large as the record.
        unsafe { place.write(record) }
    });
    if kept {
        threads::remove(tid);
    } else {
        state.mode = mode::DEAD;
        state.since_ns = now;
    }
}

#[inline(always)]
fn cpu() -> u32 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_smp_processor_id() }
}
