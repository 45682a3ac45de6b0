//! A cudarc program whose streams are recorded, and which checks what was recorded: every operation
//! that it submitted must be in the trace, and the device's time must be that of CUDA's own events
//! within 2 %, over all and in each phase.
//!
//! ```text
//! cargo run --release -p gpustall --no-default-features --features cuda --example cuda_streams
//! GPUSTALL_CUPTI=/nowhere cargo run --release -p gpustall --no-default-features --features cuda --example cuda_streams
//! ```
//!
//! The second one does without CUPTI, so operations are timed with CUDA's events. Prints a table, and
//! fails where something is wrong.
#![allow(
    unsafe_code,
    reason = "kernels are launched without the compiler knowing their arguments"
)]

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, DriverError, LaunchConfig, PushKernelArg,
};
use gpustall::instrument;
use gpustall::trace::vocab::cat;
use gpustall::trace::{Trace, read};
use std::error::Error;
use std::sync::Arc;

/// How a module of kernels in PTX begins.
const HEAD: &str = "
.version 7.0
.target sm_70
.address_size 64
";

/// `spin(ns)` runs for so long on one thread; so does `hold`, under another name.
const SPIN: &str = "\
.visible .entry spin(.param .u64 length) {
  .reg .u64 %begin, %now, %length;
  .reg .pred %more;
  ld.param.u64 %length, [length];
  mov.u64 %begin, %globaltimer;
AGAIN:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, %length;
  @%more bra AGAIN;
  ret;
}
";

const STEPS: usize = 20;
const COPY_BYTES: usize = 64 << 20;
/// By how much times may differ.
const TOLERANCE: f64 = 0.02;

const PHASES: [&str; 3] = ["copy in", "compute", "copy out"];

/// What the program submitted, and what CUDA's events say that each phase took, milliseconds.
#[derive(Default)]
struct Counted {
    kernels: usize,
    copies: usize,
    sets: usize,
    phases: [f64; 3],
}

struct Device {
    context: Arc<CudaContext>,
    a: instrument::TracedStream,
    b: instrument::TracedStream,
    spin: CudaFunction,
    hold: CudaFunction,
}

fn main() -> Result<(), Box<dyn Error>> {
    let output = std::env::args().nth(1);
    let output = output.unwrap_or_else(|| "cuda_streams.trace.json.gz".to_owned());
    let context = CudaContext::new(0)?;
    let kernels = [HEAD, SPIN, &SPIN.replace("spin", "hold")].concat();
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(kernels))?;
    let session = gpustall::session("cuda_streams").output(&output).start()?;
    let device = Device {
        a: instrument::stream(&context.new_stream()?),
        b: instrument::stream(&context.new_stream()?),
        spin: module.load_function("spin")?,
        hold: module.load_function("hold")?,
        context,
    };
    let counted = work(&device)?;
    let summary = session.finish()?;
    println!("{summary}\n");
    let trace = read(std::path::Path::new(&output))?.trace;
    check(&counted, &trace, summary.report())
}

fn work(device: &Device) -> Result<Counted, Box<dyn Error>> {
    let mut counted = Counted::default();
    let (a, b) = (&device.a, &device.b);
    let mut on_device = a.alloc_zeros::<u8>(COPY_BYTES)?;
    counted.sets += 1;
    // SAFETY: it is written before it is read.
    let mut pinned = unsafe { device.context.alloc_pinned::<u8>(COPY_BYTES) }?;
    pinned.as_mut_slice()?.fill(3);
    device.context.synchronize()?;
    for _ in 0..STEPS {
        let _step = instrument::step("streams");
        let part = Part::begin(device, 0, &mut counted)?;
        a.memcpy_htod(&pinned, &mut on_device)?;
        part.end(device, &mut counted)?;

        let part = Part::begin(device, 1, &mut counted)?;
        b.wait(&part.begin)?;
        for _ in 0..5 {
            run(&device.spin, a, 200_000)?;
            run(&device.spin, b, 150_000)?;
        }
        counted.kernels += 10;
        part.end(device, &mut counted)?;

        let part = Part::begin(device, 2, &mut counted)?;
        a.memcpy_dtoh(&on_device, &mut pinned)?;
        part.end(device, &mut counted)?;
        counted.copies += 2;
    }
    Ok(counted)
}

/// A phase, between two events of the first stream.
struct Part {
    begin: CudaEvent,
    phase: usize,
    _guard: gpustall::SpanGuard,
}

impl Part {
    fn begin(device: &Device, phase: usize, counted: &mut Counted) -> Result<Self, DriverError> {
        device.context.synchronize()?;
        // The event is recorded while the stream is busy, so what follows begins right after it.
        run(&device.hold, &device.a, 200_000)?;
        counted.kernels += 1;
        let begin = event(device)?;
        begin.record(&device.a)?;
        Ok(Self {
            begin,
            phase,
            _guard: instrument::phase(PHASES[phase]),
        })
    }

    fn end(self, device: &Device, counted: &mut Counted) -> Result<(), DriverError> {
        let end = event(device)?;
        end.record(&device.a)?;
        device.context.synchronize()?;
        counted.phases[self.phase] += f64::from(self.begin.elapsed_ms(&end)?);
        Ok(())
    }
}

fn event(device: &Device) -> Result<CudaEvent, DriverError> {
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    device.context.new_event(flags)
}

fn run(
    kernel: &CudaFunction,
    stream: &instrument::TracedStream,
    nanoseconds: u64,
) -> Result<(), DriverError> {
    let one_thread = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel takes one 64-bit number.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&nanoseconds)
            .launch(one_thread)
    }?;
    Ok(())
}

/// Compares what was recorded with what was counted.
fn check(
    counted: &Counted,
    trace: &Trace,
    report: Option<&gpustall::Report>,
) -> Result<(), Box<dyn Error>> {
    let mut wrong = Vec::new();
    let of = |kind: &str| {
        trace
            .slices
            .iter()
            .filter(|slice| trace.text(slice.cat) == kind)
            .count()
    };
    for (kind, expected) in [
        (cat::KERNEL, counted.kernels),
        (cat::GPU_MEMCPY, counted.copies),
        (cat::GPU_MEMSET, counted.sets),
    ] {
        println!(
            "{kind:<12} {expected:>9} submitted {:>9} recorded",
            of(kind)
        );
        if of(kind) != expected {
            wrong.push(kind.to_owned());
        }
    }
    for (phase, events) in PHASES.iter().zip(counted.phases) {
        let row = report.and_then(|report| report.phases.iter().find(|row| row.name == *phase));
        let device = row.and_then(|row| row.device.as_ref());
        let recorded = device.map_or(0.0, |device| device.total_ns as f64 / 1e6);
        println!("{phase:<12} {events:>9.3} ms by CUDA's events {recorded:>9.3} ms recorded");
        if (recorded / events - 1.0).abs() > TOLERANCE {
            wrong.push((*phase).to_owned());
        }
    }
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(format!("not as submitted: {}", wrong.join(", ")).into()),
    }
}
