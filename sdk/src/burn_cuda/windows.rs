//! How long a device had to do with a phase, from Burn itself, where CUPTI cannot be used.

use crate::instrument::phase;
use crate::recorder::gate;
use burn_core::tensor::Device;
use cubecl_common::profile::{Duration, Instant, ProfileDuration, TimingMethod};
use cubecl_environment::future::block_on;
use gpustall_cuda::EventSink;
use gpustall_trace::{EventRef, Interval, MonoTime, MonotonicClock, Pid, Tid, TrackKind, vocab};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The track of the windows, beside those that a session makes for the reader.
const TRACK: (Pid, Tid) = (Pid(Pid::SYNTHETIC), Tid(Pid::SYNTHETIC + 3));
/// How long before the first window the instant lies that times are told from.
const EPOCH: Duration = Duration::from_secs(3600);
/// Windows whose times are not known yet, at most; further ones are left out.
const WAITING: usize = 4096;

type Window = (&'static str, MonoTime, MonoTime);

/// Windows whose times are known.
static DONE: Mutex<Vec<Window>> = Mutex::new(Vec::new());
static RESOLVER: OnceLock<Option<SyncSender<(&'static str, ProfileDuration)>>> = OnceLock::new();

/// Runs `work` as the phase `name`, and where CUPTI does not record the devices, has Burn measure from
/// when to when `device` had to do with it ([`Device::profile`]).
///
/// That is for Burn on a GPU beside another profiler, or without libcupti. It never waits for the
/// device, but it makes the thread wait twice until Burn's runner has submitted everything that
/// was queued before, so the host can not be ahead of the runner at these two places. Where CUPTI
/// records, and without a session, it is [`phase`](crate::instrument::phase) around `work` and costs no more.
///
/// A window also holds the time in which the device had nothing to do within it, and what was queued
/// before and still ran. So it is at least as long as what the kernels took.
///
/// ```no_run
/// # fn example(device: burn_core::tensor::Device, model: impl Fn() -> f32 + Send) {
/// use gpustall::instrument;
///
/// let loss = instrument::device_phase("forward", &device, || model());
/// # }
/// ```
pub fn device_phase<O: Send + 'static>(
    name: &'static str,
    device: &Device,
    work: impl FnOnce() -> O + Send,
) -> O {
    let _phase = phase(name);
    if gate::recording().is_none() || !crate::cuda::times() || !has_a_clock(device) {
        return work();
    }
    // Burn hands back either what `work` returned or an error, and may not have called it at all.
    let mut work = Some(work);
    let mut output = None;
    let profiled =
        device.profile(|| output = super::tuning::measures(|| work.take().map(|work| work())));
    if let Ok(((), duration)) = profiled
        && duration.timing_method() == TimingMethod::Device
    {
        resolve(name, duration);
    }
    match (output, work) {
        (Some(output), _) => output,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("work that was taken has been run, or has unwound"),
    }
}

/// Whether it is a device of CubeCL's: others would be made to wait until they are done.
fn has_a_clock(device: &Device) -> bool {
    format!("{device:?}").contains("Cube(")
}

/// Has the times of a window read when the device has passed it.
fn resolve(name: &'static str, duration: ProfileDuration) {
    let resolver = RESOLVER.get_or_init(|| {
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("gpustall-windows".into())
            .spawn(move || read(&receiver))
            .ok()
            .map(|_| sender)
    });
    if let Some(resolver) = resolver {
        // When it is full, the device is thousands of windows behind.
        let _ = resolver.try_send((name, duration));
    }
}

fn read(windows: &Receiver<(&'static str, ProfileDuration)>) {
    // Times are told only as distances from an instant before them.
    let now = Instant::now();
    let here = MonotonicClock::read().as_nanos();
    let epoch = now.checked_sub(EPOCH).unwrap_or(now);
    let before = now.duration_since(epoch).as_nanos() as u64;
    let time = |since: Duration| {
        let since = since.as_nanos() as u64;
        MonoTime::from_nanos((here + since).saturating_sub(before))
    };
    for (name, duration) in windows {
        if let Some(ticks) = block_on(duration.resolve()) {
            let start = time(ticks.start_duration_since(epoch));
            let end = time(ticks.end_duration_since(epoch));
            DONE.lock().push((name, start, end));
        }
    }
}

/// Writes windows as slices on a track of their own.
#[derive(Debug)]
pub(super) struct Windows {
    start: MonoTime,
    introduced: bool,
}

impl Windows {
    /// In a trace that starts at `start`.
    pub(super) fn new(start: MonoTime) -> Self {
        DONE.lock().clear();
        Self {
            start,
            introduced: false,
        }
    }

    /// Writes those whose times are known.
    pub(super) fn write(&mut self, sink: &mut dyn EventSink) {
        let done = std::mem::take(&mut *DONE.lock());
        let (pid, tid) = TRACK;
        for (name, start, end) in done {
            if start < self.start {
                continue; // Of a session before.
            }
            if !std::mem::replace(&mut self.introduced, true) {
                sink.push(&EventRef::Track {
                    pid,
                    tid,
                    name: "device, by Burn's profile",
                    sort: 8,
                    kind: TrackKind::Synthetic,
                });
            }
            sink.push(&EventRef::Slice {
                pid,
                tid,
                name,
                cat: vocab::cat::DEVICE_WINDOW,
                span: Interval::new(start.in_trace(self.start), end.in_trace(self.start)),
                args: &[],
            });
        }
    }
}
