//! What is to be drawn, free of borrows from the trace.

use super::{MAX_DRAWN_PIECES, MAX_DRAWN_STALLS};
use crate::analysis::Charged;
use crate::chain::{Edge, Piece, PieceKind, walk};
use crate::charge::{Source, Stall};
use crate::finding::group_of;
use crate::report::{Finding, Report};
use crate::tally::on_cpu;
use crate::timeline::Timeline;
use crate::window::Trainer;
use gpustall_trace::{Interval, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A stall.
pub(super) struct Drawn {
    /// Position and name of its trainer.
    pub(super) trainer: usize,
    pub(super) thread: String,
    pub(super) span: Interval,
    pub(super) name: String,
    pub(super) args: Vec<(&'static str, Arg)>,
    /// The wait slice, if it is a wait.
    pub(super) wait: Option<FlowTarget>,
    pub(super) pieces: Vec<DrawnPiece>,
}

pub(super) struct DrawnPiece {
    pub(super) span: Interval,
    pub(super) name: String,
    pub(super) args: Vec<(&'static str, Arg)>,
    /// The slice that it comes from.
    pub(super) target: Option<FlowTarget>,
}

/// A slice that an arrow may reach.
#[derive(Clone, Copy)]
pub(super) struct FlowTarget {
    pub(super) track: TrackId,
    pub(super) span: Interval,
}

pub(super) enum Arg {
    Number(u64),
    Share(f64),
    Text(String),
}

/// What to draw: the stalls of the report's findings, the longest first.
pub(super) fn plan(trace: &Trace, report: &Report) -> Vec<Drawn> {
    let Charged {
        timeline,
        trainers,
        accounts,
        ..
    } = Charged::of(trace);
    let finding_of = |stall: &Stall| {
        let (cause, loader) = group_of(&timeline, stall);
        let kind = loader.map(|loader| loader.kind.as_str());
        let loader = loader.map(|loader| timeline.loader_name(loader));
        let same = |f: &Finding| {
            f.cause == cause && f.loader.as_deref() == loader && f.kind.as_deref() == kind
        };
        report.findings.iter().position(same)
    };
    let stalls = accounts.iter().flat_map(|account| &account.stalls);
    let mut stalls: Vec<(usize, &Stall)> = stalls
        .filter_map(|stall| Some((finding_of(stall)?, stall)))
        .collect();
    stalls.sort_by_key(|(_, stall)| (Reverse(stall.lost), stall.start(), stall.trainer));
    let mut room = MAX_DRAWN_PIECES;
    let mut chosen = Vec::new();
    for &(finding, stall) in stalls.iter().take(MAX_DRAWN_STALLS) {
        let pieces = walk(&timeline, stall);
        match room.checked_sub(pieces.len()) {
            Some(rest) => room = rest,
            None => break,
        }
        chosen.push((finding, stall, pieces));
    }
    let mut left_out: BTreeMap<usize, u64> = BTreeMap::new();
    for &(finding, _) in &stalls[chosen.len()..] {
        *left_out.entry(finding).or_default() += 1;
    }
    let draw = |(finding, stall, pieces): (usize, &Stall, Vec<Piece>)| {
        let left_out = left_out.get(&finding).copied().unwrap_or(0);
        drawn(&timeline, &trainers, (finding, left_out), stall, &pieces)
    };
    chosen.into_iter().map(draw).collect()
}

fn drawn(
    timeline: &Timeline<'_>,
    trainers: &[Trainer],
    (finding, left_out): (usize, u64),
    stall: &Stall,
    pieces: &[Piece],
) -> Drawn {
    let end = stall.parts.last().map_or(stall.start(), |part| part.end);
    let mut args = vec![
        ("cause", Arg::Text(stall.cause.id().to_owned())),
        ("finding", Arg::Number(finding as u64 + 1)),
        ("lost_ns", Arg::Number(stall.lost.get())),
    ];
    let mut wait = None;
    if let Source::Wait(i) = stall.source
        && let Some(of) = timeline.waits.get(i)
    {
        args.push((
            "loader",
            Arg::Text(timeline.loader_name(of.loader).to_owned()),
        ));
        let numbers = [("epoch", of.epoch), ("step", of.step), ("batch", of.batch)];
        args.extend(
            numbers
                .iter()
                .filter_map(|&(key, n)| Some((key, Arg::Number(n?)))),
        );
        wait = Some(FlowTarget {
            track: of.track,
            span: of.span,
        });
    }
    if left_out > 0 {
        args.push(("left_out", Arg::Number(left_out)));
    }
    let trainer = trainers.get(stall.trainer);
    Drawn {
        trainer: stall.trainer,
        thread: trainer.map_or_else(String::new, |trainer| trainer.name.clone()),
        span: Interval::new(stall.start(), end),
        name: format!("starved: {} {}", stall.cause, stall.lost),
        args,
        wait,
        pieces: pieces
            .iter()
            .map(|piece| drawn_piece(timeline, stall, wait, piece))
            .collect(),
    }
}

fn drawn_piece(
    timeline: &Timeline<'_>,
    stall: &Stall,
    wait: Option<FlowTarget>,
    piece: &Piece,
) -> DrawnPiece {
    let who = piece.track.map(|track| timeline.thread_name(track));
    let edge = match piece.edge {
        Edge::Observed => "observed",
        Edge::Inferred => "inferred",
    };
    let share = piece.span.len().share_of(stall.lost);
    let mut args = vec![
        ("share", Arg::Share(share)),
        ("edge", Arg::Text(edge.to_owned())),
    ];
    let stage = piece.stage.and_then(|stage| timeline.stages.get(stage));
    if let Some(stage) = stage {
        let numbers = [("batch", stage.batch), ("items", stage.items)];
        args.extend(
            numbers
                .iter()
                .filter_map(|&(key, n)| Some((key, Arg::Number(n?)))),
        );
        args.push(("stage_ns", Arg::Number(stage.span.len().get())));
    }
    if let Some(share) = piece.stage.and_then(|stage| on_cpu(timeline, stage)) {
        args.push(("on_cpu", Arg::Share(share)));
    }
    let target = match stage {
        Some(stage) => Some(FlowTarget {
            track: stage.track,
            span: stage.span,
        }),
        None if matches!(piece.kind, PieceKind::Idle | PieceKind::Phase) => None,
        None => wait,
    };
    DrawnPiece {
        span: piece.span,
        name: match who {
            Some(who) => format!("{} on {who}", piece.kind),
            None => piece.kind.to_string(),
        },
        args,
        target,
    }
}
