//! Calls of next() of a loader's iterator: how each ended, and which batch it gave.

use super::mark::Mark;

/// How a `next()` ended; the hook's numbers.
pub(super) const END: u32 = 1;
const ERROR: u32 = 2;
pub(super) const CUT: u32 = 3;
const OUTCOME: u32 = 3;
const NO_GRADIENTS: u32 = 4;

/// How a call of `next()` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Batch,
    End,
    Error,
    /// An exception that is none of the loader ended it, such as an interrupt by the user.
    Cut {
        /// Whether its thread neither asked a loader nor stepped an optimizer after it.
        last: bool,
    },
    /// It had not come back when the recording ended.
    Open,
}

/// A batch, as its worker counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Made {
    /// Process of the worker.
    pub(super) pid: u32,
    /// Which iteration of the worker.
    pub(super) served: u32,
    /// Which batch of that.
    pub(super) n: u64,
}

/// One call of `next()`. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) tid: u32,
    pub(super) start: u64,
    /// 0 where it did not end.
    pub(super) end: u64,
    pub(super) outcome: Outcome,
    /// Whether gradients were wanted.
    pub(super) gradients: bool,
    /// The batch, if a worker made it.
    pub(super) made: Option<Made>,
    /// The call of `next()` itself, if its thread handed the batch on to the one that waited here.
    pub(super) inner: Option<(u32, (u64, u64))>,
}

impl Call {
    /// The call that a mark is of.
    pub(super) fn of(mark: &Mark) -> Self {
        Self {
            tid: mark.tid,
            start: mark.start,
            end: mark.end,
            outcome: match mark.d & OUTCOME {
                END => Outcome::End,
                ERROR => Outcome::Error,
                CUT => Outcome::Cut { last: true },
                _ => Outcome::Batch,
            },
            gradients: mark.d & NO_GRADIENTS == 0,
            made: (mark.b > 0).then_some(Made {
                pid: mark.b,
                served: mark.c,
                n: mark.n,
            }),
            inner: None,
        }
    }
}
