//! Calls into the CUDA driver: one pair of programs at the start and the return of every function,
//! told apart by the attach cookie.

use crate::registers::{Registers, user};
use crate::{output, tracked};
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::{bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::macros::{map, uprobe, uretprobe};
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use gpustall_wire::codes::{kind, loss};
use gpustall_wire::cuda::{
    Cookie, CudaCall, MAX_NESTED, OpenCall, OpenCalls, UNKNOWN, size_code, stream_code,
};

/// Calls that have not returned, by thread. The user side sets the number of entries, and removes
/// those of threads that ended.
#[map]
static CALLS: HashMap<u32, OpenCalls> = HashMap::with_max_entries(16_384, 0);

static NO_CALLS: OpenCalls = OpenCalls {
    depth: 0,
    calls: [OpenCall {
        function: 0,
        begin_ns: 0,
        bytes: 0,
        stream: 0,
        stack: 0,
    }; MAX_NESTED],
};

/// A tracked thread enters a function.
#[uprobe]
fn cuda_enter(ctx: ProbeContext) -> u32 {
    let tid = bpf_get_current_pid_tgid() as u32;
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let registers = Registers(&ctx);
    let cookie = cookie(&ctx);
    let call = OpenCall {
        function: cookie.function().into(),
        begin_ns: 0,
        bytes: bytes(&registers, cookie),
        stream: stream(&registers, cookie),
        stack: registers.stack(),
    };
    let Some(open) = open_calls(tid) else {
        output::lost(loss::CUDA_CALLS);
        return 0;
    };
    let depth = without_stale(open, &call);
    open.depth = depth;
    if depth >= MAX_NESTED as u64 {
        output::lost(loss::CUDA_CALLS);
        return 0;
    }
    open.depth = depth + 1;
    let place = at(open, depth);
    *place = call;
    place.begin_ns = now();
    0
}

/// A tracked thread returns from it.
#[uretprobe]
fn cuda_return(ctx: RetProbeContext) -> u32 {
    let end_ns = now();
    let ids = bpf_get_current_pid_tgid();
    let tid = ids as u32;
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let Some(open) = CALLS.get_ptr_mut(tid) else {
        return 0;
    };
    // SAFETY: a value of the map that only this thread's probes write.
    let open = unsafe { &mut *open };
    let registers = Registers(&ctx);
    let (function, stack) = (u64::from(cookie(&ctx).function()), registers.stack());
    let mut depth = open.depth;
    for _ in 0..MAX_NESTED {
        if depth == 0 {
            // It was entered before the probes were there.
            return 0;
        }
        depth -= 1;
        let call = *at(open, depth);
        // The return address is gone from the stack of x86_64.
        if call.function == function && stack.wrapping_sub(call.stack) <= 8 {
            open.depth = depth;
            output::put::<CudaCall>(loss::CUDA_CALLS, |place| {
                let record = CudaCall {
                    kind: kind::CUDA_CALL,
                    tid,
                    tgid: (ids >> 32) as u32,
                    function: function as u32,
                    begin_ns: call.begin_ns,
                    end_ns,
                    bytes: call.bytes,
                    stream: call.stream,
                    result: registers.result(),
                    depth: depth as u32,
                };
                // SAFETY: the place is reserved and as large as the record.
                unsafe { place.write(record) }
            });
            return 0;
        }
    }
    0
}

#[inline(always)]
fn open_calls(tid: u32) -> Option<&'static mut OpenCalls> {
    if CALLS.get_ptr_mut(tid).is_none() {
        let _ = CALLS.insert(tid, &NO_CALLS, 0);
    }
    let open = CALLS.get_ptr_mut(tid)?;
    // SAFETY: a value of the map that only this thread's probes write.
    Some(unsafe { &mut *open })
}

/// How many calls are open around the one that begins. A function can be left without a return that is
/// seen (an exception, a jump); the stack has shrunk then. A call that a function ends with by a jump
/// has the stack of that function and returns with it.
#[inline(always)]
fn without_stale(open: &mut OpenCalls, begins: &OpenCall) -> u64 {
    let mut depth = open.depth;
    for _ in 0..MAX_NESTED {
        if depth == 0 {
            break;
        }
        let last = *at(open, depth - 1);
        let again = last.stack == begins.stack && last.function == begins.function;
        if last.stack >= begins.stack && !again {
            break;
        }
        depth -= 1;
    }
    depth
}

#[inline(always)]
fn at(open: &mut OpenCalls, depth: u64) -> &mut OpenCall {
    let index = depth as usize & (MAX_NESTED - 1);
    // SAFETY: the index is below the length; unlike a check, the mask is one that the verifier sees.
    unsafe { open.calls.get_unchecked_mut(index) }
}

#[inline(always)]
fn bytes<C: EbpfContext>(registers: &Registers<'_, C>, cookie: Cookie) -> u64 {
    let size = match cookie.size() {
        size_code::COUNT => Some(registers.arg(cookie.first()) << cookie.log2()),
        size_code::AREA => {
            let (width, height) = (
                registers.arg(cookie.first()),
                registers.arg(cookie.second()),
            );
            Some(width.wrapping_mul(height) << cookie.log2())
        }
        // Offsets of WidthInBytes and Height (and Depth) in the structures of cuda.h.
        size_code::COPY_2D => product([112, 120], registers.arg(0)),
        size_code::COPY_3D => product([176, 184, 192], registers.arg(0)),
        _ => None,
    };
    size.unwrap_or(UNKNOWN)
}

#[inline(always)]
fn product<const N: usize>(members: [u64; N], structure: u64) -> Option<u64> {
    let mut product = 1_u64;
    for member in members {
        product = product.wrapping_mul(user(structure + member)?);
    }
    Some(product)
}

#[inline(always)]
fn stream<C: EbpfContext>(registers: &Registers<'_, C>, cookie: Cookie) -> u64 {
    let handle = match cookie.stream() {
        stream_code::ARG => Some(registers.arg(cookie.stream_arg())),
        stream_code::NINTH => registers.ninth(),
        // Offset of hStream in CUlaunchConfig.
        stream_code::CONFIG => user(registers.arg(0) + 32),
        _ => None,
    };
    handle.unwrap_or(UNKNOWN)
}

#[inline(always)]
fn cookie<C: EbpfContext>(ctx: &C) -> Cookie {
    // SAFETY: the context is the program's own.
    Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) })
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
