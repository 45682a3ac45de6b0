//! What a thread that makes batches tells of its reads of items, while it is in the *get* stage.

use gpustall_trace::MonoTime;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a thread is inside a read, and when it was last seen at the end of one.
///
/// A get stage ends when the batcher is called. A batch that is thrown away (the last items of an
/// epoch that do not fill one, say) never gets there, and its thread may wait for the next epoch for
/// long: then the stage ended with its last read. The thread writes, the writer reads.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    inside: AtomicBool,
    /// Nanoseconds; 0 before the first read has ended.
    seen: AtomicU64,
}

impl Reading {
    /// A read begins.
    #[inline]
    pub(crate) fn enter(&self) {
        self.inside.store(true, Ordering::Relaxed);
    }

    /// A read is over.
    #[inline]
    pub(crate) fn leave(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// The last read ended now, `at`.
    pub(crate) fn saw(&self, at: MonoTime) {
        self.seen.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// When a read of the stage that began at `start` was last seen to end; `start` if none was.
    pub(crate) fn last(&self, start: MonoTime) -> MonoTime {
        MonoTime::from_nanos(self.seen.load(Ordering::Relaxed)).max(start)
    }

    /// The same for a thread that is between two reads; `None` while it is inside one.
    pub(crate) fn between(&self, start: MonoTime) -> Option<MonoTime> {
        let inside = self.inside.load(Ordering::Acquire);
        (!inside).then(|| self.last(start))
    }
}
