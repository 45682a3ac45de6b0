//! What happens in a training job: steps, calls of loaders, phases.

use gpustall_trace::vocab::kind;
use gpustall_trace::{Interval, Nanos, Symbol, Tid, TraceTime, TrackId};

/// What a loader's batches are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Train,
    Valid,
}

impl Kind {
    /// As it stands in traces and reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Train => kind::TRAIN,
            Kind::Valid => kind::VALID,
        }
    }
}

/// A loader, by its name and what its batches are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LoaderKey {
    pub(crate) name: Option<Symbol>,
    pub(crate) kind: Kind,
}

/// One iteration of a loop over a loader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) loader: LoaderKey,
    pub(crate) epoch: Option<u64>,
    /// Position in its epoch, from 0.
    pub(crate) index: Option<u64>,
    /// Thread that runs the loop.
    pub(crate) thread: Option<Tid>,
    pub(crate) span: Interval,
    /// How long it took, also where it went on after the end of the recording.
    pub(crate) whole: Nanos,
    /// How much of that was recorded: neither in a pause nor after the end.
    pub(crate) recorded: Nanos,
    /// Whether its end is not known, or too little of it was recorded.
    pub(crate) cut: bool,
}

/// Which call of a loader a thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `iter()`.
    EpochStart,
    /// A `next()` that gives a batch, or an error.
    Batch,
    /// The `next()` that returned `None`.
    EpochEnd,
}

/// A thread inside a call of a loader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) role: Role,
    pub(crate) track: TrackId,
    pub(crate) loader: LoaderKey,
    pub(crate) epoch: Option<u64>,
    pub(crate) step: Option<u64>,
    pub(crate) batch: Option<u64>,
    /// Thread that made the batch, as the wait itself says.
    pub(crate) worker: Option<Tid>,
    /// Whether the loader keeps its workers from one epoch to the next, as far as it says so.
    pub(crate) keeps_workers: bool,
    /// Whether it is the `iter()` of a loader that was not iterated before, as far as that is told.
    pub(crate) new_loader: bool,
    /// Workers that the loader has, as far as it says so.
    pub(crate) num_workers: Option<u64>,
    /// Batches that each worker may have ahead of the trainer, as far as it says so.
    pub(crate) prefetch: Option<u64>,
    /// Whether the loader's data set is iterated, not indexed, as far as it says so.
    pub(crate) iterable: bool,
    pub(crate) span: Interval,
    /// CPU time of the waiting thread inside it.
    pub(crate) cpu: Option<Nanos>,
    pub(crate) unfinished: bool,
    /// Whether it gave an error instead of a batch.
    pub(crate) failed: bool,
    /// Of one that failed: until when it waited for a batch that could come. What went wrong may have been noticed
    /// later, as PyTorch looks for workers that are gone every 5 s only.
    pub(crate) until: TraceTime,
    /// Whether it is the first of its epoch.
    pub(crate) first: bool,
    /// Whether another profiler's annotation says so, rather than a slice of ours.
    pub(crate) annotated: bool,
    /// Whether it is on a thread that runs no steps, although another one does.
    pub(crate) aside: bool,
    /// Whether the waiting thread makes the batch itself, where an annotation says so.
    pub(crate) in_process: Option<bool>,
}

/// A part of the step that the user marked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase {
    pub(crate) track: TrackId,
    pub(crate) name: Symbol,
    pub(crate) span: Interval,
}
