//! Whether events are recorded now, and into which session.

use std::sync::atomic::{AtomicU64, Ordering};

/// `generation << 1 | open`. Zero while no session runs. Everything recorded carries the
/// generation of its session, so that a guard that outlives its session records nothing into the
/// next one.
static GATE: AtomicU64 = AtomicU64::new(0);
static GENERATIONS: AtomicU64 = AtomicU64::new(0);

/// The session that a guard began in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The running session, if it is recording now. One relaxed load.
#[inline(always)]
pub(crate) fn recording() -> Option<Generation> {
    let gate = GATE.load(Ordering::Relaxed);
    if gate & 1 == 1 {
        Some(Generation(gate >> 1))
    } else {
        None
    }
}

/// Whether a session runs, recording or paused.
pub(crate) fn session_runs() -> bool {
    GATE.load(Ordering::Relaxed) != 0
}

impl Generation {
    /// A generation that no session had before.
    pub(crate) fn next() -> Self {
        Self(GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether its session still runs, recording or paused.
    #[inline(always)]
    pub(crate) fn is_current(self) -> bool {
        GATE.load(Ordering::Relaxed) >> 1 == self.0
    }

    /// Starts or resumes recording.
    pub(crate) fn open(self) {
        GATE.store(self.0 << 1 | 1, Ordering::Release);
    }

    /// Pauses recording.
    pub(crate) fn pause(self) {
        GATE.store(self.0 << 1, Ordering::Release);
    }

    /// Ends the session.
    pub(crate) fn close(self) {
        GATE.store(0, Ordering::Release);
    }
}
