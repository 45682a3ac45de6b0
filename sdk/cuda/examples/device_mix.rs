//! Puts a known mix of work on a CUDA device and says what it was, so that a recording of it can
//! be checked: `device_mix mix` runs kernels on two streams at once, copies from pinned and pageable
//! memory, and a graph, and times each part with CUDA's own events; `device_mix launches N`
//! launches N empty kernels.
//!
//! Prints one JSON object. Run it under `gpustall run`.
#![allow(
    unsafe_code,
    reason = "kernels are launched without the compiler knowing their arguments"
)]
#![allow(
    clippy::unwrap_used,
    reason = "an example ends where CUDA does not work"
)]

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use std::sync::Arc;
use std::time::Instant;

/// `spin(ns)` runs for so long on one thread; `nothing()` returns at once.
const KERNELS: &str = include_str!("kernels.ptx");

/// Bytes of each copy.
const COPY_BYTES: usize = 64 << 20;
const ROUNDS: usize = 20;

#[derive(Default)]
struct Counted {
    kernels: u64,
    copies: u64,
    sets: u64,
    /// By CUDA's events, the parts one after the other.
    milliseconds: f64,
}

struct Device {
    context: Arc<CudaContext>,
    streams: [Arc<CudaStream>; 2],
    spin: CudaFunction,
    nothing: CudaFunction,
}

fn main() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(KERNELS))?;
    let device = Device {
        streams: [context.new_stream()?, context.new_stream()?],
        spin: module.load_function("spin")?,
        nothing: module.load_function("nothing")?,
        context,
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("launches") => launches(&device, words[1].parse().unwrap()),
        _ => mix(&device),
    }
}

fn launches(device: &Device, count: u64) -> Result<(), DriverError> {
    let stream = &device.streams[0];
    let begin = Instant::now();
    for _ in 0..count {
        let mut launch = stream.launch_builder(&device.nothing);
        // SAFETY: the kernel has no arguments.
        unsafe { launch.launch(one_thread()) }?;
    }
    let submitted = begin.elapsed().as_secs_f64();
    stream.synchronize()?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{{\"kernels\":{count},\"submitted_s\":{submitted:.3},\"seconds\":{seconds:.3}}}");
    Ok(())
}

fn mix(device: &Device) -> Result<(), DriverError> {
    let mut counted = Counted::default();
    let [a, b] = &device.streams;
    // Once unmeasured: code is loaded, memory is allocated.
    spin(device, a, 1_000, &mut counted)?;
    let mut on_device = a.alloc_zeros::<u8>(COPY_BYTES)?;
    counted.sets += 1;
    let pageable = vec![7_u8; COPY_BYTES];
    // SAFETY: it is written before it is read.
    let mut pinned = unsafe { device.context.alloc_pinned::<u8>(COPY_BYTES) }?;
    pinned.as_mut_slice()?.fill(3);
    device.context.synchronize()?;

    // Two streams at once: 200 us kernels on the one, 150 us on the other, which ends within.
    let part = Part::begin(device)?;
    b.wait(&part.begin)?;
    for _ in 0..ROUNDS * 5 {
        spin(device, a, 200_000, &mut counted)?;
        spin(device, b, 150_000, &mut counted)?;
    }
    part.end(device, &mut counted)?;

    for _ in 0..ROUNDS {
        let part = Part::begin(device)?;
        a.memcpy_htod(&pinned, &mut on_device)?;
        part.end(device, &mut counted)?;
    }
    for _ in 0..ROUNDS / 4 {
        a.memcpy_htod(&pageable, &mut on_device)?;
        a.synchronize()?;
    }
    for _ in 0..ROUNDS {
        let part = Part::begin(device)?;
        a.memcpy_dtoh(&on_device, &mut pinned)?;
        part.end(device, &mut counted)?;
    }
    counted.copies += (ROUNDS * 2 + ROUNDS / 4) as u64;

    a.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let mut of_graph = Counted::default();
    for _ in 0..8 {
        spin(device, a, 100_000, &mut of_graph)?;
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = a.end_capture(flags)?.unwrap();
    let part = Part::begin(device)?;
    for _ in 0..ROUNDS {
        graph.launch()?;
    }
    part.end(device, &mut counted)?;
    counted.kernels += of_graph.kernels * ROUNDS as u64;

    device.context.synchronize()?;
    println!(
        "{{\"kernels\":{},\"copies\":{},\"sets\":{},\"event_ms\":{:.3}}}",
        counted.kernels, counted.copies, counted.sets, counted.milliseconds
    );
    Ok(())
}

/// A part of the work between two events of the first stream.
struct Part {
    begin: CudaEvent,
}

impl Part {
    fn begin(device: &Device) -> Result<Self, DriverError> {
        device.context.synchronize()?;
        let begin = event(device)?;
        begin.record(&device.streams[0])?;
        Ok(Self { begin })
    }

    fn end(self, device: &Device, counted: &mut Counted) -> Result<(), DriverError> {
        let end = event(device)?;
        end.record(&device.streams[0])?;
        device.context.synchronize()?;
        counted.milliseconds += f64::from(self.begin.elapsed_ms(&end)?);
        Ok(())
    }
}

fn event(device: &Device) -> Result<CudaEvent, DriverError> {
    device
        .context
        .new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
}

fn spin(
    device: &Device,
    stream: &Arc<CudaStream>,
    nanoseconds: u64,
    counted: &mut Counted,
) -> Result<(), DriverError> {
    let mut launch = stream.launch_builder(&device.spin);
    launch.arg(&nanoseconds);
    // SAFETY: the kernel takes one 64-bit number.
    unsafe { launch.launch(one_thread()) }?;
    counted.kernels += 1;
    Ok(())
}

fn one_thread() -> LaunchConfig {
    LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    }
}
