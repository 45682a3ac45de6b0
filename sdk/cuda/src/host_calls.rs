//! Calls of the driver and the runtime, as CUPTI reports them on the threads that make them.
//!
//! CUPTI offers calls in two ways. As records of activity they come with the operations, but once a call
//! of an API is wanted, every call of that API takes CUPTI's way, wanted or not, and a step of PyTorch makes
//! fifteen times as many calls as it launches kernels. As callbacks only the functions that were asked for
//! take it, which costs a third (see `docs/overhead.md`), so this is how calls are recorded: a callback before
//! and one after each call, which read the clock and store the call in a ring of the calling thread.
//! CUPTI's number of the call is the one that the record of its operation has.
//!
//! A ring is written by its thread alone and read by the thread that polls. When it is full calls are lost,
//! and counted. Nothing waits here but the first call of a thread, for a short lock.
#![allow(
    unsafe_code,
    reason = "a C callback, and slots that the writer and the reader share by their counters"
)]

use crate::buffers;
use crate::calls::Api;
use crate::layout::CallbackData;
use gpustall_trace::MonotonicClock;
use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of one thread that wait to be read, at most: a tenth of a second of launches at full speed.
pub(crate) const RING_CALLS: usize = 1 << 15;

/// Threads with calls, at most; those of further ones are counted as lost.
const MOST_THREADS: usize = 256;

/// Calls within one another: the runtime's, and the driver's within it, and what that calls back.
const DEEPEST: usize = 4;

/// `CUPTI_API_ENTER` and `CUPTI_API_EXIT`.
const ENTER: u32 = 0;
const EXIT: u32 = 1;

/// A call that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) api: Api,
    /// CUPTI's number of the function.
    pub(crate) callback: u32,
    /// From when to when, nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) span: (u64, u64),
    /// The system's id of the thread.
    pub(crate) thread: u32,
    pub(crate) correlation: u32,
    /// What it returned: 0 is success.
    pub(crate) returned: u32,
}

/// The calls of one thread.
struct Ring {
    slots: Box<[UnsafeCell<MaybeUninit<Call>>]>,
    /// Calls written, and read, since the ring was made.
    written: AtomicUsize,
    read: AtomicUsize,
    lost: AtomicU64,
    /// The thread has ended.
    ended: AtomicBool,
}

// SAFETY: a slot is written by the thread of the ring while it lies outside `read..written`, and read by
// the one reader while it lies inside: the capture that runs, of which there is one in a process.
unsafe impl Sync for Ring {}
// SAFETY: a call is plain numbers.
unsafe impl Send for Ring {}

