//! Why recordings cannot be merged.

/// Recordings could not be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("one recording alone cannot be merged; name at least two")]
    TooFew,
    /// A recording has no time on the machine's clock: that of another profiler.
    #[error(
        "{label} does not say when it was recorded on the clock that gpustall uses (CLOCK_MONOTONIC), \
         so nothing can be set beside it; record with gpustall's SDK, with `gpustall-sidecar record`, \
         or with tracing-chrome's layer as gpustall's feature `tracing-chrome` makes it"
    )]
    NoClock {
        /// The recording.
        label: String,
    },
    /// Two recordings are the same.
    #[error("{first} and {second} are the same recording; name each once")]
    Same {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A recording holds another one.
    #[error("{whole} holds {part} already: it was merged from it; leave one of them out")]
    Within {
        /// The one that was merged.
        whole: String,
        /// The one that is in it.
        part: String,
    },
    /// Two recordings are of different boots of a machine, or of different machines.
    #[error(
        "{first} and {second} were not recorded in one run of one machine: their clocks are {apart_s} s \
         apart; merge recordings that were made side by side"
    )]
    OtherBoot {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// By how much their clocks differ, seconds.
        apart_s: u64,
    },
    /// Two recordings have no moment in common.
    #[error(
        "{first} and {second} have no moment in common: one ended {apart_ms} ms before the other began; \
         merge recordings that were made side by side"
    )]
    Apart {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// How far they are apart, milliseconds.
        apart_ms: u64,
    },
    /// Two recordings have no process in common.
    #[error(
        "{second} is of other processes ({theirs}) than {first} ({ours}); merge recordings of one job. If \
         the job ran in a container, its own recording has the container's process ids: let the session \
         find `gpustall-sidecar serve` instead, which translates them"
    )]
    OtherJob {
        /// The recording merged before.
        first: String,
        /// The other.
        second: String,
        /// Processes of the one before.
        ours: String,
        /// Processes of the other.
        theirs: String,
    },
}
