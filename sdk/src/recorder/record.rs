//! What travels through a ring.

use super::reading::Reading;
use crate::instrument::queue::Queue;
use gpustall_trace::{MonoTime, Tid, ValueRef, vocab};
use std::sync::Arc;

/// Kind of a slice or instant; its text is the category in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    Step,
    DataWait,
    EpochStart,
    EpochEnd,
    DataGet,
    DataCollate,
    DataItem,
    Phase,
    Span,
    Event,
    Fault,
    /// A call of the CUDA driver.
    #[cfg(feature = "cuda")]
    Driver,
    /// A runner of Burn's works for another phase from here on.
    #[cfg(feature = "burn-cuda")]
    PhaseMark,
}

impl Category {
    /// The category's name in the trace.
    pub(crate) const fn as_str(self) -> &'static str {
        use vocab::cat;
        match self {
            Self::Step => cat::STEP,
            Self::DataWait => cat::DATA_WAIT,
            Self::EpochStart => cat::EPOCH_START,
            Self::EpochEnd => cat::EPOCH_END,
            Self::DataGet => cat::DATA_GET,
            Self::DataCollate => cat::DATA_COLLATE,
            Self::DataItem => cat::DATA_ITEM,
            Self::Phase => cat::PHASE,
            Self::Span => cat::SPAN,
            Self::Event => cat::EVENT,
            Self::Fault => cat::FAULT,
            #[cfg(feature = "cuda")]
            Self::Driver => cat::CUDA_DRIVER,
            #[cfg(feature = "burn-cuda")]
            Self::PhaseMark => cat::PHASE_MARK,
        }
    }

    /// Whether the diagnosis rests on events of this kind. They may use the part of a ring that
    /// is kept free for them, so that a flood of user spans does not push them out.
    pub(crate) const fn is_essential(self) -> bool {
        !matches!(self, Self::Span | Self::Event | Self::DataItem)
    }
}

/// An argument value that a record owns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Text {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Static(&'static str),
    Owned(Box<str>),
}

impl Text {
    pub(crate) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Bool(v) => ValueRef::Bool(*v),
            Self::U64(v) => ValueRef::U64(*v),
            Self::I64(v) => ValueRef::I64(*v),
            Self::F64(v) => ValueRef::F64(*v),
            Self::Static(v) => ValueRef::Str(v),
            Self::Owned(v) => ValueRef::Str(v),
        }
    }
}

/// The arguments of a record; `None` costs no allocation.
pub(crate) type Args = Option<Box<[(&'static str, Text)]>>;

/// One recorded event. Kept within one cache line: the common slice without arguments is a store
/// of 64 bytes.
#[derive(Debug)]
pub(crate) enum Record {
    Slice {
        cat: Category,
        name: &'static str,
        start: MonoTime,
        end: MonoTime,
        args: Args,
    },
    /// A `tracing` span was entered and left.
    Span {
        metadata: &'static tracing::Metadata<'static>,
        start: MonoTime,
        end: MonoTime,
        args: Args,
    },
    /// A slice that has begun; its [`Record::Slice`] with the same name and start follows.
    Open {
        cat: Category,
        name: &'static str,
        start: MonoTime,
        args: Args,
        /// Tells of a get stage whether it still goes on.
        reading: Option<Arc<Reading>>,
    },
    Instant {
        cat: Category,
        name: &'static str,
        at: MonoTime,
        args: Args,
    },
    Counter {
        name: &'static str,
        at: MonoTime,
        value: f64,
    },
    /// A batch was made or taken; the queue knows its name once its loader took a first batch.
    QueueDepth {
        queue: Arc<Queue>,
        at: MonoTime,
        depth: i64,
    },
    /// One iteration of a loop, on the loop's own track; `end` is unknown while it runs.
    Step {
        track: StepTrack,
        start: MonoTime,
        end: Option<MonoTime>,
        args: Args,
    },
    /// A batch went from the thread that made it to the one that records this.
    BatchTaken(Box<BatchTaken>),
}

/// The synthetic track that a loop's steps lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StepTrack {
    pub(crate) tid: Tid,
    pub(crate) name: &'static str,
}

/// How a batch reached its consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchTaken {
    pub(crate) batch: u64,
    /// Title of the async slice.
    pub(crate) queue: &'static str,
    /// Thread that made it, and the stage that finished it.
    pub(crate) worker: Tid,
    pub(crate) made: (MonoTime, MonoTime),
    /// The wait that took it.
    pub(crate) wait: (MonoTime, MonoTime),
}

impl Record {
    pub(crate) fn is_essential(&self) -> bool {
        match self {
            Self::Slice { cat, .. } | Self::Open { cat, .. } | Self::Instant { cat, .. } => {
                cat.is_essential()
            }
            Self::Span { .. } | Self::Counter { .. } => false,
            Self::QueueDepth { .. } | Self::Step { .. } | Self::BatchTaken(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_fits_a_cache_line() {
        assert!(std::mem::size_of::<Record>() <= 64);
    }
}
