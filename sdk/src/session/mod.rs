//! A session: from `start` to `finish`, one recording and one trace file.

mod builder;
mod finish;
mod start;
mod summary;

pub use builder::{SessionBuilder, session};
pub use summary::Summary;

use crate::error::SessionError;
use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::Exchange;
use crate::recorder::writer::WriterThread;
use crate::sidecar::Connection;
use gpustall_trace::{Meta, MonoTime, MonotonicClock};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the session that runs in this process.
static RUNNING: Mutex<Option<String>> = Mutex::new(None);

/// Set to `off`, `0` or `false`, this environment variable makes every session record nothing.
const SWITCH: &str = "GPUSTALL";

/// A running session. [`finish`](Session::finish) writes the trace and returns the report;
/// dropping it writes the trace and prints one line to standard error.
#[derive(Debug)]
#[must_use = "the session ends when it is dropped"]
pub struct Session {
    /// `None` when recording is switched off.
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    meta: Meta,
    /// The trace, absolute: the program may change its directory before it finishes.
    output: PathBuf,
    /// The same as the program named it.
    shown: PathBuf,
    partial: PathBuf,
    generation: Generation,
    exchange: Arc<Exchange>,
    writer: WriterThread,
    sidecar: Option<Connection>,
    paused: Mutex<Option<MonoTime>>,
}

impl Session {
    /// Stops recording until [`resume`](Self::resume). Slices that began before are recorded
    /// when they end; the diagnosis leaves the pause out of its window.
    pub fn pause(&self) {
        if let Some(active) = &self.active {
            let mut paused = active.paused.lock();
            if paused.is_none() {
                active.generation.pause();
                let now = MonotonicClock::read();
                *paused = Some(now);
                active.exchange.pause(now, None);
            }
        }
    }

    /// Records again after a [`pause`](Self::pause).
    pub fn resume(&self) {
        if let Some(active) = &self.active
            && let Some(start) = active.paused.lock().take()
        {
            active.exchange.pause(start, Some(MonotonicClock::read()));
            active.generation.open();
        }
    }

    /// Whether events are recorded now.
    pub fn is_recording(&self) -> bool {
        self.active.is_some() && gate::recording().is_some()
    }

    /// Ends the recording, diagnoses it and writes the trace.
    ///
    /// # Errors
    ///
    /// When the finished file cannot be written. The partial file with everything recorded is
    /// then kept, and the error names it.
    pub fn finish(mut self) -> Result<Summary, SessionError> {
        match self.active.take() {
            Some(active) => active.finish(),
            None => Ok(Summary::nothing()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(active) = self.active.take() else {
            return;
        };
        // A second panic while the trainer unwinds would abort it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| active.finish()));
        match outcome {
            Ok(Ok(summary)) => {
                if let Some(trace) = summary.trace() {
                    eprintln!("gpustall: trace written to {}", trace.display());
                }
            }
            Ok(Err(error)) => eprintln!("gpustall: {error}"),
            Err(_) => eprintln!("gpustall: internal error while the session was dropped"),
        }
    }
}