impl Ring {
    fn new() -> Self {
        // Not written to, so that a thread's first call does not wait for a megabyte of pages.
        let slots = Box::<[UnsafeCell<MaybeUninit<Call>>]>::new_uninit_slice(RING_CALLS);
        Self {
            // SAFETY: the slots hold what needs no initial value.
            slots: unsafe { slots.assume_init() },
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Stores a call; by its thread alone.
    fn push(&self, call: Call) {
        let written = self.written.load(Ordering::Relaxed);
        let waiting = written.wrapping_sub(self.read.load(Ordering::Acquire));
        if waiting >= RING_CALLS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the slot is outside of what the reader reads, and only this thread writes.
        unsafe { (*self.slots[written % RING_CALLS].get()).write(call) };
        self.written
            .store(written.wrapping_add(1), Ordering::Release);
        if waiting == RING_CALLS / 2 {
            buffers::wake_writer();
        }
    }

    /// Hands out what was written; by the reader alone.
    fn drain(&self, each: &mut dyn FnMut(Call)) {
        let written = self.written.load(Ordering::Acquire);
        let mut read = self.read.load(Ordering::Relaxed);
        while read != written {
            // SAFETY: the slot was written before `written` said so, and is not written again before
            // `read` is past it.
            each(unsafe { (*self.slots[read % RING_CALLS].get()).assume_init_read() });
            read = read.wrapping_add(1);
            self.read.store(read, Ordering::Release);
        }
    }
}

static RINGS: Mutex<Vec<Arc<Ring>>> = Mutex::new(Vec::new());
/// Calls lost by threads that have no ring, or none any more.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Counts windows: what was open when one closed is not in the next.
static WINDOW: AtomicU32 = AtomicU32::new(0);

fn rings() -> MutexGuard<'static, Vec<Arc<Ring>>> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread knows of its own calls.
struct Own {
    ring: Option<Arc<Ring>>,
    thread: u32,
    window: u32,
    /// Correlation and start of the calls that it is in.
    open: [(u32, u64); DEEPEST],
    depth: usize,
}

impl Own {
    fn new() -> Self {
        let mut rings = rings();
        let ring = (rings.len() < MOST_THREADS).then(|| {
            let ring = Arc::new(Ring::new());
            rings.push(ring.clone());
            ring
        });
        Self {
            ring,
            // SAFETY: a plain call.
            thread: unsafe { libc::gettid() }.cast_unsigned(),
            window: 0,
            open: [(0, 0); DEEPEST],
            depth: 0,
        }
    }

    fn enter(&mut self, correlation: u32, now: u64) {
        let window = WINDOW.load(Ordering::Relaxed);
        if self.window != window {
            (self.window, self.depth) = (window, 0);
        }
        if self.depth == DEEPEST {
            // More than that were never seen; the outermost ones have lost their ends.
            self.depth = 0;
        }
        self.open[self.depth] = (correlation, now);
        self.depth += 1;
    }

    /// When the call that ends now began, if that was seen. Calls within it that have no end are left.
    fn exit(&mut self, correlation: u32) -> Option<u64> {
        let open = &self.open[..self.depth];
        let at = open.iter().rposition(|call| call.0 == correlation)?;
        self.depth = at;
        Some(self.open[at].1)
    }

    fn push(&self, call: Call) {
        match &self.ring {
            Some(ring) => ring.push(call),
            None => _ = LOST.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.ended.store(true, Ordering::Release);
        }
    }
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// A window opens: calls that were going on when the last one closed have no end.
pub(crate) fn window_opens() {
    WINDOW.fetch_add(1, Ordering::Relaxed);
}

/// Before and after a call, on its thread: CUPTI calls this.
pub(crate) unsafe extern "C" fn called(
    _user: *mut c_void,
    domain: u32,
    callback: u32,
    data: *const CallbackData,
) {
    let now = MonotonicClock::read().as_nanos();
    let api = match domain {
        1 => Api::Driver,
        2 => Api::Runtime,
        _ => return,
    };
    if data.is_null() || buffers::is_forked() {
        return;
    }
    // SAFETY: CUPTI passes its struct, whose beginning this is, for the time of the call.
    let data = unsafe { &*data };
    // A thread that ends may call still.
    let _ = OWN.try_with(|own| {
        let Ok(mut own) = own.try_borrow_mut() else {
            return;
        };
        let own = own.get_or_insert_with(Own::new);
        match data.site {
            ENTER => own.enter(data.correlation, now),
            EXIT => {
                let Some(start) = own.exit(data.correlation) else {
                    return;
                };
                let returned = match data.returned.is_null() {
                    true => 0,
                    // SAFETY: after a call this is where its result lies, a C enum in all functions that
                    // are asked for.
                    false => unsafe { *data.returned },
                };
                own.push(Call {
                    api,
                    callback,
                    span: (start, now),
                    thread: own.thread,
                    correlation: data.correlation,
                    returned,
                });
            }
            _ => {}
        }
    });
}

/// Hands out the calls that came since the last time, thread by thread. Returns how many were lost.
pub(crate) fn drain(mut each: impl FnMut(Call)) -> u64 {
    let mut lost = LOST.swap(0, Ordering::Relaxed);
    // Not while calls are handled: a new thread waits for this lock.
    let all: Vec<Arc<Ring>> = rings().clone();
    let mut over = false;
    for ring in &all {
        let ended = ring.ended.load(Ordering::Acquire);
        ring.drain(&mut each);
        lost += ring.lost.swap(0, Ordering::Relaxed);
        over |= ended;
    }
    if over {
        let empty =
            |ring: &Ring| ring.written.load(Ordering::Acquire) == ring.read.load(Ordering::Acquire);
        rings().retain(|ring| !(ring.ended.load(Ordering::Acquire) && empty(ring)));
    }
    lost
}

/// Whether there are calls to hand out.
pub(crate) fn has_calls() -> bool {
    rings()
        .iter()
        .any(|ring| ring.written.load(Ordering::Acquire) != ring.read.load(Ordering::Relaxed))
}

#[cfg(test)]
#[path = "host_calls_tests.rs"]
mod tests;
