//! Whether this CPU is in an interrupt, so that a wake-up from one is not charged to the thread
//! that it interrupted.

use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::waker;

/// How deep a CPU is in each kind of interrupt.
#[repr(C)]
struct Depth {
    /// In the handler of a device's interrupt.
    device: u32,
    /// In the function of a high-resolution timer that ran out.
    timer: u32,
    /// In a soft interrupt: its number plus one.
    soft: u32,
}

#[map]
static DEPTH: PerCpuArray<Depth> = PerCpuArray::with_max_entries(1, 0);

/// What woke a thread when an interrupt did: a code of [`waker`]; `None` in the context of a thread.
#[inline(always)]
pub(crate) fn source() -> Option<u32> {
    let depth = depth()?;
    // A hard interrupt can interrupt a soft one, not the other way round.
    if depth.timer > 0 {
        return Some(waker::TIMER);
    }
    if depth.device > 0 {
        return Some(waker::DEVICE);
    }
    match depth.soft {
        0 => None,
        // Numbers of soft interrupts (include/linux/interrupt.h) plus one: TIMER and HRTIMER.
        2 | 9 => Some(waker::TIMER),
        // NET_TX, NET_RX, BLOCK, IRQ_POLL.
        3..=6 => Some(waker::DEVICE),
        _ => Some(waker::KERNEL),
    }
}

#[inline(always)]
fn depth() -> Option<&'static mut Depth> {
    let depth = DEPTH.get_ptr_mut(0)?;
    // SAFETY: this CPU's value of the map; an interrupt leaves the counts as it found them.
    Some(unsafe { &mut *depth })
}

/// An interrupt that began before the programs were attached ends at zero, not below.
#[inline(always)]
fn leave(count: &mut u32) {
    *count = count.saturating_sub(1);
}

#[btf_tracepoint(function = "irq_handler_entry")]
fn irq_handler_entry(_: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.device += 1;
    }
    0
}

#[btf_tracepoint(function = "irq_handler_exit")]
fn irq_handler_exit(_: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        leave(&mut depth.device);
    }
    0
}

#[btf_tracepoint(function = "hrtimer_expire_entry")]
fn hrtimer_expire_entry(_: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.timer += 1;
    }
    0
}

#[btf_tracepoint(function = "hrtimer_expire_exit")]
fn hrtimer_expire_exit(_: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        leave(&mut depth.timer);
    }
    0
}

#[btf_tracepoint(function = "softirq_entry")]
fn softirq_entry(ctx: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.soft = ctx.arg::<u32>(0) + 1;
    }
    0
}

#[btf_tracepoint(function = "softirq_exit")]
fn softirq_exit(_: BtfTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.soft = 0;
    }
    0
}
