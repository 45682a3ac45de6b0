//! Reading records from bytes.

#![allow(
    unsafe_code,
    reason = "the one place where bytes of the kernel become records"
)]

use crate::cuda::{CudaCall, OpenCalls};
use crate::record::{BlockIo, Exit, Life, MemoryWork, OffCpu, OffCpuStack, OomKill, Other, Sample};
use crate::thread::{ThreadState, Totals};
use core::mem::size_of;

/// A type that any bytes of its size are a value of.
///
/// # Safety
/// The type is `repr(C)`, has no padding and holds only integers and arrays of them.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($name:ty),+) => {$(
        // SAFETY: repr(C), integers only; that there is no padding is tested (`tests.rs`).
        unsafe impl Plain for $name {}
    )+};
}
plain!(
    BlockIo,
    CudaCall,
    Exit,
    Life,
    MemoryWork,
    OffCpu,
    OffCpuStack,
    OpenCalls,
    OomKill,
    Other,
    Sample,
    ThreadState,
    Totals
);

/// The value that stands at the start of `bytes`; `None` when they are too few.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the bytes are there, `T` takes any bytes, and the read asks for no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value, as the probes would have put them into the ring buffer.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `T` has no padding, so each of its bytes is initialised, and the borrow keeps it.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}
