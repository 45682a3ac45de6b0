//! CUDA devices in a session: CUPTI where it can be used, CUDA's own events where it cannot.
//!
//! The session's writer thread asks for what came ([`Devices::poll`]) each time before it flushes;
//! the trainer's threads have no part in it but for the calls that go through
//! [`instrument::stream`](crate::instrument::stream).

mod clock;
mod pending;
mod stream;

pub use stream::{TracedLaunch, TracedStream, stream};

use gpustall_cuda::{
    Capture, Config, EventSink, Sampler, TimedOperations, devices, visible_devices,
};
use gpustall_trace::{DeviceInfo, EventRef, MonoTime, MonotonicClock, Pid};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether CUPTI records in this process: streams need no timing of their own then.
static CAPTURING: AtomicBool = AtomicBool::new(false);

/// How often a window is looked after that closes when its cost is used up.
const LOOK: Duration = Duration::from_millis(50);

/// Set in jobs that `gpustall run` started: it records the devices itself.
const RUN_VARIABLE: &str = "GPUSTALL_OUTPUT";
const INJECTION_VARIABLE: &str = "CUDA_INJECTION64_PATH";

/// What records the devices of this process.
#[derive(Debug)]
pub(crate) struct Devices {
    capture: Option<Capture>,
    sampler: Option<Sampler>,
    timed: TimedOperations,
    lost: u64,
    start: MonoTime,
    #[cfg(feature = "burn-cuda")]
    runners: Option<crate::burn_cuda::Runners>,
}

impl Devices {
    /// Starts whatever can be used; what cannot is said in a note.
    pub(crate) fn start(pid: Pid, start: MonoTime, sink: &mut dyn EventSink) -> Self {
        let mut devices = Self {
            capture: None,
            sampler: None,
            timed: TimedOperations::new(pid, start),
            lost: 0,
            start,
            #[cfg(feature = "burn-cuda")]
            runners: None,
        };
        pending::clear();
        #[cfg(feature = "burn-cuda")]
        if driver_is_there() {
            devices.runners = Some(crate::burn_cuda::Runners::start(start, sink));
        }
        if by_run() {
            let text = "`gpustall run` records the devices of this process, in its own trace.";
            sink.push(&EventRef::Note { text });
            CAPTURING.store(true, Ordering::Relaxed);
            return devices;
        }
        // Without the driver nothing else can be there, and one note is enough.
        if !driver_is_there() {
            let text = format!("{}.", gpustall_cuda::CaptureError::NoDriver);
            sink.push(&EventRef::Note { text: &text });
            return devices;
        }
        let config = Config::of(|name| std::env::var(name).ok());
        match Capture::start(config, pid, start) {
            Ok(capture) => devices.capture = Some(capture),
            Err(error) => {
                let text = format!("{error}; streams of `instrument::stream` are timed by events.");
                sink.push(&EventRef::Note { text: &text });
            }
        }
        CAPTURING.store(devices.capture.is_some(), Ordering::Relaxed);
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        match Sampler::start(start, &visible_devices(visible.as_deref())) {
            Ok(sampler) => devices.sampler = Some(sampler),
            Err(error) => {
                let text = format!("{error}.");
                sink.push(&EventRef::Note { text: &text });
            }
        }
        devices
    }

    /// Writes what came since the last time.
    pub(crate) fn poll(&mut self, sink: &mut dyn EventSink) {
        if let Some(capture) = &mut self.capture {
            capture.poll(sink);
        }
        self.rest(sink);
    }

    /// Looks after a window that closes when its cost is used up; how soon to do so again, if one is open.
    pub(crate) fn look(&mut self, sink: &mut dyn EventSink) -> Option<Duration> {
        let capture = self
            .capture
            .as_mut()
            .filter(|capture| capture.is_rationed())?;
        capture.poll(sink);
        Some(LOOK)
    }

    /// A step of the loop whose track is `of` is over.
    pub(crate) fn step(&mut self, of: u32, start: MonoTime, end: MonoTime) {
        if let Some(capture) = &mut self.capture {
            capture.step(of, start, end);
        }
    }

    /// Writes everything that is still to come, and stops.
    pub(crate) fn finish(mut self, sink: &mut dyn EventSink) {
        if let Some(capture) = &mut self.capture {
            capture.flush_all(sink);
            capture.tell_cost(sink);
        }
        self.rest(sink);
        CAPTURING.store(false, Ordering::Relaxed);
    }

    fn rest(&mut self, sink: &mut dyn EventSink) {
        if let Some(sampler) = &mut self.sampler {
            sampler.drain(sink);
        }
        #[cfg(feature = "burn-cuda")]
        if let Some(runners) = &mut self.runners {
            runners.poll(sink);
        }
        pending::write_done(&mut self.timed, sink);
        let lost = pending::lost();
        if lost != self.lost {
            self.lost = lost;
            sink.push(&EventRef::Loss {
                source: "device operations beyond the queue of the timer",
                at: MonotonicClock::read().in_trace(self.start),
                total: lost,
            });
        }
    }
}

/// The devices that this process sees.
pub(crate) fn known() -> Vec<DeviceInfo> {
    devices()
}

/// Whether operations are to be timed by events.
pub(crate) fn times() -> bool {
    !CAPTURING.load(Ordering::Relaxed)
}

fn by_run() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set(RUN_VARIABLE) && set(INJECTION_VARIABLE)
}

#[expect(unsafe_code, reason = "cudarc marks looking for a library as unsafe")]
fn driver_is_there() -> bool {
    // SAFETY: it only tries to load the driver, whose initialisers touch nothing of this program.
    unsafe { cudarc::driver::sys::is_culib_present() }
}
