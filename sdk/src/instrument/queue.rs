//! The batches that were made and not yet taken.

use crate::recorder::names::keep;
use gpustall_trace::vocab;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// The queue between the workers of one loader and its consumer, as seen from both ends.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    depth: AtomicI64,
    names: OnceLock<Names>,
}

#[derive(Debug)]
struct Names {
    counter: &'static str,
    batches: &'static str,
}

impl Queue {
    /// One batch more; the depth then.
    pub(crate) fn put(&self) -> i64 {
        self.depth.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One batch less; the depth then.
    pub(crate) fn take(&self) -> i64 {
        self.depth.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// Names the queue after the loader that takes from it; returns the title of its batches.
    pub(crate) fn name_after(&self, loader: &str) -> &'static str {
        self.names
            .get_or_init(|| Names {
                counter: keep(&format!("{} {loader}", vocab::QUEUE_DEPTH)),
                batches: keep(&format!("queued batches: {loader}")),
            })
            .batches
    }

    /// Name of the depth's counter, once a loader took a batch.
    pub(crate) fn counter(&self) -> Option<&'static str> {
        self.names.get().map(|names| names.counter)
    }
}
