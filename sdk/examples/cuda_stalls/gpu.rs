//! The four ways, as they are and with the fix.

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg, result,
};
use gpustall::instrument::{self, TracedStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const KERNELS: &str = include_str!("kernels.ptx");

/// Cycles of one microsecond, roughly.
const MICROSECOND: u64 = 1_800;
/// Bytes of a batch.
const BATCH: usize = 64 << 20;
/// Small kernels in a step.
const SMALL_KERNELS: usize = 300;
/// What a framework does between two of them.
const DISPATCH: Duration = Duration::from_micros(8);
/// Buffers that a step allocates.
const BUFFERS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Pageable,
    Readback,
    Launches,
    Allocations,
}

pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    stream: TracedStream,
    copies: Arc<CudaStream>,
    spin: CudaFunction,
    read: CudaFunction,
}

impl Gpu {
    pub(crate) fn new() -> Result<Self, DriverError> {
        let context = CudaContext::new(0)?;
        let module = context.load_module(cudarc::nvrtc::Ptx::from_src(KERNELS))?;
        let gpu = Self {
            stream: instrument::stream(&context.new_stream()?),
            copies: context.new_stream()?,
            spin: module.load_function("spin")?,
            read: module.load_function("read")?,
            context,
        };
        gpu.spin(1)?;
        gpu.stream.synchronize()?;
        Ok(gpu)
    }

    fn spin(&self, microseconds: u64) -> Result<(), DriverError> {
        let cycles = microseconds * MICROSECOND;
        let mut launch = self.stream.launch_builder(&self.spin);
        launch.arg(&cycles);
        // SAFETY: the kernel takes one 64-bit number.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }?;
        Ok(())
    }

    /// A batch of `BATCH` bytes is copied, and a kernel of 2 ms needs it. Fixed: from pinned memory,
    /// on a stream of its own, while the kernel before runs.
    fn pageable(&self, steps: usize, fixed: bool) -> Result<Duration, DriverError> {
        let pageable = vec![1_u8; BATCH];
        // SAFETY: it is filled before it is read.
        let mut pinned = unsafe { self.context.alloc_pinned::<u8>(BATCH) }?;
        pinned.as_mut_slice()?.fill(1);
        let buffer = || self.stream.alloc_zeros::<u8>(BATCH);
        let mut on_device = [buffer()?, buffer()?];
        self.stream.synchronize()?;
        let cycles = 2_000 * MICROSECOND;
        let begin = Instant::now();
        for step in 0..steps {
            let _step = instrument::step("train");
            let batch = &mut on_device[step % 2];
            match fixed {
                false => self.stream.memcpy_htod(&pageable, batch)?,
                true => self.copies.memcpy_htod(&pinned, batch)?,
            }
            let mut launch = self.stream.launch_builder(&self.read);
            launch.arg(&cycles).arg(&*batch);
            // SAFETY: the kernel takes a 64-bit number and a pointer.
            unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }?;
        }
        self.stream.synchronize()?;
        Ok(begin.elapsed())
    }

    /// Four kernels of 15 us, and the loss is read. Fixed: it is read at the end.
    fn readback(&self, steps: usize, fixed: bool) -> Result<Duration, DriverError> {
        let loss = self.stream.alloc_zeros::<f32>(1)?;
        let mut read = [0.0_f32];
        let begin = Instant::now();
        for step in 1..=steps {
            let _step = instrument::step("train");
            for _ in 0..4 {
                self.spin(15)?;
            }
            if !fixed || step == steps {
                self.stream.memcpy_dtoh(&loss, read.as_mut_slice())?;
            }
        }
        self.stream.synchronize()?;
        Ok(begin.elapsed())
    }

    /// Many kernels of 1 us, with a framework's work before each. Fixed: one graph of them.
    fn launches(&self, steps: usize, fixed: bool) -> Result<Duration, DriverError> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode)?;
        for _ in 0..SMALL_KERNELS {
            self.spin(1)?;
        }
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = self.stream.end_capture(flags)?;
        let begin = Instant::now();
        for _ in 0..steps {
            let _step = instrument::step("train");
            match (&graph, fixed) {
                (Some(graph), true) => graph.launch()?,
                _ => {
                    for _ in 0..SMALL_KERNELS {
                        work(DISPATCH);
                        self.spin(1)?;
                    }
                }
            }
        }
        self.stream.synchronize()?;
        Ok(begin.elapsed())
    }

    /// Buffers are allocated, a kernel of 300 us runs, they are freed. Fixed: they are kept.
    fn allocations(&self, steps: usize, fixed: bool) -> Result<Duration, DriverError> {
        let mut kept = Vec::new();
        let begin = Instant::now();
        for step in 0..steps {
            let _step = instrument::step("train");
            while kept.len() < BUFFERS {
                // SAFETY: nothing reads it.
                kept.push(unsafe { result::malloc_sync(BATCH) }?);
            }
            self.spin(300)?;
            if !fixed || step + 1 == steps {
                for buffer in kept.drain(..) {
                    // SAFETY: it was allocated so, and nothing uses it.
                    unsafe { result::free_sync(buffer) }?;
                }
            }
        }
        self.stream.synchronize()?;
        Ok(begin.elapsed())
    }

    /// How long the steps took.
    pub(crate) fn run(
        &self,
        case: Case,
        steps: usize,
        fixed: bool,
    ) -> Result<Duration, DriverError> {
        match case {
            Case::Pageable => self.pageable(steps, fixed),
            Case::Readback => self.readback(steps, fixed),
            Case::Launches => self.launches(steps, fixed),
            Case::Allocations => self.allocations(steps, fixed),
        }
    }
}

fn work(length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
