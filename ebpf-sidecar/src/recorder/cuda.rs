//! Calls of the CUDA driver.

use super::Recorder;
use crate::cuda::{CudaCall, CudaFunction};
use gpustall_trace::{Clock, MonoTime, MonotonicClock};
use gpustall_wire::cuda::{self, OpenCalls, UNKNOWN};

impl Recorder {
    /// Looks, from time to time, whether a recorded process uses a library that has no probes yet.
    pub(super) fn find_cuda(&mut self) {
        if let Some(libraries) = &mut self.cuda {
            let now = MonotonicClock.now().in_trace(self.start);
            libraries.look(&mut self.probes, self.threads.processes(), now);
        }
    }

    pub(super) fn cuda_call(&mut self, call: &cuda::CudaCall) -> MonoTime {
        self.keep(call, false);
        MonoTime::from_nanos(call.end_ns)
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
            self.keep(&call, true);
        }
    }

    fn keep(&mut self, call: &cuda::CudaCall, unfinished: bool) {
        let Some(function) = CudaFunction::of_number(call.function.into()) else {
            return;
        };
        if self.cuda_calls.len() >= self.options.max_intervals {
            self.beyond_limit += 1;
            return;
        }
        let begin = self.time(call.begin_ns);
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        self.cuda_calls.push(CudaCall {
            thread: self.threads.find_or_add(call.tid, call.tgid, begin),
            function,
            begin,
            end: self.time(call.end_ns),
            bytes: known(call.bytes),
            stream: known(call.stream),
            result: call.result,
            depth: call.depth,
            unfinished,
        });
    }
}
