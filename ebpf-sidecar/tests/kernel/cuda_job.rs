//! Workloads that call the stand-in for the CUDA driver's library.

#![allow(unsafe_code, reason = "a library that is loaded at run time is called")]

use crate::workload::{forever, ready, say, spawn, wait_for_go};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Environment variable that names the library's file.
pub(crate) const LIBRARY: &str = "GPUSTALL_TEST_LIBRARY";

/// How often each planted call is made by each of the two threads.
pub(crate) const ROUNDS: u64 = 20;
/// Calls of a flood.
pub(crate) const FLOOD: u64 = 5_000;
/// The planted stream.
pub(crate) const STREAM: u64 = 0x1234_5678_9abc;

type Call = extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// The library, mapped into this process.
#[derive(Clone, Copy)]
struct Library(usize);

impl Library {
    fn open() -> Self {
        let path = std::env::var_os(LIBRARY).unwrap();
        let path = CString::new(path.as_bytes()).unwrap();
        // SAFETY: the path ends in a zero; the stand-in does nothing when it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Self(handle as usize)
    }

    /// Calls a function with as many arguments as it looks at, the rest zero.
    fn call(self, name: &str, given: &[u64]) -> u32 {
        let mut all = [0; 11];
        all[..given.len()].copy_from_slice(given);
        let [a, b, c, d, e, f, g, h, i, j, k] = all;
        let symbol = CString::new(name).unwrap();
        // SAFETY: the handle is the open library's.
        let found = unsafe { libc::dlsym(self.0 as *mut libc::c_void, symbol.as_ptr()) };
        assert!(!found.is_null(), "{name}");
        // SAFETY: a C function of integers and pointers; more arguments than it has do no harm.
        let function = unsafe { std::mem::transmute::<*mut libc::c_void, Call>(found) };
        function(a, b, c, d, e, f, g, h, i, j, k)
    }

    /// Until the test says go on, so that it can wait for the first recorded call.
    fn knock(self) {
        let knocking = spawn("knocker", move || {
            loop {
                self.call("cuInit", &[]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        wait_for_go();
        drop(knocking);
    }
}

/// Maps the library before it says ready.
pub(crate) fn early() {
    let library = Library::open();
    ready();
    library.knock();
    planted(library);
}

/// Maps it when it is told to.
pub(crate) fn late() {
    ready();
    wait_for_go();
    let library = Library::open();
    library.knock();
    planted(library);
}

fn planted(library: Library) {
    let threads = [0, 1].map(|_| spawn("caller", move || rounds(library)));
    for thread in threads {
        say(&thread.join().unwrap());
    }
    say("done");
    forever();
}

/// Makes the calls; says its thread id and how long those with a known length took, ns.
fn rounds(library: Library) -> String {
    let (mut waited, mut copied) = (Duration::ZERO, Duration::ZERO);
    for n in 0..ROUNDS {
        let begun = Instant::now();
        library.call("cuStreamSynchronize", &[STREAM]);
        waited += begun.elapsed();
        let begun = Instant::now();
        library.call("cuMemcpyHtoD_v2", &[1, 2, 4096 + n]);
        copied += begun.elapsed();
        // WidthInBytes and Height are the last two members.
        let mut copy = [0_u64; 16];
        copy[14..].copy_from_slice(&[100, 7]);
        library.call("cuMemcpy2D_v2", &[copy.as_ptr() as u64]);
        library.call("cuMemsetD2D32Async", &[1, 0, 0, 10, 3, STREAM]);
        assert_eq!(library.call("cuMemAlloc_v2", &[1, 1 << 41]), 2);
        library.call("cuLaunchKernel", &[1, 1, 1, 1, 1, 1, 1, 0, STREAM]);
        // hStream is the fifth word of CUlaunchConfig.
        let config = [0, 0, 0, 0, STREAM, 0, 0];
        library.call("cuLaunchKernelEx", &[config.as_ptr() as u64]);
    }
    let tid = rustix::thread::gettid().as_raw_nonzero();
    format!("calls {tid} {} {}", waited.as_nanos(), copied.as_nanos())
}

/// More calls than a small ring buffer holds.
pub(crate) fn flood() {
    let library = Library::open();
    ready();
    wait_for_go();
    for n in 0..FLOOD {
        library.call("cuMemAlloc_v2", &[1, n]);
    }
    say("done");
    forever();
}

/// A call that does not return.
pub(crate) fn stuck() {
    let library = Library::open();
    ready();
    wait_for_go();
    spawn("hanging", move || {
        library.call("cuEventSynchronize", &[1]);
    });
    say("done");
    forever();
}
