//! Steps of a loop that has no loader.

use super::steps::{LoaderKind, Position, Steps};
use crate::recorder::ring::current_tid;
use gpustall_trace::{MonotonicClock, Tid};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// The loops that were named so far. Each thread that runs one of them counts its own steps.
static LOOPS: Mutex<Option<HashMap<(String, Tid), Loop>>> = Mutex::new(None);

struct Loop {
    steps: Arc<Steps>,
    next: u64,
}

/// Marks one iteration of the training loop `name`, until the guard is dropped.
///
/// Only for loops that do not iterate over an instrumented loader: a loader gives its loop its
/// steps by itself.
///
/// ```
/// use gpustall::instrument;
///
/// for rows in [0..100, 100..200] {
///     let _step = instrument::step("direct");
///     // ... index the data, train on it ...
/// #   let _ = rows;
/// }
/// ```
pub fn step(name: &str) -> StepGuard {
    let (steps, step) = {
        let mut loops = LOOPS.lock();
        let known = loops
            .get_or_insert_with(HashMap::new)
            .entry((name.to_owned(), current_tid()))
            .or_insert_with(|| Loop {
                steps: Arc::new(Steps::new(name, LoaderKind::Train)),
                next: 0,
            });
        known.next += 1;
        (known.steps.clone(), known.next - 1)
    };
    let position = Position { epoch: 0, step };
    steps.reach(position, MonotonicClock::read());
    steps.got_batch(position);
    StepGuard {
        steps,
        position,
        not_send: PhantomData,
    }
}

/// A step that ends when this is dropped. Made by [`step`].
#[must_use = "the step ends when the guard is dropped: bind it, as in `let _step = ...`"]
#[derive(Debug)]
pub struct StepGuard {
    steps: Arc<Steps>,
    position: Position,
    not_send: PhantomData<*const ()>,
}

impl Drop for StepGuard {
    fn drop(&mut self) {
        self.steps.leave(self.position, MonotonicClock::read());
    }
}
