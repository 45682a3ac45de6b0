//! From a data wait to the thread that made the batch, and what that thread did meanwhile.

use crate::charge::{Source, Stall};
use crate::stages::{Busy, Stage, StageKind};
use crate::timeline::{Role, Timeline, Wait};
use gpustall_trace::{Interval, TraceTime, TrackId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who made the batch that a wait was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The waiting thread itself, inside `next()`.
    InProcess,
    /// A worker with a track.
    Worker(TrackId),
    /// The batch never came; this worker still had one open for the longest.
    Open(TrackId, usize),
    /// Nobody knows.
    Unknown,
}

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
    /// The worker was in no recorded stage: idle, between stages, or not recorded.
    Idle,
    /// The batch was made and not yet taken.
    HandOff,
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
}

impl fmt::Display for PieceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PieceKind::Get => "get",
            PieceKind::Collate => "collate",
            PieceKind::EarlierGet => "get of an earlier batch",
            PieceKind::EarlierCollate => "collate of an earlier batch",
            PieceKind::Idle => "idle or unknown",
            PieceKind::HandOff => "hand-off",
            PieceKind::Next => "elsewhere in next()",
            PieceKind::EpochStart => "start of the epoch",
            PieceKind::EpochEnd => "end of the epoch",
            PieceKind::UnknownWorker => "unknown worker",
            PieceKind::Phase => "marked phase",
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
    pub(crate) edge: Edge,
}

/// Who made the batch of `wait`.
pub(crate) fn maker(timeline: &Timeline<'_>, wait: &Wait) -> Maker {
    let stages = &timeline.stages;
    let own = wait.batch.map_or(&[][..], |batch| stages.of_batch(batch));
    let mut known = own.iter().filter_map(|&stage| stages.get(stage));
    let nested = |s: &Stage| s.track == wait.track && !s.span.intersection(wait.span).is_empty();
    if own
        .iter()
        .filter_map(|&stage| stages.get(stage))
        .any(nested)
    {
        return Maker::InProcess;
    }
    if let Some(stage) = known.find(|stage| stage.track != wait.track) {
        return Maker::Worker(stage.track);
    }
    if let Some(track) = wait.worker.and_then(|tid| timeline.thread(tid)) {
        return if track == wait.track {
            Maker::InProcess
        } else {
            Maker::Worker(track)
        };
    }
    if stages.during(wait.track, wait.span).next().is_some() {
        return Maker::InProcess;
    }
    if wait.unfinished && wait.role == Role::Batch {
        return open_batch(timeline, wait).unwrap_or(Maker::Unknown);
    }
    Maker::Unknown
}

/// The stage of this loader's workers that was open for the longest when the recording ended.
fn open_batch(timeline: &Timeline<'_>, wait: &Wait) -> Option<Maker> {
    let open = timeline.stages.open().filter(|&(_, stage)| {
        let serves = timeline.serves.get(&stage.track);
        stage.track != wait.track && serves.is_none_or(|&(loader, _)| loader == wait.loader)
    });
    let (at, stage) = open.min_by_key(|(_, stage)| stage.span.start)?;
    Some(Maker::Open(stage.track, at))
}

