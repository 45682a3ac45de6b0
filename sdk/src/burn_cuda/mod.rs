//! Burn on CUDA: for which phase a device operation was asked.
//!
//! A thread that trains with Burn makes no calls of the driver. It queues tasks for a *runner*, a
//! thread of CubeCL's for each device (`DSD-0-0`), which makes them later. So the thread that CUPTI
//! names for a launch is the runner, and when it launches says nothing about when it was asked to.
//!
//! A phase that begins or ends is therefore queued too ([`phases`]): a task of ours between the tasks of
//! the thread, which only notes the time. What the runner does for that thread between two such marks
//! was asked for between them; nobody waits for anything. The runner works for other threads in
//! between, so a mark also says how many launches its thread had asked for by then ([`launches`]): the
//! diagnosis knows the stream of a thread by these counts, and an interval in which they do not agree
//! is left out rather than guessed.

#[cfg(feature = "burn-fusion")]
mod fusion;
mod launches;
mod phases;
mod runners;
mod tuning;
mod windows;

pub(crate) use phases::{begins, ends};
pub use windows::device_phase;

use gpustall_cuda::EventSink;
use gpustall_trace::{EventRef, MonoTime};
use std::time::Duration;

/// How long the start of a session waits until the runners that are there are idle and marked, so that the
/// first step is.
const START_WITHIN: Duration = Duration::from_millis(100);

/// What a session knows of Burn's runners.
#[derive(Debug)]
pub(crate) struct Runners {
    found: runners::Search,
    windows: windows::Windows,
    told_fused: bool,
    #[cfg(feature = "burn-fusion")]
    _fusion: burn_fusion::observer::FusionObservation,
}

impl Drop for Runners {
    fn drop(&mut self) {
        runners::release();
    }
}

impl Runners {
    /// Looks for them; `start` is that of the trace.
    pub(crate) fn start(start: MonoTime, sink: &mut dyn EventSink) -> Self {
        if !launches::watch() {
            let text = "Another observer of CubeCL's launches is installed, so device operations are \
                        not tied to phases.";
            sink.push(&EventRef::Note { text });
        }
        let mut runners = Self {
            found: runners::Search::default(),
            windows: windows::Windows::new(start),
            told_fused: cfg!(feature = "burn-fusion"),
            #[cfg(feature = "burn-fusion")]
            _fusion: fusion::watch(),
        };
        runners.found.start(START_WITHIN);
        runners
    }

    /// Looks again, and writes what came.
    pub(crate) fn poll(&mut self, sink: &mut dyn EventSink) {
        if self.found.look() > 0 {
            let text = "With Burn's fusion, device operations are tied to phases only on the first device and on \
                        those that were used, and idle, when the session started.";
            sink.push(&EventRef::Note { text });
        }
        self.windows.write(sink);
        if launches::are_fused() && !std::mem::replace(&mut self.told_fused, true) {
            let text = "Burn's fusion runs operations later than they were asked for: device operations \
                        are tied to phases only with the feature burn-fusion of gpustall.";
            sink.push(&EventRef::Note { text });
        }
    }
}
