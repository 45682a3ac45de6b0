//! The calls of the CUDA runtime and driver, and what each of them is for.

use super::ops::{Device, DeviceKey, OpKind};
use crate::id_map::IdMap;
use crate::names::integer;
use crate::rules::Activity;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Symbol, TrackId};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What a call is for, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Allocates or frees.
    Alloc,
    /// Loads, links or compiles device code.
    Compile,
    /// Waits for the device.
    Sync,
    /// Copies; whether the call is one that returns when the copy is done.
    Copy { synchronous: bool },
    /// Tells a stream to wait for an event.
    StreamWait,
    /// Anything else: launches, memsets, queries.
    Other,
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) track: TrackId,
    pub(crate) span: Interval,
    pub(crate) name: Symbol,
    pub(crate) correlation: Option<u64>,
    /// Position of its slice in the trace.
    pub(crate) slice: usize,
    /// What its thread does in it.
    pub(crate) activity: Activity,
    /// Whether it submitted a device operation that was recorded.
    pub(crate) submits: bool,
    /// The device and the stream of that operation.
    pub(crate) stream: Option<(DeviceKey, u64)>,
    /// Which stream it told to wait for an event of which other one, where that was recorded.
    pub(crate) waits: Option<StreamWait>,
}

/// A stream that waits for an event of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamWait {
    pub(crate) stream: u64,
    pub(crate) on: u64,
}

/// All calls, by start, the longer first, cut to the recording.
pub(crate) fn calls(timeline: &Timeline<'_>) -> Vec<Call> {
    let names = &timeline.names;
    let mut kinds: IdMap<Symbol, CallKind> = IdMap::default();
    let mut calls = Vec::new();
    for (i, slice) in timeline.trace.slices.iter().enumerate() {
        let cat = Some(slice.cat);
        if cat != names.cat.cuda_runtime && cat != names.cat.cuda_driver {
            continue;
        }
        let kind = *kinds
            .entry(slice.name)
            .or_insert_with(|| kind(timeline.trace.text(slice.name)));
        calls.push(Call {
            kind,
            track: slice.track,
            span: timeline.clip(slice.span),
            name: slice.name,
            correlation: integer(&slice.args, names.key.correlation).filter(|&id| id != 0),
            slice: i,
            activity: activity(kind, None),
            submits: false,
            stream: None,
            waits: None,
        });
    }
    calls.sort_by_key(|call| (call.span.start, Reverse(call.span.end)));
    calls
}

/// Joins operations to the calls that submitted them: of several calls with one correlation, the
/// last that began before the operation.
pub(crate) fn join(calls: &mut [Call], devices: &mut [Device]) {
    let id_of = |(i, call): (usize, &Call)| Some((call.correlation?, i));
    let mut of: Vec<(u64, usize)> = calls.iter().enumerate().filter_map(id_of).collect();
    // Calls are in the order of their starts, and so are those of one correlation.
    of.sort_unstable();
    let ops = devices.iter_mut().flat_map(|device| {
        let key = device.key;
        device.ops.iter_mut().map(move |op| (key, op))
    });
    for (device, op) in ops {
        let Some(id) = op.correlation else { continue };
        let own = &of[of.partition_point(|&(of, _)| of < id)..];
        let before = own.partition_point(|&(of, i)| {
            of == id && calls.get(i).is_some_and(|c| c.span.start <= op.span.start)
        });
        // Clocks of host and device differ a little: an operation may seem to begin too early.
        let first = own.get(before.saturating_sub(1));
        let Some(&(_, at)) = first.filter(|&&(of, _)| of == id) else {
            continue;
        };
        op.call = Some(at);
        calls[at].submits = true;
        calls[at].stream = Some((device, op.stream));
        calls[at].activity = activity(calls[at].kind, Some(op.kind));
    }
}

/// Joins the waits of streams, as the device saw them, to the calls that asked for them.
pub(crate) fn join_waits(timeline: &Timeline<'_>, calls: &mut [Call]) {
    let names = &timeline.names;
    let (Some(sync), Some(_)) = (names.cat.cuda_sync, names.key.wait_on_stream) else {
        return;
    };
    let mut waits: HashMap<u64, StreamWait> = HashMap::new();
    for slice in timeline
        .trace
        .slices
        .iter()
        .filter(|slice| slice.cat == sync)
    {
        let number = |key| integer(&slice.args, key);
        let key = &names.key;
        let parts = (
            number(key.correlation),
            number(key.stream),
            number(key.wait_on_stream),
        );
        if let (Some(id), Some(stream), Some(on)) = parts {
            waits.insert(id, StreamWait { stream, on });
        }
    }
    for call in calls
        .iter_mut()
        .filter(|call| call.kind == CallKind::StreamWait)
    {
        call.waits = call.correlation.and_then(|id| waits.get(&id).copied());
    }
}

