//! Four ways to starve a CUDA device, in a program that uses cudarc, each with its fix: copies from
//! pageable memory, a readback every step, many small kernels, device memory allocated every step.
//!
//! ```text
//! cargo run --release -p gpustall --no-default-features --features cuda --example cuda_stalls
//! cuda_stalls readback            # one of pageable, readback, launches, allocations
//! cuda_stalls readback --fixed    # only with the fix
//! ```
//!
//! Each way runs as it is and with the fix, each time in a session; the last table has what the first
//! report predicted, and what was measured. `--steps N`, `--out DIRECTORY`, `--report` prints the
//! reports.
#![allow(
    unsafe_code,
    reason = "kernels are launched without the compiler knowing their arguments"
)]

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode, is_culib_present};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg, result,
};
use gpustall::instrument::{self, TracedStream};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `spin(cycles)` runs for so many cycles on one thread; `read(cycles, data)` is as long, and takes the
/// data of the step.
const KERNELS: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 cycles) {
  .reg .u64 %begin, %now, %cycles;
  .reg .pred %more;
  ld.param.u64 %cycles, [cycles];
  mov.u64 %begin, %clock64;
AGAIN:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, %cycles;
  @%more bra AGAIN;
  ret;
}
.visible .entry read(.param .u64 cycles, .param .u64 data) {
  .reg .u64 %begin, %now, %cycles;
  .reg .pred %more;
  ld.param.u64 %cycles, [cycles];
  mov.u64 %begin, %clock64;
AGAIN:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, %cycles;
  @%more bra AGAIN;
  ret;
}
";

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
enum Case {
    Pageable,
    Readback,
    Launches,
    Allocations,
}

/// Each with what it must be found as, and how many of its steps are run for one of `--steps`: some are
/// short.
const CASES: [(&str, Case, &str, usize); 4] = [
    ("pageable", Case::Pageable, "transfer.pageable", 1),
    ("readback", Case::Readback, "sync.readback", 20),
    ("launches", Case::Launches, "host.launch-bound", 1),
    ("allocations", Case::Allocations, "alloc.device", 4),
];

struct Gpu {
    context: Arc<CudaContext>,
    stream: TracedStream,
    copies: Arc<CudaStream>,
    spin: CudaFunction,
    read: CudaFunction,
}

impl Gpu {
    fn new() -> Result<Self, DriverError> {
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
    fn run(&self, case: Case, steps: usize, fixed: bool) -> Result<Duration, DriverError> {
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

struct Args {
    cases: Vec<String>,
    fixed: bool,
    report: bool,
    steps: usize,
    out: PathBuf,
}

impl Args {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut args = Self {
            cases: Vec::new(),
            fixed: false,
            report: false,
            steps: 50,
            out: PathBuf::from("target/cuda_stalls"),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--fixed" => args.fixed = true,
                "--report" => args.report = true,
                "--steps" => args.steps = words.next().ok_or("--steps needs a number")?.parse()?,
                "--out" => args.out = words.next().ok_or("--out needs a directory")?.into(),
                name if CASES.iter().any(|(case, ..)| *case == name) => args.cases.push(word),
                _ => return Err(format!("what is `{word}`? See the top of this file").into()),
            }
        }
        Ok(args)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse()?;
    // SAFETY: it only tries to load the driver.
    if !unsafe { is_culib_present() } {
        return Err("there is no CUDA driver here".into());
    }
    std::fs::create_dir_all(&args.out)?;
    // CUPTI sees the calls of CUDA only if a session began before the first of them.
    let start = args.out.join("start.trace.json.gz");
    let start = gpustall::session("start").output(start).start()?;
    let gpu = Gpu::new()?;
    start.finish()?;
    println!(
        "case         planted             found               share      step  predicted   measured  off by"
    );
    for (name, case, planted, times) in CASES {
        let steps = args.steps * times;
        if !args.cases.is_empty() && !args.cases.iter().any(|of| of == name) {
            continue;
        }
        let record = |fixed: bool| -> Result<_, Box<dyn Error>> {
            let title = if fixed {
                format!("{name}-fixed")
            } else {
                name.to_owned()
            };
            let output = args.out.join(format!("{title}.trace.json.gz"));
            let session = gpustall::session(title).output(output).start()?;
            let took = gpu.run(case, steps, fixed)?;
            let step = took.as_secs_f64() * 1e3 / steps as f64;
            let summary = session.finish()?;
            if args.report {
                println!("{summary}\n");
            }
            Ok((step, summary))
        };
        let before = (!args.fixed).then(|| record(false)).transpose()?;
        let (after, _) = record(true)?;
        let Some((step, summary)) = before else {
            println!("{name:<12} fixed: {after:.3} ms a step");
            continue;
        };
        print!("{name:<12} {planted:<19} ");
        let finding = summary.report().and_then(|report| report.findings.first());
        let predicted = finding.and_then(|of| Some((of.step_ns?, of.predicted_step_ns?)));
        let (Some(finding), Some((now, then))) = (finding, predicted) else {
            println!("nothing   {step:>9.3} ms, fixed {after:.3} ms");
            continue;
        };
        let gain = (now - then.min(now)) as f64 / 1e6;
        println!(
            "{:<19} {:>4.0} % {step:>6.3} ms {:>7.3} ms {after:>7.3} ms {:>5.0} %",
            finding.cause.to_string(),
            finding.share * 100.0,
            then as f64 / 1e6,
            100.0 * (gain - (step - after)).abs() / (step - after).abs(),
        );
    }
    Ok(())
}
