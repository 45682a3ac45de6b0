//! CubeCL's autotune: kernels that are launched to find out which is fastest.
//!
//! A program launches from its own threads, or those of Burn's fusion; a runner launches by itself only to
//! measure, for which it shuts everybody else out. So launches on a runner's thread with none of anybody
//! else in between are one run of the autotune, in which the program waits: a phase `autotune` on
//! the runner, which the diagnosis charges as it does compiling. (What a program measures by
//! `Device::profile` is launched there too, and looks the same.)

use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::push;
use crate::recorder::{Category, Record};
use gpustall_trace::{MonoTime, MonotonicClock};
use std::cell::Cell;

/// Launches of one run, on the runner's thread.
#[derive(Debug, Clone, Copy)]
struct Run {
    generation: Generation,
    start: MonoTime,
    last: MonoTime,
    /// Launches of all other threads before it.
    others: u64,
}

thread_local! {
    static RUN: Cell<Option<Run>> = const { Cell::new(None) };
    /// A phase of the program is measured: [`device_phase`](super::device_phase).
    static MEASURES: Cell<bool> = const { Cell::new(false) };
}

/// The runner launches by itself; other threads have launched `others` times.
pub(super) fn launched(others: u64) {
    if MEASURES.get() {
        return;
    }
    let Some(generation) = gate::recording() else {
        return;
    };
    let now = MonotonicClock::read();
    let begun = Run {
        generation,
        start: now,
        last: now,
        others,
    };
    let run = match RUN.get() {
        Some(run) if run.generation == generation && run.others == others => {
            Run { last: now, ..run }
        }
        _ => {
            over();
            begun
        }
    };
    RUN.set(Some(run));
}

/// The runner does something else now.
pub(super) fn over() {
    let Some(run) = RUN.take() else { return };
    if run.last == run.start || !run.generation.is_current() {
        return;
    }
    push(
        run.generation,
        Record::Slice {
            cat: Category::Phase,
            name: "autotune",
            start: run.start,
            end: run.last,
            args: None,
        },
    );
}

/// What `work` launches on a runner's thread is no autotune.
pub(super) fn measures<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MEASURES.set(self.0);
        }
    }
    let _before = Before(MEASURES.replace(true));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_until_somebody_else_launches() {
        let generation = Generation::next();
        generation.open();
        launched(5);
        launched(5);
        let run = RUN.get().expect("a run");
        assert!(run.start < run.last, "{run:?}");
        launched(6);
        let next = RUN.get().expect("another");
        assert!(next.start > run.last && next.start == next.last);
        measures(|| launched(9));
        assert_eq!(RUN.get().map(|run| run.others), Some(6));
        over();
        assert!(RUN.get().is_none());
        generation.close();
    }
}
