//! Calls of the CUDA driver as slices on the thread that called.

use super::{ArgList, Builder};
use crate::cuda::CudaCall;
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Interval, Slice, TrackId, Value};

impl Builder<'_> {
    pub(super) fn cuda_call(&mut self, track: TrackId, call: &CudaCall) {
        let mut args = ArgList::new(&mut self.conversion.trace.strings);
        if let Some(bytes) = call.bytes {
            args.number(arg::BYTES, bytes);
        }
        if let Some(stream) = call.stream {
            args.number(arg::STREAM_HANDLE, stream);
        }
        if call.result != 0 {
            args.number(arg::RESULT, call.result);
        }
        if call.unfinished {
            args.push(arg::UNFINISHED, Value::Bool(true));
        }
        let slice = Slice {
            track,
            name: args.strings.intern(call.function.name()),
            cat: args.strings.intern(cat::CUDA_DRIVER),
            span: Interval::new(call.begin, call.end),
            args: args.list.into(),
        };
        self.conversion.trace.slices.push(slice);
    }
}

#[cfg(test)]
#[path = "cuda_tests.rs"]
mod tests;
