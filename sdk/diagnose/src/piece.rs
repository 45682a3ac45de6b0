//! What filled a part of a stall.

use gpustall_trace::{Interval, Symbol, TrackId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What filled a piece of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PieceKind {
    /// Items of this batch were read from the data set.
    Get,
    /// Items of this batch were made into a batch.
    Collate,
    /// The worker still read items of another batch.
    EarlierGet,
    /// The worker still collated another batch.
    EarlierCollate,
    /// The batch was made, and the worker read items of the next one before it sent it.
    LaterGet,
    /// The batch was made, and the worker collated the next one before it sent it.
    LaterCollate,
    /// The worker was in no recorded stage: idle, between stages, or not recorded.
    Idle,
    /// The batch was made and not yet taken.
    HandOff,
    /// The waiting thread was in the loader's sampler, which draws the indices of batches.
    Sampler,
    /// The waiting thread stopped the workers of an earlier loop.
    StopWorkers,
    /// The waiting thread was in `next()`, in no recorded stage.
    Next,
    /// The `iter()` of a loader.
    EpochStart,
    /// The `next()` that returned `None`.
    EpochEnd,
    /// Which worker made the batch is not known.
    UnknownWorker,
    /// A phase that the user marked.
    Phase,
    /// The thread was ready to run and had no CPU.
    Preempted,
    /// The thread was blocked, in nothing that the program marked.
    Blocked,
    /// The thread was in none of the phases that divide its step.
    Unmarked,
    /// A copy ran on the device.
    Copy,
    /// A collective ran on the device.
    Collective,
    /// A collective ran on the device, and had not begun on another one.
    Straggler,
    /// The next kernel was submitted and did not run.
    Submitted,
    /// The thread was in a driver call.
    Call,
    /// The thread copied into pinned memory.
    Staging,
    /// The thread ran a compiler of device code, as its samples say.
    Compiling,
    /// Between two launches, operators of the framework included.
    BetweenLaunches,
    /// The thread submitted nothing, in a stretch that stands out.
    NoLaunch,
    /// The thread submitted again after it had waited for the device.
    Refill,
    /// Nothing is recorded.
    Unrecorded,
}

impl fmt::Display for PieceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PieceKind::Get => "get",
            PieceKind::Collate => "collate",
            PieceKind::EarlierGet => "get of an earlier batch",
            PieceKind::EarlierCollate => "collate of an earlier batch",
            PieceKind::LaterGet => "get of the next batch",
            PieceKind::LaterCollate => "collate of the next batch",
            PieceKind::Idle => "idle or unknown",
            PieceKind::HandOff => "hand-off",
            PieceKind::Sampler => "sampler",
            PieceKind::StopWorkers => "stopping the workers of an earlier loop",
            PieceKind::Next => "elsewhere in next()",
            PieceKind::EpochStart => "start of the epoch",
            PieceKind::EpochEnd => "end of the epoch",
            PieceKind::UnknownWorker => "unknown worker",
            PieceKind::Phase => "marked phase",
            PieceKind::Preempted => "ready to run, without a CPU",
            PieceKind::Blocked => "blocked",
            PieceKind::Unmarked => "between marked phases",
            PieceKind::Copy => "copy",
            PieceKind::Collective => "collective",
            PieceKind::Straggler => "collective that another device had not begun",
            PieceKind::Submitted => "submitted, not yet running",
            PieceKind::Call => "driver call",
            PieceKind::Staging => "copying into pinned memory",
            PieceKind::Compiling => "compiling device code",
            PieceKind::BetweenLaunches => "between launches",
            PieceKind::NoLaunch => "submitting nothing",
            PieceKind::Refill => "submitting again",
            PieceKind::Unrecorded => "nothing recorded",
        })
    }
}

/// Whether a link was seen or concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// A recorded event says so.
    Observed,
    /// It follows from recorded events, but no event says so.
    Inferred,
}

/// A piece of a stall. The pieces of a stall partition the time charged to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: PieceKind,
    pub(crate) span: Interval,
    /// Thread that it happened on; `None` if unknown.
    pub(crate) track: Option<TrackId>,
    /// Position of the stage, where it is one.
    pub(crate) stage: Option<usize>,
    /// Position of the slice in the trace that shows it, where it is a device's or a call.
    pub(crate) slice: Option<usize>,
    /// The copy, the call, or the innermost phase in which it happened.
    pub(crate) named: Option<Symbol>,
    pub(crate) edge: Edge,
}

impl Piece {
    /// A piece of which only the kind, the time and the thread are known.
    pub(crate) fn plain(
        kind: PieceKind,
        span: Interval,
        track: Option<TrackId>,
        edge: Edge,
    ) -> Self {
        Self {
            kind,
            span,
            track,
            stage: None,
            slice: None,
            named: None,
            edge,
        }
    }
}
