//! Which threads are tracked: one bit a thread id, so that the scheduler's events of all other
//! threads cost one look at a bitmap of 512 KiB.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use core::arch::asm;
use gpustall_wire::{TRACKED_WORD_BITS, TRACKED_WORDS};

/// The user side maps it into its memory and sets bits there, atomically as the probes do:
/// neighbours in a word are threads that begin on other CPUs.
#[map]
static TRACKED: Array<u64> = Array::with_max_entries(TRACKED_WORDS, BPF_F_MMAPABLE);

/// Whether the thread `tid` is tracked.
#[inline(always)]
pub(crate) fn is_tracked(tid: u32) -> bool {
    match TRACKED.get(tid / TRACKED_WORD_BITS) {
        // SAFETY: a value of the map, aligned to 8 bytes; others write it by atomics only.
        Some(word) => (unsafe { core::ptr::from_ref(word).read_volatile() }) & bit(tid) != 0,
        None => false,
    }
}

/// Tracks the thread `tid` from now on.
#[inline(always)]
pub(crate) fn track(tid: u32) {
    if let Some(word) = TRACKED.get_ptr_mut(tid / TRACKED_WORD_BITS) {
        // SAFETY: a value of the map, aligned to 8 bytes. Written in assembly because the target
        // has no compare-and-swap as Rust sees it, so that `AtomicU64` lacks `fetch_or`.
        unsafe {
            asm!("lock *(u64 *)({word} + 0) |= {bit}", word = in(reg) word, bit = in(reg) bit(tid));
        }
    }
}

/// No longer tracks the thread `tid`.
#[inline(always)]
pub(crate) fn forget(tid: u32) {
    if let Some(word) = TRACKED.get_ptr_mut(tid / TRACKED_WORD_BITS) {
        // SAFETY: as in `track`.
        unsafe {
            asm!("lock *(u64 *)({word} + 0) &= {mask}", word = in(reg) word, mask = in(reg) !bit(tid));
        }
    }
}

#[inline(always)]
fn bit(tid: u32) -> u64 {
    1 << (tid % TRACKED_WORD_BITS)
}
