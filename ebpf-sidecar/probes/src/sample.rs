//! What a running thread runs: its stacks, each time that a CPU's sampling clock ticks.

use crate::{output, tracked};
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_F_USER_STACK;
use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_get_stack, bpf_ktime_get_ns,
};
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use core::ffi::c_void;
use gpustall_wire::MAX_FRAMES;
use gpustall_wire::codes::{kind, loss};
use gpustall_wire::record::Sample;

/// The software CPU clock of one CPU ticked.
#[perf_event]
fn cpu_clock(ctx: PerfEventContext) -> u32 {
    let ids = bpf_get_current_pid_tgid();
    let tid = ids as u32;
    if !tracked::is_tracked(tid) {
        return 0;
    }
    output::put::<Sample>(loss::SAMPLES, |place| {
        // SAFETY: the place is reserved and as large as the record; each field is written.
        unsafe {
            let kernel = stack(&ctx, (&raw mut (*place).kernel).cast(), 0);
            let flags = u64::from(BPF_F_USER_STACK);
            let user = stack(&ctx, (&raw mut (*place).user).cast(), flags);
            (&raw mut (*place).kind).write(kind::SAMPLE);
            (&raw mut (*place).tid).write(tid);
            (&raw mut (*place).tgid).write((ids >> 32) as u32);
            (&raw mut (*place).cpu).write(bpf_get_smp_processor_id());
            (&raw mut (*place).at_ns).write(bpf_ktime_get_ns());
            (&raw mut (*place).kernel_frames).write(kernel);
            (&raw mut (*place).user_frames).write(user);
        }
    });
    0
}

/// Writes a stack to `place` and returns how many frames it has.
///
/// # Safety
/// There is room for [`MAX_FRAMES`] addresses; the helper sets to zero what it does not fill.
#[inline(always)]
unsafe fn stack(ctx: &PerfEventContext, place: *mut c_void, flags: u64) -> u32 {
    // SAFETY: by this function's contract.
    let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), place, (MAX_FRAMES * 8) as u32, flags) };
    if bytes > 0 { bytes as u32 / 8 } else { 0 }
}
