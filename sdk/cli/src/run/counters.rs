//! What `nvidia-smi` would have said while the job ran, as a part of its own.

use super::parts::Parts;
use gpustall_cuda::{NVML_INTERVAL, Sampler, nvml_devices, visible_devices};
use gpustall_trace::{Meta, MonoTime, PartialWriter, Pid, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Reads the counters of devices until it is finished.
pub(super) struct Counters {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to read them, beside the job that runs as process `pid` since `start`. Without NVML there are
/// none, and the report says that there was no device.
pub(super) fn start(parts: &Parts, pid: u32, start: MonoTime) -> Counters {
    let stop = Arc::new(AtomicBool::new(false));
    let thread = begin(parts, pid, start, stop.clone());
    Counters { stop, thread }
}

fn begin(
    parts: &Parts,
    pid: u32,
    start: MonoTime,
    stop: Arc<AtomicBool>,
) -> Option<JoinHandle<()>> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let devices = visible_devices(visible.as_deref());
    let mut sampler = Sampler::start(start, &devices).ok()?;
    let meta = Meta {
        name: "counters".to_owned(),
        recorder: "nvml".to_owned(),
        start_mono: start,
        pid: Pid(pid),
        state: State::Partial,
        devices: nvml_devices(&devices),
        ..Meta::default()
    };
    let mut part = PartialWriter::create(&parts.counters(), &meta).ok()?;
    std::thread::Builder::new()
        .spawn(move || {
            loop {
                let last = stop.load(Ordering::Relaxed);
                sampler.drain(&mut part);
                if part.flush().is_err() || last {
                    return;
                }
                std::thread::park_timeout(2 * NVML_INTERVAL);
            }
        })
        .ok()
}

impl Counters {
    /// Writes the last ones.
    pub(super) fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
