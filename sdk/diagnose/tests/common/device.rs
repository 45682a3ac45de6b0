//! Devices, driver calls and annotations for the builder, times in its units.

use super::{Builder, V};
use gpustall_diagnose::{Finding, Report};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Pid, TrackId, TrackKind};

pub const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";
pub const PINNED: &str = "Memcpy HtoD (Pinned -> Device)";
pub const TO_HOST: &str = "Memcpy DtoH (Device -> Pageable)";
pub const NCCL: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)";

/// A stream of a device.
#[derive(Clone, Copy)]
pub struct Stream {
    pub track: TrackId,
    pub device: u64,
    pub stream: u64,
}

impl Builder {
    /// The same one for the same numbers.
    pub fn stream(&mut self, device: u64, stream: u64) -> Stream {
        let pid = Pid(Pid::SYNTHETIC + 100 + device as u32);
        let tid = 1000 + stream as u32;
        let tracks = &self.trace.tracks;
        let known = tracks
            .iter()
            .position(|of| (of.pid, of.tid.0) == (pid, tid));
        let track = match known {
            Some(at) => TrackId(at as u32),
            None => self.track(pid, tid, &format!("stream {stream}"), TrackKind::Synthetic),
        };
        Stream {
            track,
            device,
            stream,
        }
    }

    pub fn op(&mut self, on: Stream, cat: &str, name: &str, id: u64, bytes: u64, span: (u64, u64)) {
        let mut args = vec![
            (arg::DEVICE, V::N(on.device)),
            (arg::STREAM, V::N(on.stream)),
        ];
        if id > 0 {
            args.push((arg::CORRELATION, V::N(id)));
        }
        if bytes > 0 {
            args.push((arg::BYTES, V::N(bytes)));
        }
        self.slice(on.track, cat, name, span, &args);
    }

    pub fn kernel(&mut self, on: Stream, id: u64, span: (u64, u64)) {
        self.op(on, cat::KERNEL, "gemm", id, 0, span);
    }

    pub fn nccl(&mut self, on: Stream, id: u64, span: (u64, u64)) {
        self.op(on, cat::KERNEL, NCCL, id, 0, span);
    }

    pub fn copy(&mut self, on: Stream, name: &str, id: u64, bytes: u64, span: (u64, u64)) {
        self.op(on, cat::GPU_MEMCPY, name, id, bytes, span);
    }

    pub fn call(&mut self, thread: TrackId, name: &str, id: u64, span: (u64, u64)) {
        let args = [(arg::CORRELATION, V::N(id))];
        self.slice(thread, cat::CUDA_RUNTIME, name, span, &args);
    }

    /// A kernel and its launch: the call takes `call`, the kernel `run`.
    pub fn launch(
        &mut self,
        thread: TrackId,
        on: Stream,
        id: u64,
        call: (u64, u64),
        run: (u64, u64),
    ) {
        self.call(thread, "cudaLaunchKernel", id, call);
        self.kernel(on, id, run);
    }

    pub fn annotate(&mut self, thread: TrackId, name: &str, span: (u64, u64)) {
        self.slice(thread, cat::USER_ANNOTATION, name, span, &[]);
    }

    pub fn profiler_step(&mut self, thread: TrackId, number: u64, span: (u64, u64)) {
        self.annotate(thread, &format!("ProfilerStep#{number}"), span);
    }
}

/// The share of a cause; 0 where nothing is charged to it.
pub fn share(report: &Report, cause: &str) -> f64 {
    report.breakdown.get(cause).copied().unwrap_or(0.0)
}

/// Nanoseconds of a cause.
pub fn charged(report: &Report, cause: &str) -> u64 {
    report.charges_ns.get(cause).copied().unwrap_or(0)
}

/// The first finding, which must be of this cause.
pub fn top<'a>(report: &'a Report, cause: &str) -> &'a Finding {
    let finding = report
        .findings
        .first()
        .unwrap_or_else(|| panic!("no finding: {report}"));
    assert_eq!(finding.cause.id(), cause, "{report}");
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    finding
}
