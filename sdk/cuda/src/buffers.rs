//! The buffers that CUPTI fills: a bounded pool, and the queue of those that are full.
//!
//! CUPTI asks for buffers and hands them back on threads of its own and of the program. Neither
//! callback waits for anything but a short lock, and neither panics: when all buffers are in use
//! CUPTI gets none, drops records, and counts them.
#![allow(unsafe_code, reason = "buffers travel through C callbacks as pointers")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Bytes of one buffer: CUPTI's advice is 1 to 10 MB. A kernel takes about 200 bytes of it.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Buffers at most; they are allocated when they are first needed and then used again.
pub const MAX_BUFFERS: usize = 192;

/// Full buffers that wake the writer before its time.
const WAKE_AT: usize = 4;

/// A buffer with records in it. Dropping it leaks; give it back to the pool.
#[derive(Debug)]
pub(crate) struct Full {
    buffer: *mut u8,
    valid: usize,
}

impl Full {
    /// Where it is.
    pub(crate) fn buffer(&self) -> *mut u8 {
        self.buffer
    }

    /// Bytes of it that hold records.
    pub(crate) fn valid(&self) -> usize {
        self.valid
    }
}

// SAFETY: a buffer belongs to one owner at a time, and may be read on any thread.
unsafe impl Send for Full {}

#[derive(Debug)]
struct Pool {
    free: Vec<Full>,
    full: Vec<Full>,
    allocated: usize,
    writer: Option<Thread>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    full: Vec::new(),
    allocated: 0,
    writer: None,
});

/// Set in a forked child: the pool's lock may be held by a thread that does not exist there.
static FORKED: AtomicBool = AtomicBool::new(false);

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says which thread takes the full buffers.
pub(crate) fn serve(writer: Option<Thread>) {
    pool().writer = writer;
}

/// Gives CUPTI no more buffers: this is a forked child.
pub(crate) fn close_in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether this is a forked child.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Wakes the thread that takes the full buffers.
pub(crate) fn wake_writer() {
    if let Some(writer) = &pool().writer {
        writer.unpark();
    }
}

/// The full buffers, in the order in which they came.
pub(crate) fn take_full() -> Vec<Full> {
    std::mem::take(&mut pool().full)
}

/// Whether there are full buffers.
pub(crate) fn has_full() -> bool {
    !pool().full.is_empty()
}

/// Gives a buffer back that was read.
pub(crate) fn give_back(full: Full) {
    pool().free.push(full);
}

/// CUPTI wants an empty buffer.
pub(crate) unsafe extern "C" fn requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let given = if is_forked() {
        std::ptr::null_mut()
    } else {
        empty()
    };
    // SAFETY: CUPTI passes three places to write to.
    unsafe {
        *buffer = given;
        *size = if given.is_null() { 0 } else { BUFFER_BYTES };
        *max_records = 0;
    }
}

fn empty() -> *mut u8 {
    let mut pool = pool();
    if let Some(free) = pool.free.pop() {
        return free.buffer;
    }
    if pool.allocated >= MAX_BUFFERS {
        return std::ptr::null_mut();
    }
    pool.allocated += 1;
    drop(pool);
    // SAFETY: asks for aligned memory, which is checked for null by the caller. It is zeroed
    // lazily by the kernel, and stays in the pool for the life of the process.
    unsafe { libc::calloc(1, BUFFER_BYTES).cast() }
}

/// CUPTI filled a buffer.
pub(crate) unsafe extern "C" fn completed(
    _context: *mut c_void,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    if buffer.is_null() || is_forked() {
        return;
    }
    let full = Full { buffer, valid };
    let mut pool = pool();
    match valid {
        0 => pool.free.push(full),
        _ => pool.full.push(full),
    }
    if pool.full.len() >= WAKE_AT
        && let Some(writer) = &pool.writer
    {
        writer.unpark();
    }
}

/// The time now, on the clock of the trace.
pub(crate) unsafe extern "C" fn timestamp() -> u64 {
    gpustall_trace::MonotonicClock::read().as_nanos()
}

/// The time now as CUPTI has it by itself: nanoseconds of `CLOCK_REALTIME`.
pub(crate) unsafe extern "C" fn wall_clock() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_nanos() as u64)
}
