//! The line that shows how far a recording is.

use gpustall_sidecar::Progress;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

/// Shows progress on standard error, when that is a terminal.
pub(super) struct ProgressLine {
    shown: bool,
    next: Instant,
    terminal: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            shown: false,
            next: Instant::now() + EVERY,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether it is time to show it again.
    pub(super) fn due(&mut self) -> bool {
        let due = self.terminal && Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + EVERY;
        }
        due
    }

    pub(super) fn show(&mut self, text: &str) {
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        self.shown = true;
    }

    /// Makes room for another line.
    pub(super) fn interrupt(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// How far a recording is.
pub(super) fn recording(progress: Progress) -> String {
    format!(
        "recording {:.1} s, {} threads, {} intervals, {} CUDA calls, {} lost",
        progress.at.as_nanos() as f64 / 1e9,
        progress.threads,
        progress.intervals,
        progress.cuda_calls,
        progress.lost
    )
}
