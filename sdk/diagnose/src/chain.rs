//! From a data wait to the thread that made the batch, and what that thread did meanwhile.

use crate::charge::{Source, Stall};
use crate::events::{Role, Wait};
use crate::maker::{Maker, maker};
use crate::partition::without;
use crate::piece::{Edge, Piece, PieceKind};
use crate::stages::{Stage, StageKind};
use crate::timeline::Timeline;
use gpustall_trace::{Interval, TraceTime, TrackId};

/// Which stages of a thread belong to the batch that is looked at.
#[derive(Debug, Clone, Copy)]
enum Own {
    /// All: in process the batch is made by whoever waits for it, whatever its number.
    All,
    /// Those of this batch.
    Batch(Option<u64>),
    /// This one.
    Stage(usize),
}

impl Own {
    fn has(self, at: usize, stage: &Stage) -> bool {
        match self {
            Own::All => true,
            Own::Batch(batch) => batch.is_some() && stage.batch == batch,
            Own::Stage(own) => own == at,
        }
    }
}

/// The pieces of a stall, in order.
pub(crate) fn walk(timeline: &Timeline<'_>, stall: &Stall) -> Vec<Piece> {
    let wait = match stall.source {
        Source::Wait(i) => timeline.waits.get(i),
        Source::Phase(i) => {
            let track = timeline.phases.get(i).map(|phase| phase.track);
            return whole(&stall.parts, PieceKind::Phase, track, Edge::Observed);
        }
        Source::Device | Source::Thread => return stall.pieces.clone(),
    };
    match wait {
        Some(wait) => wait_pieces(timeline, wait, &stall.parts),
        None => whole(&stall.parts, PieceKind::UnknownWorker, None, Edge::Inferred),
    }
}

/// What filled `parts` of a wait, in order. A thread that stops other workers or is in the sampler waits for no
/// batch then.
pub(crate) fn wait_pieces(timeline: &Timeline<'_>, wait: &Wait, parts: &[Interval]) -> Vec<Piece> {
    // Those of its own loop are stopped as that ends.
    let stopped = match wait.role {
        Role::EpochEnd => Vec::new(),
        Role::EpochStart | Role::Batch => timeline.stopping.during(wait.track, parts),
    };
    beside(wait, parts, (&stopped, PieceKind::StopWorkers), |parts| {
        let sampled = timeline.sampling.during(wait.track, parts);
        beside(wait, parts, (&sampled, PieceKind::Sampler), |parts| {
            unsampled(timeline, wait, parts)
        })
    })
}

/// Pieces of this kind where the waiting thread was seen in it, and what filled the rest of `parts`, in order.
fn beside(
    wait: &Wait,
    parts: &[Interval],
    (seen, kind): (&[Interval], PieceKind),
    rest: impl Fn(&[Interval]) -> Vec<Piece>,
) -> Vec<Piece> {
    if seen.is_empty() {
        return rest(parts);
    }
    let mut pieces = whole(seen, kind, Some(wait.track), Edge::Observed);
    pieces.extend(rest(&without(parts, seen)));
    pieces.sort_by_key(|piece| piece.span.start);
    pieces
}

/// What filled parts of a wait outside of the sampler, in order.
fn unsampled(timeline: &Timeline<'_>, wait: &Wait, parts: &[Interval]) -> Vec<Piece> {
    let own = Some(wait.track);
    match wait.role {
        Role::EpochStart => return whole(parts, PieceKind::EpochStart, own, Edge::Observed),
        Role::EpochEnd => return whole(parts, PieceKind::EpochEnd, own, Edge::Observed),
        Role::Batch => {}
    }
    let mut pieces = Vec::new();
    let cut = |pieces: &mut Vec<Piece>, track, span, own, gap| {
        Lane {
            timeline,
            track,
            own,
            gap,
        }
        .cut(span, pieces);
    };
    match maker(timeline, wait) {
        Maker::Unknown | Maker::Elsewhere => {
            return whole(parts, PieceKind::UnknownWorker, None, Edge::Inferred);
        }
        Maker::InProcess => {
            for &part in parts {
                cut(&mut pieces, wait.track, part, Own::All, PieceKind::Next);
            }
        }
        Maker::Worker(track) => {
            let made = wait.batch.and_then(|batch| made_at(timeline, batch, track));
            for &part in parts {
                let made = made.unwrap_or(part.end).clamp(part.start, part.end);
                let making = Interval::new(part.start, made);
                let own = Own::Batch(wait.batch);
                cut(&mut pieces, track, making, own, PieceKind::Idle);
                let rest = Interval::new(made, part.end);
                match timeline.sends_aside {
                    true => sending(timeline, (track, wait.track), rest, &mut pieces),
                    false => hand_off(wait.track, rest, &mut pieces),
                }
            }
        }
        Maker::Open(track, stage) => {
            for &part in parts {
                cut(&mut pieces, track, part, Own::Stage(stage), PieceKind::Idle);
            }
            // Nothing says that this is the batch that the trainer would have got.
            pieces
                .iter_mut()
                .for_each(|piece| piece.edge = Edge::Inferred);
        }
    }
    pieces
}

