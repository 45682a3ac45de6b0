//! The ring buffer, and the counts of what it lost.

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{PerCpuArray, RingBuf};
use gpustall_wire::codes::loss;

/// The user side sets its size before it loads the programs.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

/// Events lost, by source, on each CPU.
#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(loss::SOURCES, 0);

/// Puts a record that `fill` writes completely into the ring buffer; false when it is full. The
/// user side looks by itself every few milliseconds: waking it would cost more than the record.
#[inline(always)]
pub(crate) fn put<T: 'static>(source: u32, fill: impl FnOnce(*mut T)) -> bool {
    match EVENTS.reserve::<T>(0) {
        Some(mut entry) => {
            fill(entry.as_mut_ptr());
            entry.submit(u64::from(BPF_RB_NO_WAKEUP));
            true
        }
        None => {
            lost(source);
            false
        }
    }
}

/// Counts an event of `source` that was lost.
#[inline(always)]
pub(crate) fn lost(source: u32) {
    if let Some(count) = LOST.get_ptr_mut(source) {
        // SAFETY: this CPU's value of the map. An interrupt of this CPU that counts between the
        // load and the store can make the count one short, never a number that is not a count.
        unsafe { *count += 1 };
    }
}
