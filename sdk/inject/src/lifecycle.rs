//! What the writer is asked for: everything written, at the ends of a process (exit, SIGTERM), and CUPTI given
//! up, before another profiler takes it. A fork leaves a child without our thread.
#![allow(
    unsafe_code,
    reason = "handlers of the C library; every one stands in this file"
)]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How long an ending process waits for its last records at most.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long another profiler waits for CUPTI at most.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// Everything is to be written.
static FLUSH: Request = Request::new();
/// CUPTI is to be given up.
static LEAVE: Request = Request::new();
/// The process ends.
static ENDING: AtomicBool = AtomicBool::new(false);
/// A writer is, or will be.
static STARTING: AtomicBool = AtomicBool::new(false);
/// There is no writer any more.
static GONE: AtomicBool = AtomicBool::new(false);
/// This is a forked child.
static FORKED: AtomicBool = AtomicBool::new(false);
static WRITER: OnceLock<Thread> = OnceLock::new();
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// What the writer is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// CUPTI is to be given up, and this number reported to [`left`].
    pub(crate) leave: Option<u32>,
    /// Everything is to be written, and this number reported to [`served`].
    pub(crate) flush: Option<u32>,
    /// Nothing comes after that.
    pub(crate) last: bool,
}

/// Sees to it that `writer` hears of the end of the process.
pub(crate) fn watch(writer: Thread) {
    let _ = WRITER.set(writer);
    // SAFETY: the handlers are functions of this library, which is never unloaded, and they
    // return without unwinding.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
    watch_sigterm();
}

/// What is wanted of the writer now.
pub(crate) fn wanted() -> Wanted {
    // In this order, so that who set the end is served with it.
    let last = ENDING.load(Ordering::Acquire);
    Wanted {
        leave: LEAVE.open(),
        flush: FLUSH.open(),
        last,
    }
}

/// Everything was written that was wanted up to the number `wanted`.
pub(crate) fn served(wanted: u32) {
    FLUSH.serve(wanted);
}

/// CUPTI was given up, as was wanted up to the number `wanted`.
pub(crate) fn left(wanted: u32) {
    LEAVE.serve(wanted);
}

/// Has the writer give CUPTI up, and waits until it has. Where there is no writer nothing is to be done.
pub(crate) fn leave() {
    if FORKED.load(Ordering::Relaxed) {
        return;
    }
    let own = LEAVE.ask();
    if let Some(writer) = WRITER.get() {
        writer.unpark();
    }
    if STARTING.load(Ordering::SeqCst) {
        LEAVE.wait(own, LEAVE_PATIENCE);
    }
}

/// CUPTI is about to be taken, which is to be followed by [`watch`] or [`gone`]. False if it was given up
/// before: whoever asks for that from here on waits.
pub(crate) fn starts() -> bool {
    STARTING.store(true, Ordering::SeqCst);
    !is_left()
}

/// Whether CUPTI was to be given up at some time.
fn is_left() -> bool {
    LEAVE.asked.load(Ordering::SeqCst) != 0
}

/// The writer has ended: nobody is to wait for it.
pub(crate) fn gone() {
    GONE.store(true, Ordering::Release);
}

/// Something that the writer is asked for. Only atomics and sleeping, so that a signal handler may ask.
#[derive(Debug)]
struct Request {
    /// Times that somebody asked.
    asked: AtomicU32,
    /// Of these, how many were served.
    served: AtomicU32,
}

