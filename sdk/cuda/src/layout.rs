//! The beginnings of CUPTI's activity records, as far as they are read.
//!
//! CUPTI adds fields at the end of a record and never moves those before: each struct here is the
//! part that stood unchanged from CUPTI 12.0 to 13.4. A test compares the offsets with the
//! bindings of cudarc. What kind a record is of stays a plain integer, because a newer CUPTI may
//! have kinds that this build does not know.

/// `CUPTI_ACTIVITY_KIND_MEMCPY`.
pub(crate) const MEMCPY: u32 = 1;
/// `CUPTI_ACTIVITY_KIND_MEMSET`.
pub(crate) const MEMSET: u32 = 2;
/// `CUPTI_ACTIVITY_KIND_CONTEXT`.
pub(crate) const CONTEXT: u32 = 9;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`; `CUPTI_ACTIVITY_KIND_KERNEL` would serialise them.
pub(crate) const KERNEL: u32 = 10;
/// `CUPTI_ACTIVITY_KIND_OVERHEAD`.
pub(crate) const OVERHEAD: u32 = 17;
/// `CUPTI_ACTIVITY_KIND_MEMCPY2`: from device to device.
pub(crate) const PEER_COPY: u32 = 22;
/// `CUPTI_ACTIVITY_KIND_CUDA_EVENT`.
pub(crate) const CUDA_EVENT: u32 = 36;
/// `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION`.
pub(crate) const SYNCHRONIZATION: u32 = 38;

/// `CUpti_ActivityKernel9` and later. Names are held by CUPTI as long as the process lives.
#[repr(C, align(8))]
pub(crate) struct Kernel {
    kind: u32,
    cache_and_registers: u32,
    partitioned_cache: [u32; 2],
    pub(crate) start: u64,
    pub(crate) end: u64,
    completed: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    grid: [i32; 3],
    block: [i32; 3],
    shared_memory: [i32; 2],
    local_memory: [u32; 2],
    pub(crate) correlation: u32,
    grid_id: i64,
    pub(crate) name: *const std::ffi::c_char,
    reserved: *const std::ffi::c_void,
    queued: u64,
    submitted: u64,
    launch_and_carveout: u32,
    shared_memory_executed: u32,
    pub(crate) graph_node: u64,
}

/// `CUpti_ActivityMemcpy5` and later.
#[repr(C, align(8))]
pub(crate) struct Memcpy {
    kind: u32,
    pub(crate) copy_kind: u8,
    pub(crate) source: u8,
    pub(crate) target: u8,
    flags: u8,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
}

/// `CUpti_ActivityMemcpyPtoP4`.
#[repr(C, align(8))]
pub(crate) struct PeerCopy {
    kind: u32,
    pub(crate) copy_kind: u8,
    pub(crate) source: u8,
    pub(crate) target: u8,
    flags: u8,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    source_device: u32,
    source_context: u32,
    target_device: u32,
    target_context: u32,
    pub(crate) correlation: u32,
}

/// `CUpti_ActivityMemset4` and later.
#[repr(C, align(8))]
pub(crate) struct Memset {
    kind: u32,
    value: u32,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
    flags: u16,
    pub(crate) memory: u16,
}

/// `CUpti_ActivitySynchronization` and `2`.
#[repr(C, align(8))]
pub(crate) struct Synchronization {
    kind: u32,
    pub(crate) what: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) correlation: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) event: u32,
}

/// `CUpti_ActivityCudaEvent` and later.
#[repr(C, align(8))]
pub(crate) struct CudaEvent {
    kind: u32,
    pub(crate) correlation: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) event: u32,
}

/// `CUpti_ActivityOverhead` and later.
#[repr(C, align(4))]
pub(crate) struct Overhead {
    kind: u32,
    pub(crate) what: u32,
    object_kind: u32,
    object: [u32; 3],
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// `CUpti_ActivityContext` and later.
#[repr(C, align(8))]
pub(crate) struct Context {
    kind: u32,
    pub(crate) context: u32,
    pub(crate) device: u32,
    compute_api: u16,
    null_stream: u16,
}

/// `CUpti_CallbackData`: what a callback is told of a call of the driver or the runtime.
#[repr(C)]
pub(crate) struct CallbackData {
    /// `CUpti_ApiCallbackSite`.
    pub(crate) site: u32,
    function_name: *const std::ffi::c_char,
    parameters: *const std::ffi::c_void,
    /// Where the result lies, after the call.
    pub(crate) returned: *const u32,
    symbol_name: *const std::ffi::c_char,
    context: *const std::ffi::c_void,
    context_number: u32,
    correlation_data: *mut u64,
    pub(crate) correlation: u32,
}

#[cfg(test)]
impl CallbackData {
    /// What a test tells a callback.
    pub(crate) fn of(site: u32, correlation: u32, returned: &u32) -> Self {
        use std::ptr;
        Self {
            site,
            function_name: ptr::null(),
            parameters: ptr::null(),
            returned,
            symbol_name: ptr::null(),
            context: ptr::null(),
            context_number: 0,
            correlation_data: ptr::null_mut(),
            correlation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cupti::sys;
    use std::mem::offset_of;

    /// Compares where fields stand with the bindings of the CUDA version that cudarc is built for.
    macro_rules! same {
        ($ours:ident, $theirs:ident: $($field:ident = $name:ident),+) => {
            $(assert_eq!(
                offset_of!($ours, $field),
                offset_of!(sys::$theirs, $name),
                concat!(stringify!($theirs), ".", stringify!($name))
            );)+
        };
    }

    #[test]
    fn fields_stand_where_cupti_puts_them() {
        same!(Kernel, CUpti_ActivityKernel9: start = start, end = end, device = deviceId,
            context = contextId, stream = streamId, correlation = correlationId, name = name,
            graph_node = graphNodeId);
        same!(Memcpy, CUpti_ActivityMemcpy5: copy_kind = copyKind, source = srcKind,
            target = dstKind, bytes = bytes, start = start, end = end, device = deviceId,
            context = contextId, stream = streamId, correlation = correlationId);
        same!(PeerCopy, CUpti_ActivityMemcpyPtoP4: copy_kind = copyKind, source = srcKind,
            target = dstKind, bytes = bytes, start = start, end = end, device = deviceId,
            context = contextId, stream = streamId, correlation = correlationId);
        same!(Memset, CUpti_ActivityMemset4: bytes = bytes, start = start, end = end,
            device = deviceId, context = contextId, stream = streamId,
            correlation = correlationId, memory = memoryKind);
        same!(CallbackData, CUpti_CallbackData: site = callbackSite,
            returned = functionReturnValue, correlation = correlationId);
        same!(Synchronization, CUpti_ActivitySynchronization: what = type_, start = start,
            end = end, correlation = correlationId, context = contextId, stream = streamId,
            event = cudaEventId);
        same!(CudaEvent, CUpti_ActivityCudaEvent: correlation = correlationId,
            context = contextId, stream = streamId, event = eventId);
        same!(Overhead, CUpti_ActivityOverhead: what = overheadKind, start = start, end = end);
        same!(Context, CUpti_ActivityContext: context = contextId, device = deviceId);
    }

    #[test]
    fn kinds_have_the_numbers_of_cupti() {
        use sys::CUpti_ActivityKind as Theirs;
        for (ours, theirs) in [
            (MEMCPY, Theirs::CUPTI_ACTIVITY_KIND_MEMCPY),
            (MEMSET, Theirs::CUPTI_ACTIVITY_KIND_MEMSET),
            (CONTEXT, Theirs::CUPTI_ACTIVITY_KIND_CONTEXT),
            (KERNEL, Theirs::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
            (OVERHEAD, Theirs::CUPTI_ACTIVITY_KIND_OVERHEAD),
            (PEER_COPY, Theirs::CUPTI_ACTIVITY_KIND_MEMCPY2),
            (CUDA_EVENT, Theirs::CUPTI_ACTIVITY_KIND_CUDA_EVENT),
            (SYNCHRONIZATION, Theirs::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION),
        ] {
            assert_eq!(ours, theirs as u32);
        }
    }
}
