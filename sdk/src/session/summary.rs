//! What a finished session hands back.

use super::SWITCH;
use gpustall_diagnose::Report;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a finished session found. Its `Display` is the report and where the trace is.
#[derive(Debug, Clone)]
pub struct Summary {
    report: Option<Report>,
    trace: Option<PathBuf>,
}

impl Summary {
    /// Of a session that recorded nothing.
    pub(super) fn nothing() -> Self {
        Self {
            report: None,
            trace: None,
        }
    }

    pub(super) fn of(report: Report, trace: PathBuf) -> Self {
        Self {
            report: Some(report),
            trace: Some(trace),
        }
    }

    /// The diagnosis; `None` when recording was switched off.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// The trace file; `None` when recording was switched off.
    pub fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.report, &self.trace) {
            (Some(report), Some(trace)) => write!(
                f,
                "{report}\ntrace: {0} (`gpustall open {0}`, or open it at https://ui.perfetto.dev)",
                trace.display()
            ),
            _ => write!(
                f,
                "gpustall is switched off ({SWITCH} in the environment): nothing recorded"
            ),
        }
    }
}
