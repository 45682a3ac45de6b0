//! What a plant took from the training, by its own clocks.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time that the plant took from the trainer so far, nanoseconds.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Time that the training took so far, nanoseconds.
static TRAINED: AtomicU64 = AtomicU64::new(0);

/// Does `work` and counts the time it takes as lost.
pub fn lost<T>(work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    add_lost(begun.elapsed());
    result
}

/// Counts this time as lost.
pub fn add_lost(time: Duration) {
    LOST.fetch_add(time.as_nanos() as u64, Relaxed);
}

/// Counts this time as training.
pub fn add_trained(time: Duration) {
    TRAINED.fetch_add(time.as_nanos() as u64, Relaxed);
}

/// The sums, as a plant prints them: `lost_ns` and `trained_ns`.
pub fn json() -> Value {
    json!({ "lost_ns": LOST.load(Relaxed), "trained_ns": TRAINED.load(Relaxed) })
}
