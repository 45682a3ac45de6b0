//! From a running session to its trace and report.

use super::summary::Summary;
use super::{Active, RUNNING};
use crate::error::SessionError;
use crate::layer;
use crate::recorder::ring::Exchange;
use gpustall_trace::{Loss, MonotonicClock, Pid, State, read, write_finished};

impl Active {
    pub(super) fn finish(self) -> Result<Summary, SessionError> {
        // A forked child has the session but not the writer thread, and must leave the file alone.
        if self.meta.pid != Pid(std::process::id()) {
            return Ok(Summary::nothing());
        }
        if let Some(start) = self.paused.lock().take() {
            self.exchange.pause(start, Some(MonotonicClock::read()));
        }
        self.generation.close();
        Exchange::withdraw();
        layer::session_changed();
        if let Some(sidecar) = self.sidecar {
            sidecar.finish();
        }
        let outcome = self.writer.stop();
        let _running = StillRunning;
        let partial = self.partial;
        let Ok(outcome) = outcome else {
            return Err(SessionError::WriterPanicked { partial });
        };
        if !outcome.partial.is_in_place() {
            return Err(SessionError::Moved { partial });
        }
        let (mut trace, warnings) = match read(&partial) {
            Ok(read) => (read.trace, read.warnings),
            Err(source) => return Err(SessionError::ReadBack { partial, source }),
        };
        trace.meta.notes.extend(warnings);
        let log = layer::learners_log().map(str::to_owned);
        trace.meta.notes.extend(log);
        trace.meta.state = State::Finished;
        #[cfg(feature = "cuda")]
        {
            trace.meta.devices = crate::cuda::known();
        }
        trace.meta.end = trace
            .meta
            .end
            .max(outcome.end.in_trace(self.meta.start_mono));
        if let Some(error) = &outcome.error {
            trace
                .meta
                .notes
                .push(format!("the recording is incomplete: {error}"));
        }
        let unwritten = outcome.partial.events_lost();
        if unwritten > 0 {
            let source = trace.strings.intern("file that could not be written");
            trace.losses.push(Loss {
                source,
                at: trace.meta.end,
                total: unwritten,
            });
        }
        let report = gpustall_diagnose::diagnose(&trace);
        gpustall_diagnose::annotate(&mut trace, &report);
        match write_finished(&self.output, &trace) {
            Ok(_) => {
                // Everything in it is in the finished file now.
                let _ = outcome.partial.remove();
                Ok(Summary::of(report, self.shown))
            }
            Err(source) => Err(SessionError::Finish { partial, source }),
        }
    }
}

/// Until it is dropped no other session starts in this process.
struct StillRunning;

impl Drop for StillRunning {
    fn drop(&mut self) {
        *RUNNING.lock() = None;
    }
}
