//! What is to be drawn, free of borrows from the trace.

use super::{MAX_DRAWN_PIECES, MAX_DRAWN_STALLS};
use crate::analysis::Charged;
use crate::chain::walk;
use crate::charge::{Account, Source, Stall};
use crate::finding::group_of;
use crate::piece::{Edge, Piece, PieceKind};
use crate::report::{Finding, Report};
use crate::tally::on_cpu;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Trace, TraceTime, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A stall.
pub(super) struct Drawn {
    /// Position and name of its device, or of the thread that stands for it.
    pub(super) device: usize,
    pub(super) name_of_device: String,
    pub(super) span: Interval,
    pub(super) name: String,
    pub(super) args: Vec<(&'static str, Arg)>,
    /// The wait slice, if it is a wait.
    pub(super) wait: Option<FlowTarget>,
    /// The kernel that ended the stall of a device, where the slice ends with it.
    pub(super) kernel: Option<FlowTarget>,
    /// The call that launched it.
    pub(super) launch: Option<FlowTarget>,
    pub(super) pieces: Vec<DrawnPiece>,
}

pub(super) struct DrawnPiece {
    pub(super) span: Interval,
    pub(super) name: String,
    pub(super) args: Vec<(&'static str, Arg)>,
    /// The slice that it comes from.
    pub(super) target: Option<FlowTarget>,
    /// The worst stretch off CPU of the stall, if it is in this piece.
    pub(super) off: Option<FlowTarget>,
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
        timeline, accounts, ..
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
    stalls.sort_by_key(|(_, stall)| (Reverse(stall.lost), stall.start(), stall.device));
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
    let mut all = Vec::new();
    for (finding, stall, pieces) in chosen {
        let left_out = left_out.get(&finding).copied().unwrap_or(0);
        let worst = worst_off(&timeline, stall, &pieces);
        let known = Known {
            timeline: &timeline,
            accounts: &accounts,
            finding,
            left_out,
            worst,
        };
        let account = accounts.get(stall.device);
        let recorded = account.is_some_and(|account| account.device.is_some());
        if !recorded && timeline.kernel.is_empty() {
            all.push(drawn(&known, stall, stall.whole(), &pieces));
            continue;
        }
        // The parts of stalls of several causes lie between each other.
        for &part in &stall.parts {
            let inside = |piece: &&Piece| part.contains(piece.span.start);
            let pieces: Vec<Piece> = pieces.iter().filter(inside).copied().collect();
            all.push(drawn(&known, stall, part, &pieces));
        }
    }
    all
}

/// The longest stretch off CPU of the threads that a stall is charged to: where the piece begins
/// in which it lies, and its slice.
fn worst_off(
    timeline: &Timeline<'_>,
    stall: &Stall,
    pieces: &[Piece],
) -> Option<(TraceTime, FlowTarget)> {
    use PieceKind::{HandOff, UnknownWorker};
    // A thread that waits for another one's batch is asleep, and that says nothing.
    let tells = |kind| stall.cause.is_held_up() || !matches!(kind, HandOff | UnknownWorker);
    let told = pieces.iter().filter(|piece| tells(piece.kind));
    let offs = told.filter_map(|piece| {
        let (length, off) = timeline.lane(piece.track?)?.worst_off(piece.span)?;
        Some((length, piece.span.start, off))
    });
    let (_, at, off) = offs.max_by_key(|&(length, at, _)| (length, Reverse(at)))?;
    let slice = timeline.trace.slices.get(off.slice)?;
    let track = slice.track;
    Some((
        at,
        FlowTarget {
            track,
            span: off.span,
        },
    ))
}

/// What a slice is drawn from.
struct Known<'a> {
    timeline: &'a Timeline<'a>,
    accounts: &'a [Account],
    /// Position of the finding, and how many of its stalls are not drawn.
    finding: usize,
    left_out: u64,
    worst: Option<(TraceTime, FlowTarget)>,
}

fn drawn(known: &Known<'_>, stall: &Stall, span: Interval, pieces: &[Piece]) -> Drawn {
    let &Known {
        timeline,
        accounts,
        finding,
        left_out,
        worst,
    } = known;
    let whole = span == stall.whole();
    let length = if whole { stall.lost } else { span.len() };
    let mut args = vec![
        ("cause", Arg::Text(stall.cause.id().to_owned())),
        ("finding", Arg::Number(finding as u64 + 1)),
        ("lost_ns", Arg::Number(length.get())),
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
    let account = accounts.get(stall.device);
    let slice = |at: Option<usize>| {
        let slice = timeline.trace.slices.get(at?)?;
        Some(FlowTarget {
            track: slice.track,
            span: slice.span,
        })
    };
    Drawn {
        device: stall.device,
        name_of_device: account.map_or_else(String::new, |account| account.name.clone()),
        span,
        kernel: slice(stall.kernel).filter(|kernel| kernel.span.start == span.end),
        launch: slice(stall.launch),
        name: format!("starved: {} {length}", stall.cause),
        args,
        wait,
        pieces: pieces
            .iter()
            .map(|piece| drawn_piece(timeline, length, (wait, worst), piece))
            .collect(),
    }
}

fn drawn_piece(
    timeline: &Timeline<'_>,
    whole: Nanos,
    (wait, worst): (Option<FlowTarget>, Option<(TraceTime, FlowTarget)>),
    piece: &Piece,
) -> DrawnPiece {
    let who = piece.track.map(|track| timeline.thread_name(track));
    let edge = match piece.edge {
        Edge::Observed => "observed",
        Edge::Inferred => "inferred",
    };
    let share = piece.span.len().share_of(whole);
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
    if let Some(name) = piece.named {
        args.push(("of", Arg::Text(timeline.trace.text(name).to_owned())));
    }
    let shown = piece.slice.and_then(|at| timeline.trace.slices.get(at));
    let target = match (stage, shown) {
        (Some(stage), _) => Some(FlowTarget {
            track: stage.track,
            span: stage.span,
        }),
        (None, Some(slice)) => Some(FlowTarget {
            track: slice.track,
            span: slice.span,
        }),
        _ if matches!(
            piece.kind,
            PieceKind::Idle
                | PieceKind::Phase
                | PieceKind::Preempted
                | PieceKind::Blocked
                | PieceKind::Unmarked
        ) =>
        {
            None
        }
        _ => wait,
    };
    DrawnPiece {
        span: piece.span,
        name: match who {
            Some(who) => format!("{} on {who}", piece.kind),
            None => piece.kind.to_string(),
        },
        args,
        target,
        off: worst
            .filter(|&(at, _)| at == piece.span.start)
            .map(|(_, off)| off),
    }
}
