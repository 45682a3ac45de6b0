//! Requests to block devices, from when they are handed in until they are done.
//!
//! Kept are requests that a thread of a tracked process hands in, and those of the kernel's own
//! threads (a loop device, encryption, write-back), since a tracked thread may wait for them: the
//! user side knows and drops the others. Requests of other programs are not looked at.

use crate::request::Request;
use crate::settings::REQUESTS_BY_ISSUE;
use crate::task::Task;
use crate::{interrupt, output, tracked};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::{kind, loss, request_flag};
use gpustall_wire::record::BlockIo;

/// Requests that are not done, by their address. The deepest queues of devices hold a thousand each.
#[map]
static IN_FLIGHT: HashMap<u64, BlockIo> = HashMap::with_max_entries(16_384, 0);

/// `block_io_start(rq)`: in the thread that hands it in.
#[btf_tracepoint(function = "block_io_start")]
fn block_io_start(ctx: BtfTracePointContext) -> i32 {
    start(Request::arg(&ctx, 0))
}

/// `block_rq_issue(rq)`: it goes to the device, often on another thread; nothing is merged into it
/// any more.
#[btf_tracepoint(function = "block_rq_issue")]
fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    let request = Request::arg(&ctx, 0);
    if REQUESTS_BY_ISSUE.load() != 0 {
        return start(request);
    }
    if let Some(record) = IN_FLIGHT.get_ptr_mut(request.key()) {
        // SAFETY: a value of the map; a request is handled by one CPU at a time.
        unsafe { (*record).bytes = request.bytes() };
    }
    0
}

/// `block_io_done(rq)`: on whatever thread the device's interrupt met.
#[btf_tracepoint(function = "block_io_done")]
fn block_io_done(ctx: BtfTracePointContext) -> i32 {
    done(Request::arg(&ctx, 0))
}

/// `block_rq_complete(rq, error, nr_bytes)`: that much of it is done. Used where `block_io_done` is
/// missing.
#[btf_tracepoint(function = "block_rq_complete")]
fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    let request = Request::arg(&ctx, 0);
    let bytes: u32 = ctx.arg(2);
    if bytes < request.bytes() {
        return 0;
    }
    done(request)
}

#[inline(always)]
fn start(request: Request) -> i32 {
    let task = Task::current();
    let submitter = task.named();
    let ours = tracked::is_tracked(submitter.tid) || tracked::is_tracked(submitter.tgid);
    let kernel = task.is_kernel_thread() || interrupt::source().is_some();
    if !ours && !kernel {
        return 0;
    }
    let (major, minor) = request.disk();
    let record = BlockIo {
        kind: kind::BLOCK_IO,
        op: request.op(),
        flags: if kernel {
            request_flag::KERNEL_THREAD
        } else {
            0
        },
        major,
        minor,
        bytes: request.bytes(),
        submitter,
        start_ns: now(),
        done_ns: 0,
    };
    if IN_FLIGHT.insert(request.key(), &record, 0).is_err() {
        output::lost(loss::IN_FLIGHT);
    }
    0
}

#[inline(always)]
fn done(request: Request) -> i32 {
    let key = request.key();
    let Some(record) = IN_FLIGHT.get_ptr(key) else {
        return 0;
    };
    // SAFETY: a value of the map, which stays readable until this program ends.
    let mut record = unsafe { *record };
    record.done_ns = now();
    let _ = IN_FLIGHT.remove(key);
    // SAFETY: the place is reserved and as large as the record.
    output::put::<BlockIo>(loss::BLOCK_IO, |place| unsafe { place.write(record) });
    0
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
