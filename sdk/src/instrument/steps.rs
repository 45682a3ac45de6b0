//! The steps of a loop: from one call of the loader's `next()` to the following one.

use crate::recorder::emit::FIRST_STEP_TID;
use crate::recorder::gate::{self, Generation};
use crate::recorder::names::keep;
use crate::recorder::record::StepTrack;
use crate::recorder::ring::{current_tid, push};
use crate::recorder::{Args, Record, Text};
use gpustall_trace::{MonoTime, Tid, vocab};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a loader is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoaderKind {
    /// Its batches train the model; it gives the run its steps.
    Train,
    /// Its batches only evaluate the model.
    Valid,
}

impl LoaderKind {
    /// [`Valid`](Self::Valid) for names whose first word, in any case, is `val`, `valid`,
    /// `validate`, `validation`, `eval`, `evaluate`, `evaluation`, `test` or `dev`; otherwise
    /// [`Train`](Self::Train).
    pub fn from_name(name: &str) -> Self {
        let word = name.split(|c: char| !c.is_alphabetic()).next();
        let word = word.unwrap_or_default().to_ascii_lowercase();
        const VALID: [&str; 9] = [
            "val",
            "valid",
            "validate",
            "validation",
            "eval",
            "evaluate",
            "evaluation",
            "test",
            "dev",
        ];
        if VALID.contains(&word.as_str()) {
            Self::Valid
        } else {
            Self::Train
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Train => vocab::kind::TRAIN,
            Self::Valid => vocab::kind::VALID,
        }
    }
}

/// The steps of one loop. All slices of a loader share one: Burn's multi-device strategy
/// advances every slice within one step.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) name: &'static str,
    pub(crate) kind: LoaderKind,
    track: StepTrack,
    current: Mutex<Option<Current>>,
}

/// Epoch and step in it, as counted by one iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) step: u64,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    position: Position,
    /// When its `next()` was called, if that was recorded.
    begun: Option<(Generation, MonoTime)>,
    thread: Tid,
    /// Whether `next()` returned a batch: the call that ends the epoch begins no step.
    has_batch: bool,
}

impl Steps {
    pub(crate) fn new(name: &str, kind: LoaderKind) -> Self {
        static TRACKS: AtomicU32 = AtomicU32::new(0);
        Self {
            name: keep(name),
            kind,
            track: StepTrack {
                tid: Tid(FIRST_STEP_TID + TRACKS.fetch_add(1, Ordering::Relaxed)),
                name: keep(&format!("steps: {name}")),
            },
            current: Mutex::new(None),
        }
    }

    /// An iterator calls `next()` for `position`. The first one to get there ends the step before
    /// and begins this one; the other slices of the loader join it.
    pub(crate) fn reach(&self, position: Position, now: MonoTime) {
        let mut current = self.current.lock();
        if current.is_none_or(|c| c.position < position) {
            if let Some(ended) = current.take() {
                self.end(ended, now);
            }
            *current = Some(Current {
                position,
                begun: gate::recording().map(|generation| (generation, now)),
                thread: current_tid(),
                has_batch: false,
            });
        }
    }

    /// `next()` returned a batch for `position`.
    pub(crate) fn got_batch(&self, position: Position) {
        let mut current = self.current.lock();
        if let Some(current) = &mut *current
            && current.position == position
            && !current.has_batch
        {
            current.has_batch = true;
            if let Some((generation, start)) = current.begun
                && generation.is_current()
            {
                push(
                    generation,
                    Record::Step {
                        track: self.track,
                        start,
                        end: None,
                        args: self.args(*current),
                    },
                );
            }
        }
    }

    /// The iterator that called `next()` last for `position` is dropped: the loop is over.
    pub(crate) fn leave(&self, position: Position, now: MonoTime) {
        let mut current = self.current.lock();
        if let Some(left) = &mut *current
            && left.position == position
        {
            self.end(*left, now);
            left.begun = None;
        }
    }

    fn end(&self, step: Current, now: MonoTime) {
        if let Some((generation, start)) = step.begun
            && step.has_batch
            && generation.is_current()
        {
            push(
                generation,
                Record::Step {
                    track: self.track,
                    start,
                    end: Some(now),
                    args: self.args(step),
                },
            );
        }
    }

    fn args(&self, step: Current) -> Args {
        use vocab::arg;
        Some(Box::new([
            (arg::LOADER, Text::Static(self.name)),
            (arg::KIND, Text::Static(self.kind.as_str())),
            (arg::EPOCH, Text::U64(step.position.epoch)),
            (arg::STEP, Text::U64(step.position.step)),
            (arg::THREAD, Text::U64(step.thread.0.into())),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_that_evaluate_are_known_by_their_names() {
        for name in ["valid", "Validation", "eval-2", "test_set", "val.a"] {
            assert_eq!(LoaderKind::from_name(name), LoaderKind::Valid);
        }
        for name in ["train", "imagenet", "pretrain", "device0", "values", ""] {
            assert_eq!(LoaderKind::from_name(name), LoaderKind::Train);
        }
    }
}
