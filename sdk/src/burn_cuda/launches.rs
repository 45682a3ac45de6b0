//! How many launches each thread has asked for.

use cubecl_environment::stream::StreamId;
use cubecl_runtime::logging::{LaunchObservation, LaunchObserver};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Queues that are told apart. CubeCL numbers them from 0; two with one number here have wrong counts,
/// which the diagnosis notices.
const QUEUES: usize = 256;

static ISSUED: [AtomicU64; QUEUES] = [const { AtomicU64::new(0) }; QUEUES];
/// Launches of all threads but the runners.
static OTHERS: AtomicU64 = AtomicU64::new(0);
/// Launches come from Burn's fusion, long after their operations were asked for.
static FUSED: AtomicBool = AtomicBool::new(false);
static WATCHED: Mutex<bool> = Mutex::new(false);

/// Counts launches where they are asked for, before they are queued.
struct Counter;

impl LaunchObserver for Counter {
    fn launched(&self, _kernel: &'static str) {
        let queue = StreamId::current().value as usize % QUEUES;
        ISSUED[queue].fetch_add(1, Ordering::Relaxed);
        match launcher() {
            Launcher::Runner => super::tuning::launched(OTHERS.load(Ordering::Relaxed)),
            launcher => {
                OTHERS.fetch_add(1, Ordering::Relaxed);
                if launcher == Launcher::Fusion {
                    FUSED.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Whose thread this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Launcher {
    Program,
    /// Burn's fusion.
    Fusion,
    /// A runner, which launches by itself only to measure.
    Runner,
}

fn launcher() -> Launcher {
    thread_local! {
        static IS: Cell<Option<Launcher>> = const { Cell::new(None) };
    }
    IS.with(|is| {
        is.get().unwrap_or_else(|| {
            let thread = std::thread::current();
            let starts = |prefix| thread.name().is_some_and(|name| name.starts_with(prefix));
            let launcher = match (starts("DSU-"), starts("DSD-")) {
                (true, _) => Launcher::Fusion,
                (_, true) => Launcher::Runner,
                _ => Launcher::Program,
            };
            is.set(Some(launcher));
            launcher
        })
    })
}

/// Counts from now on, until the process ends: there is one place for an observer, and to leave it
/// would throw out one that came after. False where another one is there already; it stays.
pub(super) fn watch() -> bool {
    let mut watched = WATCHED.lock();
    if *watched {
        return true;
    }
    let observation = LaunchObservation::new(Arc::new(Counter));
    // Nothing else tells.
    if format!("{observation:?}").contains("replaced_an_observer: true") {
        return false;
    }
    std::mem::forget(observation);
    *watched = true;
    true
}

/// Launches that were asked for on `queue` so far.
pub(super) fn issued(queue: StreamId) -> u64 {
    ISSUED[queue.value as usize % QUEUES].load(Ordering::Relaxed)
}

/// Launches come from Burn's fusion.
#[cfg(feature = "burn-fusion")]
pub(super) fn are_fused_from_now() {
    FUSED.store(true, Ordering::Relaxed);
}

/// Whether launches come from Burn's fusion.
pub(super) fn are_fused() -> bool {
    FUSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_count_for_the_queue_that_they_are_asked_on() {
        let queue = StreamId { value: 77 };
        let before = issued(queue);
        queue.executes(|| Counter.launched("kernel"));
        queue.executes(|| Counter.launched("kernel"));
        StreamId { value: 78 }.executes(|| Counter.launched("kernel"));
        assert_eq!(issued(queue) - before, 2);
    }

    #[test]
    fn an_observer_that_was_there_before_stays() {
        struct Theirs(AtomicU64);
        impl LaunchObserver for Theirs {
            fn launched(&self, _: &'static str) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let theirs = LaunchObservation::new(Arc::new(Theirs(AtomicU64::new(0))));
        assert!(!watch());
        drop(theirs);
        assert!(watch());
        assert!(watch(), "it goes on");
    }
}
