//! Fields of `request`: what is asked of a block device.

use crate::settings::{
    DISK_MAJOR, DISK_MINOR, QUEUE_DISK, REQUEST_BYTES, REQUEST_FLAGS, REQUEST_QUEUE,
};
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::request;

/// A `request` that the verifier trusts: an argument of a BTF tracepoint.
#[derive(Clone, Copy)]
pub(crate) struct Request(*const u8);

impl Request {
    /// Argument `n` of the tracepoint, which must be a `struct request *`.
    #[inline(always)]
    pub(crate) fn arg(ctx: &BtfTracePointContext, n: usize) -> Self {
        Self(ctx.arg(n))
    }

    /// Tells it from every other request in flight.
    #[inline(always)]
    pub(crate) fn key(self) -> u64 {
        self.0 as u64
    }

    /// What it does, see [`request`].
    #[inline(always)]
    pub(crate) fn op(self) -> u32 {
        load::<u32>(self.0, REQUEST_FLAGS.load()) & request::OP_MASK
    }

    /// Bytes that are still to be done.
    #[inline(always)]
    pub(crate) fn bytes(self) -> u32 {
        load(self.0, REQUEST_BYTES.load())
    }

    /// Major and first minor number of its disk.
    #[inline(always)]
    pub(crate) fn disk(self) -> (u32, u32) {
        let queue: *const u8 = load(self.0, REQUEST_QUEUE.load());
        let disk: *const u8 = load(queue, QUEUE_DISK.load());
        (load(disk, DISK_MAJOR.load()), load(disk, DISK_MINOR.load()))
    }
}

#[inline(always)]
fn load<T: Copy>(structure: *const u8, offset: u32) -> T {
    // SAFETY: the verifier checks the access against the kernel's type of the structure and makes a
    // load that faults read zero.
    unsafe { structure.add(offset as usize).cast::<T>().read_volatile() }
}
