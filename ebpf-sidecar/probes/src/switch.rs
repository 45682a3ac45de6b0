//! A thread leaves a CPU, a thread comes onto one.

use crate::settings::STACK_NS;
use crate::task::Task;
use crate::{interval, output, threads, tracked};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::{class, flag, kind, loss, mode, task_state};
use gpustall_wire::record::{Exit, Other};
use gpustall_wire::thread::ThreadState;

/// `sched_switch(preempt, prev, next, prev_state)`
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next) = (Task::arg(&ctx, 1), Task::arg(&ctx, 2));
    let (prev_tid, next_tid) = (prev.tid(), next.tid());
    let leaves = tracked::is_tracked(prev_tid);
    let comes = tracked::is_tracked(next_tid);
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
    let exec_ns = prev.exec_ns();
    if state.mode == mode::OFF {
        came_unreported(state, now, prev, exec_ns);
    }
    // Also a thread that was there before the probes: what is first seen of it is that it leaves
    // a CPU, so it was on that CPU since it was tracked.
    state.totals.on_cpu_ns += now.saturating_sub(state.since_ns);
    state.count_faults(prev.minor_faults(), prev.major_faults());
    if prev_state & task_state::DEAD != 0 {
        return exit(state, now, prev.tid());
    }
    state.mode = mode::OFF;
    state.class = class::of_state(prev_state);
    state.flags = if prev.in_iowait() { flag::IOWAIT } else { 0 };
    state.since_ns = now;
    state.out_ns = now;
    state.exec_ns = exec_ns;
    state.cpu_out = cpu();
    state.taker = next.named();
}

#[inline(always)]
fn switch_in(state: &mut ThreadState, now: u64, prev: Task, next: Task) {
    match state.mode {
        mode::OFF => {}
        mode::UNKNOWN => begin_with_tracking(state),
        _ => left_unreported(state, now, next.exec_ns()),
    }
    let giver = prev.named();
    // A thread that could have run on has nothing on its stack that it waited for, and to walk the stack
    // takes longer than everything else here.
    let ran_on = matches!(state.class, class::PREEMPTED | class::STARTING);
    if ran_on || now.saturating_sub(state.out_ns) < STACK_NS.load() {
        interval::end(state, now, next.tid(), cpu(), giver);
    } else {
        interval::end_with_stack(state, now, next, cpu(), giver);
    }
}

/// The kernel does not report every switch (seen when a thread followed one that it never
/// reports). What a thread ran since it left a CPU tells when it came back.
#[inline(always)]
fn came_unreported(state: &mut ThreadState, now: u64, task: Task, exec_ns: u64) {
    output::lost(loss::SWITCHES);
    state.flags |= flag::INFERRED;
    let ran = exec_ns.saturating_sub(state.exec_ns);
    let back = now.saturating_sub(ran).max(state.out_ns);
    interval::end(state, back, task.tid(), cpu(), Other::default());
}

/// The same for a switch away: what a thread ran since it came onto a CPU tells when it left. It was
/// blocked if it was woken later.
#[inline(always)]
fn left_unreported(state: &mut ThreadState, now: u64, exec_ns: u64) {
    output::lost(loss::SWITCHES);
    if state.totals.first_ns == 0 {
        state.totals.first_ns = state.since_ns;
    }
    let ran = exec_ns.saturating_sub(state.exec_ns);
    let out = (state.since_ns + ran).min(now);
    state.totals.on_cpu_ns += out - state.since_ns;
    state.out_ns = out;
    state.class = if state.wake_ns > out {
        class::of_state(state.wake_state)
    } else {
        class::PREEMPTED
    };
    state.flags = flag::INFERRED;
    state.taker = Other::default();
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
