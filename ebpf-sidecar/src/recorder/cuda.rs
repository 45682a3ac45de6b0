//! Calls of the CUDA driver.

use super::{Book, Recorder};
use crate::cuda::{CudaCall, CudaFunction};
use gpustall_trace::{Clock, MonoTime, MonotonicClock};
use gpustall_wire::cuda::{self, OpenCalls, UNKNOWN};

/// Source of losses on this side: what comes after [`Options::max_intervals`](crate::Options).
const BEYOND_LIMIT: &str = "CUDA calls beyond the limit in memory";

impl Recorder {
    /// Looks, from time to time, whether a recorded process uses a library that has no probes yet.
    pub(super) fn find_cuda(&mut self) {
        if let Some(libraries) = &mut self.cuda {
            let now = MonotonicClock.now().in_trace(self.book.start);
            libraries.look(&mut self.probes, self.book.threads.processes(), now);
        }
    }

    /// Calls that will not return: their thread ended, or the recording does.
    pub(super) fn unfinished_calls(&mut self, tid: u32, tgid: u32, end_ns: u64) {
        if self.cuda.is_none() {
            return;
        }
        let Some(OpenCalls { depth, calls }) = self.probes.take_open_calls(tid) else {
            return;
        };
        for (n, open) in (0_u32..).zip(calls).take(depth as usize) {
            let call = cuda::CudaCall {
                tid,
                tgid,
                function: open.function as u32,
                begin_ns: open.begin_ns,
                end_ns: end_ns.max(open.begin_ns),
                bytes: open.bytes,
                stream: open.stream,
                depth: n,
                ..cuda::CudaCall::default()
            };
            self.book.keep(&call, true);
        }
    }
}

impl Book {
    pub(super) fn cuda_call(&mut self, call: &cuda::CudaCall) -> MonoTime {
        self.keep(call, false);
        MonoTime::from_nanos(call.end_ns)
    }

    fn keep(&mut self, call: &cuda::CudaCall, unfinished: bool) {
        let Some(function) = CudaFunction::of_number(call.function.into()) else {
            return;
        };
        if !self.has_place(self.cuda_calls.len(), BEYOND_LIMIT) {
            return;
        }
        let begin = self.time(call.begin_ns);
        let thread = self.thread(call.tid, call.tgid, begin);
        let end = self.time(call.end_ns);
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        self.cuda_calls.push(CudaCall {
            thread,
            function,
            begin,
            end,
            bytes: known(call.bytes),
            stream: known(call.stream),
            result: call.result,
            depth: call.depth,
            unfinished,
        });
    }
}