/// The pieces of a stall, in order.
pub(crate) fn walk(timeline: &Timeline<'_>, stall: &Stall) -> Vec<Piece> {
    let wait = match stall.source {
        Source::Wait(i) => timeline.waits.get(i),
        Source::Phase(i) => {
            let track = timeline.phases.get(i).map(|phase| phase.track);
            return whole(stall, PieceKind::Phase, track, Edge::Observed);
        }
    };
    let Some(wait) = wait else {
        return whole(stall, PieceKind::UnknownWorker, None, Edge::Inferred);
    };
    match wait.role {
        Role::EpochStart => {
            return whole(
                stall,
                PieceKind::EpochStart,
                Some(wait.track),
                Edge::Observed,
            );
        }
        Role::EpochEnd => {
            return whole(stall, PieceKind::EpochEnd, Some(wait.track), Edge::Observed);
        }
        Role::Batch => {}
    }
    let mut pieces = Vec::new();
    match maker(timeline, wait) {
        Maker::Unknown => return whole(stall, PieceKind::UnknownWorker, None, Edge::Inferred),
        Maker::InProcess => {
            let batch = wait.batch;
            for &part in &stall.parts {
                lane(
                    timeline,
                    wait.track,
                    part,
                    batch,
                    PieceKind::Next,
                    &mut pieces,
                );
            }
        }
        Maker::Worker(track) => {
            let made = wait.batch.and_then(|batch| made_at(timeline, batch, track));
            for &part in &stall.parts {
                let made = made.unwrap_or(part.end).clamp(part.start, part.end);
                let making = Interval::new(part.start, made);
                lane(
                    timeline,
                    track,
                    making,
                    wait.batch,
                    PieceKind::Idle,
                    &mut pieces,
                );
                let span = Interval::new(made, part.end);
                let track = Some(wait.track);
                let kind = PieceKind::HandOff;
                push(
                    &mut pieces,
                    Piece {
                        kind,
                        span,
                        track,
                        stage: None,
                        edge: Edge::Observed,
                    },
                );
            }
        }
        Maker::Open(track, stage) => {
            let batch = timeline.stages.get(stage).and_then(|stage| stage.batch);
            for &part in &stall.parts {
                lane(timeline, track, part, batch, PieceKind::Idle, &mut pieces);
            }
            // Nothing says that this is the batch that the trainer would have got.
            pieces
                .iter_mut()
                .for_each(|piece| piece.edge = Edge::Inferred);
        }
    }
    pieces
}

fn whole(stall: &Stall, kind: PieceKind, track: Option<TrackId>, edge: Edge) -> Vec<Piece> {
    let piece = |&span: &Interval| Piece {
        kind,
        span,
        track,
        stage: None,
        edge,
    };
    stall.parts.iter().map(piece).collect()
}

/// When the last stage of a batch ended on the thread that made it.
fn made_at(timeline: &Timeline<'_>, batch: u64, track: TrackId) -> Option<TraceTime> {
    let stages = timeline.stages.of_batch(batch).iter();
    stages
        .filter_map(|&stage| timeline.stages.get(stage))
        .filter(|stage| stage.track == track)
        .map(|stage| stage.span.end)
        .max()
}

/// Cuts `span` by what the thread did in it; `gap` is what the rest is called.
fn lane(
    timeline: &Timeline<'_>,
    track: TrackId,
    span: Interval,
    batch: Option<u64>,
    gap: PieceKind,
    pieces: &mut Vec<Piece>,
) {
    let edge = if gap == PieceKind::Next {
        Edge::Observed
    } else {
        Edge::Inferred
    };
    let rest = |start, end| Piece {
        kind: gap,
        span: Interval::new(start, end),
        track: Some(track),
        stage: None,
        edge,
    };
    let mut at = span.start;
    for Busy { span, stage } in timeline.stages.during(track, span) {
        push(pieces, rest(at, span.start));
        at = span.end;
        let Some(of) = timeline.stages.get(stage) else {
            continue;
        };
        // In process the batch is made by whoever waits for it, whatever its number.
        let own = gap == PieceKind::Next || (batch.is_some() && of.batch == batch);
        let (kind, edge) = match (of.kind, own) {
            (StageKind::Get, true) => (PieceKind::Get, Edge::Observed),
            (StageKind::Collate, true) => (PieceKind::Collate, Edge::Observed),
            (StageKind::Get, false) => (PieceKind::EarlierGet, Edge::Inferred),
            (StageKind::Collate, false) => (PieceKind::EarlierCollate, Edge::Inferred),
        };
        let track = Some(track);
        push(
            pieces,
            Piece {
                kind,
                span,
                track,
                stage: Some(stage),
                edge,
            },
        );
    }
    push(pieces, rest(at, span.end));
}

fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    if !piece.span.is_empty() {
        pieces.push(piece);
    }
}
