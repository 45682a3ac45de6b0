//! A step of a run with a device in the making: what its host submits and its device runs, times in units from
//! the start of the step.

use super::device::Stream;
use super::{Builder, V};
use gpustall_diagnose::Report;
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat};

/// From when to when, from the start of the step.
type Span = (u64, u64);

/// One step of a thread that trains, whose operations are on one stream of a device.
pub struct Step<'a> {
    b: &'a mut Builder,
    main: TrackId,
    /// The thread that calls the driver.
    caller: TrackId,
    stream: Stream,
    at: u64,
    id: u64,
}

/// Ten steps of `length` units of a PyTorch program, each of which `step` draws.
pub fn steps(length: u64, step: impl FnMut(&mut Step<'_>)) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 0;
    let main = b.thread(100, "main");
    let mark = |b: &mut Builder, n, span| b.profiler_step(main, n + 3, span);
    played(b, (main, main), (1000, length), mark, step)
}

/// The same of a Burn program: a runner calls the driver for the thread that trains.
pub fn runner_steps(length: u64, step: impl FnMut(&mut Step<'_>)) -> Report {
    let mut b = Builder::new();
    let threads = (b.thread(100, "main"), b.thread(101, "DSD-cuda-0"));
    let mark = |b: &mut Builder, n, span| b.step("train", 0, n, 100, span);
    played(b, threads, (0, length), mark, step)
}

fn played(
    mut b: Builder,
    (main, caller): (TrackId, TrackId),
    (begin, length): (u64, u64),
    mark: impl Fn(&mut Builder, u64, Span),
    mut step: impl FnMut(&mut Step<'_>),
) -> Report {
    let stream = b.stream(0, 7);
    let mut id = 0;
    for n in 0..10 {
        let at = begin + n * length;
        mark(&mut b, n, (at, at + length));
        let mut one = Step {
            b: &mut b,
            main,
            caller,
            stream,
            at,
            id,
        };
        step(&mut one);
        id = one.id;
    }
    gpustall_diagnose::diagnose(&b.build(begin + 10 * length))
}

impl Step<'_> {
    fn of_trace(&self, (from, to): Span) -> Span {
        (self.at + from, self.at + to)
    }

    /// A call of the driver, with an id of its own.
    fn submit(&mut self, name: &str, call: Span) -> u64 {
        self.id += 1;
        let call = self.of_trace(call);
        self.b.call(self.caller, name, self.id, call);
        self.id
    }

    /// A kernel that is launched in `call` and runs in `run`.
    pub fn launch(&mut self, call: Span, run: Span) {
        self.launch_on(self.stream, call, run);
    }

    pub fn launch_on(&mut self, on: Stream, call: Span, run: Span) {
        let id = self.submit("cudaLaunchKernel", call);
        let run = self.of_trace(run);
        self.b.kernel(on, id, run);
    }

    /// A kernel whose launch was not recorded.
    pub fn kernel(&mut self, run: Span) {
        self.id += 1;
        let run = self.of_trace(run);
        self.b.kernel(self.stream, self.id, run);
    }

    /// A copy of this kind, which is asked for in `call` and takes place in `run`.
    pub fn copy(&mut self, kind: &str, bytes: u64, call: Span, run: Span) {
        self.copy_on(self.stream, kind, bytes, call, run);
    }

    pub fn copy_on(&mut self, on: Stream, kind: &str, bytes: u64, call: Span, run: Span) {
        let id = self.submit("cudaMemcpyAsync", call);
        let run = self.of_trace(run);
        self.b.copy(on, kind, id, bytes, run);
    }

    pub fn memset(&mut self, bytes: u64, call: Span, run: Span) {
        let id = self.submit("cudaMemsetAsync", call);
        let run = self.of_trace(run);
        let name = "Memset (Device)";
        self.b
            .op(self.stream, cat::GPU_MEMSET, name, id, bytes, run);
    }

    /// A collective.
    pub fn nccl_on(&mut self, on: Stream, call: Span, run: Span) {
        let id = self.submit("cudaLaunchKernelExC", call);
        let run = self.of_trace(run);
        self.b.nccl(on, id, run);
    }

    /// A call of the driver that submits no operation.
    pub fn call(&mut self, name: &str, span: Span) {
        let span = self.of_trace(span);
        self.b.call(self.caller, name, 0, span);
    }

    /// A stream is told to wait for an event of another one: by their numbers, as the driver records it.
    pub fn recorded_event_wait(&mut self, lane: Stream, waits: u64, on: u64, call: Span) {
        let id = self.submit("cudaStreamWaitEvent", call);
        let args = [
            (arg::CORRELATION, V::N(id)),
            (arg::STREAM, V::N(waits)),
            (arg::WAIT_ON_STREAM, V::N(on)),
        ];
        let span = self.of_trace((call.0 + 1, call.1));
        self.b
            .slice(lane.track, cat::CUDA_SYNC, "Stream Wait Event", span, &args);
    }

    /// A marked phase of the thread that trains.
    pub fn phase(&mut self, name: &str, span: Span) {
        let span = self.of_trace(span);
        self.b.phase(self.main, name, span);
    }

    pub fn annotate(&mut self, name: &str, span: Span) {
        self.annotate_on(self.main, name, span);
    }

    pub fn annotate_on(&mut self, thread: TrackId, name: &str, span: Span) {
        let span = self.of_trace(span);
        self.b.annotate(thread, name, span);
    }

    /// A stream of a device; the same one in each step.
    pub fn stream(&mut self, device: u64, stream: u64) -> Stream {
        self.b.stream(device, stream)
    }

    /// Another thread; the same one in each step.
    pub fn thread(&mut self, tid: u32, name: &str) -> TrackId {
        let tracks = &self.b.trace.tracks;
        match tracks.iter().position(|track| track.tid.0 == tid) {
            Some(at) => TrackId(at as u32),
            None => self.b.thread(tid, name),
        }
    }
}
