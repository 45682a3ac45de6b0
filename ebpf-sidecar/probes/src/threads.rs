//! What is known of each tracked thread.

use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use gpustall_wire::thread::ThreadState;

/// The user side sets the number of entries before it loads the programs.
#[map]
static THREADS: HashMap<u32, ThreadState> = HashMap::with_max_entries(16_384, 0);

/// The state of the thread `tid`.
#[inline(always)]
pub(crate) fn get(tid: u32) -> Option<&'static mut ThreadState> {
    let state = THREADS.get_ptr_mut(tid)?;
    // SAFETY: a value of the map. Two CPUs may hold it at once but never write the same field
    // (see `ThreadState`), and the entry of a thread is removed only at its last switch.
    Some(unsafe { &mut *state })
}

/// Puts the state of a new thread; false when the map is full.
#[inline(always)]
pub(crate) fn put(tid: u32, state: &ThreadState) -> bool {
    THREADS.insert(tid, state, 0).is_ok()
}

/// Removes the state of the thread `tid`.
#[inline(always)]
pub(crate) fn remove(tid: u32) {
    let _ = THREADS.remove(tid);
}