impl Request {
    const fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            served: AtomicU32::new(0),
        }
    }

    /// Asks. Returns the number to wait for.
    fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// The number that is to be served, if somebody waits.
    fn open(&self) -> Option<u32> {
        let asked = self.asked.load(Ordering::Acquire);
        (asked != self.served.load(Ordering::Relaxed)).then_some(asked)
    }

    /// What was asked for up to the number `asked` is done.
    fn serve(&self, asked: u32) {
        self.served.store(asked, Ordering::Release);
    }

    fn is_served(&self, own: u32) -> bool {
        own.wrapping_sub(self.served.load(Ordering::Acquire)) as i32 <= 0
    }

    /// Waits until the number `own` is served, there is no writer any more, or it takes too long. Returns
    /// whether it was served.
    fn wait(&self, own: u32, patience: Duration) -> bool {
        let looks = patience.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if self.is_served(own) || GONE.load(Ordering::Acquire) {
                break;
            }
            let pause = libc::timespec {
                tv_sec: 0,
                tv_nsec: LOOK.as_nanos() as libc::c_long,
            };
            // SAFETY: reads one struct; what is left of the pause is not wanted.
            unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
        }
        self.is_served(own)
    }
}

/// Waits until everything is written, or it takes too long.
fn wait_for_writer() {
    FLUSH.wait(FLUSH.ask(), PATIENCE);
}

extern "C" fn at_exit() {
    if FORKED.load(Ordering::Relaxed) {
        return;
    }
    ENDING.store(true, Ordering::Release);
    if let Some(writer) = WRITER.get() {
        writer.unpark();
    }
    wait_for_writer();
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    gpustall_cuda::forked();
}

/// Takes SIGTERM, unless the process ignores it: by default it would end without our last records.
fn watch_sigterm() {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads the disposition into a struct of the right type.
    let known = unsafe { libc::sigaction(libc::SIGTERM, ptr::null(), before.as_mut_ptr()) };
    // SAFETY: it was zeroed, and filled if the call succeeded.
    let before = unsafe { before.assume_init() };
    if known != 0 || before.sa_sigaction == libc::SIG_IGN || BEFORE.set(before).is_err() {
        return;
    }
    let mut own = before;
    own.sa_sigaction = on_sigterm as *const () as usize;
    own.sa_flags = libc::SA_SIGINFO | (before.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART));
    // SAFETY: the handler has the type that SA_SIGINFO asks for.
    unsafe { libc::sigaction(libc::SIGTERM, &raw const own, ptr::null_mut()) };
}

/// Has the last records written, and then does what would have happened without us.
extern "C" fn on_sigterm(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !FORKED.load(Ordering::Relaxed) {
        wait_for_writer();
    }
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_DFL => {
            // SAFETY: restores what was there; the signal is delivered when this handler returns.
            unsafe {
                libc::sigaction(signal, before, ptr::null_mut());
                libc::raise(signal);
            }
        }
        libc::SIG_IGN => {}
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Full = extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the program installed a function of this type, as its flags say.
            let handler = unsafe { std::mem::transmute::<usize, Full>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the program installed a function of this type, as its flags say.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_waits_until_the_writer_has_served_that() {
        static REQUEST: Request = Request::new();
        assert_eq!(REQUEST.open(), None);
        let first = REQUEST.ask();
        assert_eq!(REQUEST.open(), Some(first));
        let second = REQUEST.ask();
        REQUEST.serve(first);
        assert_eq!(REQUEST.open(), Some(second), "of the two one is served");
        assert!(REQUEST.wait(first, LOOK));
        assert!(!REQUEST.wait(second, LOOK), "waiting is given up");
        let writer = std::thread::spawn(|| {
            std::thread::sleep(10 * LOOK);
            REQUEST
                .open()
                .into_iter()
                .for_each(|open| REQUEST.serve(open));
        });
        assert!(REQUEST.wait(second, Duration::from_secs(60)));
        assert_eq!(REQUEST.open(), None);
        writer.join().expect("it serves");
    }

    #[test]
    fn numbers_may_wrap() {
        let request = Request {
            asked: AtomicU32::new(u32::MAX),
            served: AtomicU32::new(u32::MAX),
        };
        assert_eq!(request.open(), None);
        let own = request.ask();
        assert!(!request.is_served(own));
        request.serve(own);
        assert!(request.is_served(own) && request.open().is_none());
    }
}
