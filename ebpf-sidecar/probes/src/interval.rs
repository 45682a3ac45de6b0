//! The end of an off-CPU interval: its time into the totals, its record into the ring buffer.

use crate::output;
use crate::settings::THRESHOLD_NS;
use crate::task::Task;
use aya_ebpf::helpers::bpf_get_task_stack;
use gpustall_wire::MAX_FRAMES;
use gpustall_wire::codes::{kind, loss, mode};
use gpustall_wire::record::{OffCpu, OffCpuStack, Other};
use gpustall_wire::thread::{Split, ThreadState};

/// The thread `tid` came onto CPU `cpu` at `back`, where `giver` was before.
#[inline(always)]
pub(crate) fn end(state: &mut ThreadState, back: u64, tid: u32, cpu: u32, giver: Other) {
    if let Some(split) = account(state, back) {
        let kept = output::put::<OffCpu>(loss::OFF_CPU, |place| {
            let record = record(kind::OFF_CPU, 0, state, back, &split, (tid, cpu, giver));
            // SAFETY: the place is reserved and as large as the record.
            unsafe { place.write(record) }
        });
        count_lost(state, back, kept);
    }
    begin_run(state, back);
}

/// The same for a thread that was blocked and comes onto the CPU right now: its kernel stack, still
/// that of its wait, goes into the record.
#[inline(always)]
pub(crate) fn end_with_stack(
    state: &mut ThreadState,
    now: u64,
    task: Task,
    cpu: u32,
    giver: Other,
) {
    if let Some(split) = account(state, now) {
        let kept = output::put::<OffCpuStack>(loss::OFF_CPU, |place| {
            // SAFETY: the place is reserved and as large as the record. The helper writes no more
            // than the size it is given, and sets to zero what it does not fill.
            unsafe {
                let bytes = bpf_get_task_stack(
                    task.as_ptr(),
                    (&raw mut (*place).stack).cast(),
                    (MAX_FRAMES * 8) as u32,
                    0,
                );
                let frames = if bytes > 0 { bytes as u32 / 8 } else { 0 };
                let who = (task.tid(), cpu, giver);
                let record = record(kind::OFF_CPU_STACK, frames, state, now, &split, who);
                (&raw mut (*place).off).write(record);
            }
        });
        count_lost(state, now, kept);
    }
    begin_run(state, now);
}

/// Puts the interval into the totals. `None` when it is too short for a record.
#[inline(always)]
fn account(state: &mut ThreadState, back: u64) -> Option<Split> {
    let split = state.split(back);
    state.add(&split);
    let length = back.saturating_sub(state.out_ns);
    if length < THRESHOLD_NS.load() {
        state.totals.short_count += 1;
        state.totals.short_ns += length;
        return None;
    }
    Some(split)
}

#[inline(always)]
fn record(
    kind: u32,
    frames: u32,
    state: &ThreadState,
    back: u64,
    split: &Split,
    (tid, cpu_in, giver): (u32, u32, Other),
) -> OffCpu {
    let (minor_faults, major_faults) = state.faults_since_birth();
    OffCpu {
        kind,
        tid,
        out_ns: state.out_ns,
        woken_ns: split.woken_ns,
        in_ns: back,
        class: state.class,
        flags: state.flags,
        cpu_out: state.cpu_out,
        cpu_in,
        waker_kind: if split.woken_ns == 0 {
            0
        } else {
            state.wake_kind
        },
        frames,
        waker: state.waker,
        taker: state.taker,
        giver,
        minor_faults,
        major_faults,
    }
}

#[inline(always)]
fn count_lost(state: &mut ThreadState, back: u64, kept: bool) {
    if !kept {
        state.totals.lost_count += 1;
        state.totals.lost_ns += back.saturating_sub(state.out_ns);
    }
}

#[inline(always)]
fn begin_run(state: &mut ThreadState, back: u64) {
    state.mode = mode::RUNNING;
    state.since_ns = back;
    state.wake_ns = 0;
}