/// The time from when a batch was made until it was taken.
fn hand_off(taker: TrackId, span: Interval, pieces: &mut Vec<Piece>) {
    if !span.is_empty() {
        let track = Some(taker);
        let piece = Piece::plain(PieceKind::HandOff, span, track, Edge::Observed);
        pieces.push(piece);
    }
}

/// The same where another thread of the worker sends the batch, and a process runs one thread at a
/// time: while the worker is at work on its next batch, that is why this one has not come.
fn sending(
    timeline: &Timeline<'_>,
    (worker, taker): (TrackId, TrackId),
    span: Interval,
    pieces: &mut Vec<Piece>,
) {
    let mut at = span.start;
    for busy in timeline.stages.during(worker, span) {
        hand_off(taker, Interval::new(at, busy.span.start), pieces);
        let collates = timeline
            .stages
            .get(busy.stage)
            .is_some_and(|stage| stage.kind == StageKind::Collate);
        let kind = match collates {
            true => PieceKind::LaterCollate,
            false => PieceKind::LaterGet,
        };
        pieces.push(Piece {
            stage: Some(busy.stage),
            ..Piece::plain(kind, busy.span, Some(worker), Edge::Inferred)
        });
        at = busy.span.end;
    }
    hand_off(taker, Interval::new(at, span.end), pieces);
}

fn whole(parts: &[Interval], kind: PieceKind, track: Option<TrackId>, edge: Edge) -> Vec<Piece> {
    let piece = |&span: &Interval| Piece::plain(kind, span, track, edge);
    parts.iter().map(piece).collect()
}

/// When the last stage of a batch ended on the thread that made it.
pub(crate) fn made_at(timeline: &Timeline<'_>, batch: u64, track: TrackId) -> Option<TraceTime> {
    let stages = timeline.stages.of_batch(batch).iter();
    stages
        .filter_map(|&stage| timeline.stages.get(stage))
        .filter(|stage| stage.track == track)
        .map(|stage| stage.span.end)
        .max()
}

/// A thread, and how its time is to be called.
struct Lane<'a> {
    timeline: &'a Timeline<'a>,
    track: TrackId,
    /// Its stages for the batch that is looked at.
    own: Own,
    /// Time outside of its stages.
    gap: PieceKind,
}

impl Lane<'_> {
    /// Cuts `span` by what the thread did in it.
    fn cut(&self, span: Interval, pieces: &mut Vec<Piece>) {
        let mut at = span.start;
        for busy in self.timeline.stages.during(self.track, span) {
            self.push(pieces, self.gap, Interval::new(at, busy.span.start), None);
            self.push(pieces, self.kind(busy.stage), busy.span, Some(busy.stage));
            at = busy.span.end;
        }
        self.push(pieces, self.gap, Interval::new(at, span.end), None);
    }

    fn kind(&self, at: usize) -> PieceKind {
        let Some(stage) = self.timeline.stages.get(at) else {
            return self.gap;
        };
        match (stage.kind, self.own.has(at, stage)) {
            (StageKind::Get, true) => PieceKind::Get,
            (StageKind::Collate, true) => PieceKind::Collate,
            (StageKind::Get, false) => PieceKind::EarlierGet,
            (StageKind::Collate, false) => PieceKind::EarlierCollate,
        }
    }

    fn push(&self, pieces: &mut Vec<Piece>, kind: PieceKind, span: Interval, stage: Option<usize>) {
        use PieceKind::{EarlierCollate, EarlierGet, Idle};
        // That the wait was for this thread's earlier work, or idleness, no event says.
        let edge = match kind {
            EarlierGet | EarlierCollate | Idle => Edge::Inferred,
            _ => Edge::Observed,
        };
        if !span.is_empty() {
            let track = Some(self.track);
            pieces.push(Piece {
                stage,
                ..Piece::plain(kind, span, track, edge)
            });
        }
    }
}