/// What a thread does in a call, given what the call submitted.
fn activity(kind: CallKind, op: Option<OpKind>) -> Activity {
    match (kind, op) {
        (CallKind::Alloc, _) => Activity::Allocates,
        (CallKind::Compile, _) => Activity::Compiles,
        (CallKind::Sync, _) => Activity::WaitsForDevice,
        (
            CallKind::Copy { synchronous },
            Some(OpKind::Copy {
                pageable, to_host, ..
            }),
        ) => match (to_host, pageable || synchronous) {
            (true, true) => Activity::WaitsForDevice,
            (false, true) => Activity::CopiesPageable,
            (_, false) => Activity::Dispatches,
        },
        _ => Activity::Dispatches,
    }
}

/// What a call of this name is for: `cudaMalloc`, `cuMemAlloc_v2`, `hipStreamSynchronize`,
/// `urQueueFinish`...
fn kind(name: &str) -> CallKind {
    // Longer heads first.
    let heads = ["cuda", "hip", "cu", "ur", "ze"];
    let call = heads.iter().find_map(|head| name.strip_prefix(head));
    let call = call.unwrap_or(name);
    let starts = |heads: &[&str]| heads.iter().any(|head| call.starts_with(head));
    let compiler = name.starts_with("nvrtc") || name.starts_with("hiprtc");
    if starts(&["StreamWaitEvent"]) {
        CallKind::StreamWait
    } else if call.contains("Synchronize") || starts(&["QueueFinish", "EventWait"]) {
        CallKind::Sync
    } else if starts(&["Module", "Library", "Link", "Program"]) || compiler {
        const COMPILES: [&str; 4] = ["Load", "Link", "Build", "CreateWithIL"];
        match COMPILES.iter().any(|verb| call.contains(verb)) || name.contains("Compile") {
            true => CallKind::Compile,
            false => CallKind::Other,
        }
    } else if starts(&["Memcpy", "EnqueueUSMMemcpy"]) {
        CallKind::Copy {
            synchronous: starts(&["Memcpy"]) && !call.contains("Async"),
        }
    } else if starts(&ALLOCATES) {
        CallKind::Alloc
    } else {
        CallKind::Other
    }
}

/// How the names of calls begin that allocate or free, without the head of their library.
const ALLOCATES: [&str; 24] = [
    "Malloc",
    "ExtMalloc",
    "Free",
    "HostAlloc",
    "HostMalloc",
    "HostFree",
    "HostRegister",
    "HostUnregister",
    "MemAlloc",
    "MemFree",
    "MemHostAlloc",
    "MemHostRegister",
    "MemHostUnregister",
    "MemCreate",
    "MemRelease",
    "MemMap",
    "MemUnmap",
    "MemSetAccess",
    "MemAddress",
    "ArrayCreate",
    "ArrayDestroy",
    "MemPoolTrim",
    "MemPoolCreate",
    "USM",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_names() {
        for (name, expected) in [
            ("cudaMalloc", CallKind::Alloc),
            ("cuMemAlloc_v2", CallKind::Alloc),
            ("cudaFreeHost", CallKind::Alloc),
            ("cudaHostAlloc", CallKind::Alloc),
            ("cuModuleLoadData", CallKind::Compile),
            ("cuLibraryLoadData", CallKind::Compile),
            ("nvrtcCompileProgram", CallKind::Compile),
            ("cuModuleGetFunction", CallKind::Other),
            ("cudaDeviceSynchronize", CallKind::Sync),
            ("cuStreamSynchronize", CallKind::Sync),
            ("cudaMemcpyAsync", CallKind::Copy { synchronous: false }),
            ("cuMemcpyHtoD_v2", CallKind::Copy { synchronous: true }),
            ("cudaStreamWaitEvent", CallKind::StreamWait),
            ("cudaLaunchKernel", CallKind::Other),
            ("cudaMemsetAsync", CallKind::Other),
            ("cudaMemGetInfo", CallKind::Other),
            ("hipMalloc", CallKind::Alloc),
            ("hipHostFree", CallKind::Alloc),
            ("hipStreamSynchronize", CallKind::Sync),
            ("hipMemcpyWithStream", CallKind::Copy { synchronous: true }),
            ("hipMemcpyAsync", CallKind::Copy { synchronous: false }),
            ("hipModuleLoadData", CallKind::Compile),
            ("hiprtcCompileProgram", CallKind::Compile),
            ("hipLaunchKernel", CallKind::Other),
            ("hipStreamWaitEvent", CallKind::StreamWait),
            ("urQueueFinish", CallKind::Sync),
            ("urUSMDeviceAlloc", CallKind::Alloc),
            ("urEnqueueUSMMemcpy", CallKind::Copy { synchronous: false }),
            ("urProgramBuild", CallKind::Compile),
            ("urEnqueueKernelLaunch", CallKind::Other),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
