//! One process: steps on the device when a line asks for them, and a capture beside them.

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PinnedHostSlice, PushKernelArg,
};
use gpustall_cuda::{Capture, Config};
use gpustall_trace::{Meta, MonoTime, MonotonicClock, PartialWriter, Pid};
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// `spin(ns)` runs for so long on one thread.
const KERNEL: &str = include_str!("../kernels.ptx");

/// What a step does: so many kernels, copies to the device and memsets.
const KERNELS: u64 = 112;
const COPIES: u64 = 4;
const SETS: u64 = 4;
const BYTES: usize = 64 << 10;

/// How often the capture is looked after.
const LOOK: Duration = Duration::from_millis(50);

struct Device {
    stream: Arc<CudaStream>,
    spin: CudaFunction,
    buffer: CudaSlice<u8>,
    pinned: PinnedHostSlice<u8>,
}

/// A capture, and the thread that looks after it.
struct Watched {
    seen: Arc<Seen>,
    thread: JoinHandle<()>,
    folder: tempfile::TempDir,
}

/// What the two threads show each other.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    open: AtomicBool,
    /// Turn, start and end of the steps that ended since the capture was last looked after.
    steps: Mutex<Vec<(u32, MonoTime, MonoTime)>>,
    /// What the capture measured of its cost.
    cost: Mutex<Option<String>>,
}

/// Answers each line `MILLISECONDS SECONDS` with the number of steps that were captured and the length
/// of each step, milliseconds; and the line `cost` with what the capture measured of its cost.
pub(crate) fn serve(way: &str) -> Result<(), Box<dyn Error>> {
    let watched = match way {
        "none" => None,
        _ => Some(watch()?),
    };
    let context = CudaContext::new(0)?;
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(KERNEL))?;
    let stream = context.new_stream()?;
    let mut device = Device {
        spin: module.load_function("spin")?,
        buffer: stream.alloc_zeros(BYTES)?,
        // SAFETY: it is written before it is read.
        pinned: unsafe { context.alloc_pinned(BYTES) }?,
        stream,
    };
    device.pinned.as_mut_slice()?.fill(1);
    for _ in 0..20 {
        step(&mut device, 1)?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    // Steps of two turns are no neighbours, so each is a loop of its own.
    let mut turn = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let seen = watched.as_ref().map(|of| of.seen.as_ref());
        if line == "cost" {
            let cost = seen.and_then(|seen| seen.cost.lock().ok()?.clone());
            writeln!(out, "{}", cost.as_deref().unwrap_or("nothing was measured"))?;
            continue;
        }
        let (ms, seconds) = line.split_once(' ').ok_or("MILLISECONDS SECONDS")?;
        let (ms, seconds) = (ms.parse()?, seconds.parse()?);
        // The clocks of the device come up, and what was queued in between is gone.
        step(&mut device, ms)?;
        let begin = Instant::now();
        let (mut steps, mut captured) = (Vec::new(), 0);
        while begin.elapsed().as_secs_f64() < seconds {
            let open = seen.is_some_and(|seen| seen.open.load(Ordering::Relaxed));
            let before = MonotonicClock::read();
            step(&mut device, ms)?;
            let after = MonotonicClock::read();
            steps.push((after.as_nanos() - before.as_nanos()) as f64 / 1e6);
            captured += usize::from(open);
            if let Some(mut steps) = seen.and_then(|seen| seen.steps.lock().ok()) {
                steps.push((turn, before, after));
            }
        }
        turn += 1;
        write!(out, "{captured}")?;
        for step in steps {
            write!(out, " {step:.4}")?;
        }
        writeln!(out)?;
    }
    if let Some(watched) = watched {
        watched.seen.stop.store(true, Ordering::Relaxed);
        let _ = watched.thread.join();
        drop(watched.folder);
    }
    Ok(())
}

/// A step that keeps the device busy for about nine tenths of `ms`, and waits for it.
fn step(device: &mut Device, ms: u64) -> Result<(), Box<dyn Error>> {
    let nanoseconds = ms * 900_000 / KERNELS;
    for _ in 0..COPIES {
        device
            .stream
            .memcpy_htod(&device.pinned, &mut device.buffer)?;
    }
    for _ in 0..KERNELS {
        let mut launch = device.stream.launch_builder(&device.spin);
        launch.arg(&nanoseconds);
        let one_thread = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel takes one 64-bit number.
        unsafe { launch.launch(one_thread) }?;
    }
    for _ in 0..SETS {
        device.stream.memset_zeros(&mut device.buffer)?;
    }
    device.stream.synchronize()?;
    Ok(())
}

/// Captures into a file, as a session or the injected library does.
fn watch() -> Result<Watched, Box<dyn Error>> {
    let pid = Pid(std::process::id());
    let start = MonotonicClock::read();
    let mut capture = Capture::start(Config::of(|name| std::env::var(name).ok()), pid, start)?;
    let folder = tempfile::tempdir()?;
    let meta = Meta {
        start_mono: start,
        pid,
        ..Meta::default()
    };
    let mut file = PartialWriter::create(&folder.path().join("steps.json.partial"), &meta)?;
    let seen = Arc::new(Seen::default());
    let shown = seen.clone();
    let thread = std::thread::spawn(move || {
        capture.wake(std::thread::current());
        while !shown.stop.load(Ordering::Relaxed) {
            if let Ok(mut steps) = shown.steps.lock() {
                for (turn, start, end) in steps.drain(..) {
                    capture.step(turn, start, end);
                }
            }
            capture.poll(&mut file);
            shown.open.store(capture.is_open(), Ordering::Relaxed);
            if let Ok(mut cost) = shown.cost.lock() {
                *cost = capture.measured_cost().map(|cost| cost.to_string());
            }
            let _ = file.flush();
            std::thread::park_timeout(LOOK);
        }
    });
    Ok(Watched {
        seen,
        thread,
        folder,
    })
}
