//! The ends of a process: exit, SIGTERM, and a fork that leaves a child without our thread.
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
/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// Times that somebody wanted everything written.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Of these, how many were served.
static SERVED: AtomicU32 = AtomicU32::new(0);
/// The process ends.
static ENDING: AtomicBool = AtomicBool::new(false);
/// There is no writer any more.
static GONE: AtomicBool = AtomicBool::new(false);
/// This is a forked child.
static FORKED: AtomicBool = AtomicBool::new(false);
static WRITER: OnceLock<Thread> = OnceLock::new();
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// What the writer is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The number to report to [`served`]; `None` if nothing is wanted.
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
    let wanted = WANTED.load(Ordering::Acquire);
    Wanted {
        flush: (wanted != SERVED.load(Ordering::Relaxed)).then_some(wanted),
        last,
    }
}

/// Everything was written that was wanted up to the number `wanted`.
pub(crate) fn served(wanted: u32) {
    SERVED.store(wanted, Ordering::Release);
}

/// The writer has ended before the process: nobody is to wait for it.
pub(crate) fn gone() {
    GONE.store(true, Ordering::Release);
}

/// Waits until everything is written, or it takes too long. Only atomics and sleeping, so that a
/// signal handler may call it.
fn wait_for_writer() {
    let own = WANTED.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    let looks = PATIENCE.as_millis() / LOOK.as_millis();
    for _ in 0..looks {
        let served = SERVED.load(Ordering::Acquire);
        if own.wrapping_sub(served) as i32 <= 0 || GONE.load(Ordering::Acquire) {
            return;
        }
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as libc::c_long,
        };
        // SAFETY: reads one struct; what is left of the pause is not wanted.
        unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
    }
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
