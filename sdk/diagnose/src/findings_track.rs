//! Drawing the findings into the trace.
//!
//! One track per trainer in a process of its own: a slice for each stall of a finding, below it
//! the pieces of its chain, which partition it, with arrows into the slices that they come from.

use crate::chain::{Edge, Piece, PieceKind, walk};
use crate::charge::{Source, Stall, charge};
use crate::finding::group_of;
use crate::report::Report;
use crate::tally::on_cpu;
use crate::timeline::Timeline;
use crate::window::{Trainer, window};
use gpustall_trace::vocab::cat;
use gpustall_trace::{
    Flow, FlowEnd, Interval, Nanos, Pid, Process, Slice, Symbol, Tid, Trace, TraceTime, Track,
    TrackId, TrackKind, Value,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Name of the process and of the tracks that findings are drawn on.
pub const TRACK_NAME: &str = "starvation chains";

/// No more stalls than this are drawn, the longest first; each drawn one of a finding says in
/// `left_out` how many of that finding are not.
pub const MAX_DRAWN_STALLS: usize = 5_000;

/// No more pieces than this are drawn, over all stalls.
pub const MAX_DRAWN_PIECES: usize = 50_000;

/// Name of the arrows.
const ARROW: &str = "starved by";

/// Puts the findings of `report`, which was made from this trace, into the trace: the findings
/// track, its arrows, and the report itself. What an earlier call put there is replaced, so a
/// second call changes nothing.
pub fn annotate(trace: &mut Trace, report: &Report) {
    erase(trace);
    let drawn = plan(trace, report);
    draw(trace, &drawn);
    trace.report = serde_json::to_value(report).ok();
    trace.sort();
}

/// A stall that is to be drawn, free of borrows from the trace.
struct Drawn {
    trainer: String,
    tid: Tid,
    span: Interval,
    name: String,
    args: Vec<(&'static str, Arg)>,
    /// The wait slice, if it is a wait.
    wait: Option<FlowTarget>,
    pieces: Vec<DrawnPiece>,
}

struct DrawnPiece {
    span: Interval,
    name: String,
    args: Vec<(&'static str, Arg)>,
    /// The slice that it comes from.
    target: Option<FlowTarget>,
}

/// A slice that an arrow may reach.
#[derive(Clone, Copy)]
struct FlowTarget {
    track: TrackId,
    span: Interval,
}

enum Arg {
    Number(u64),
    Share(f64),
    Text(String),
}

/// Removes what an earlier call drew.
fn erase(trace: &mut Trace) {
    if let Some(finding) = trace.strings.find(cat::FINDING) {
        trace.slices.retain(|slice| slice.cat != finding);
        trace.flows.retain(|flow| flow.cat != finding);
    }
    let Some(pid) = own_process(trace) else {
        return;
    };
    // Tracks are named by their position, so only those at the end can go.
    while trace.tracks.last().is_some_and(|track| track.pid == pid) {
        trace.tracks.pop();
    }
    if trace.tracks.iter().all(|track| track.pid != pid) {
        trace.processes.retain(|process| process.pid != pid);
    }
}

fn own_process(trace: &Trace) -> Option<Pid> {
    let name = trace.strings.find(TRACK_NAME)?;
    let own = |process: &&Process| process.pid.is_synthetic() && process.name == name;
    trace.processes.iter().find(own).map(|process| process.pid)
}

/// What to draw: the stalls of the report's findings, the longest first.
fn plan(trace: &Trace, report: &Report) -> Vec<Drawn> {
    let timeline = Timeline::of(trace);
    let (window, trainers) = window(&timeline);
    let accounts = charge(&timeline, &window, &trainers);
    let finding_of = |stall: &Stall| {
        let (cause, loader) = group_of(&timeline, stall);
        let loader = loader.map(|loader| timeline.loader_name(loader));
        let same = |f: &crate::Finding| f.cause == cause && f.loader.as_deref() == loader;
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
        trainer: trainer.map_or_else(String::new, |trainer| trainer.name.clone()),
        tid: trainer.map_or(Tid(0), |trainer| trainer.tid),
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

fn draw(trace: &mut Trace, stalls: &[Drawn]) {
    let finding = trace.strings.intern(cat::FINDING);
    let arrow = trace.strings.intern(ARROW);
    let several = stalls.iter().any(|stall| stall.tid != stalls[0].tid);
    let mut tracks: BTreeMap<Tid, TrackId> = BTreeMap::new();
    let mut arrows = Vec::new();
    for stall in stalls {
        let known = tracks.get(&stall.tid).copied();
        let Some(track) = known.or_else(|| track(trace, stall, several)) else {
            return;
        };
        tracks.insert(stall.tid, track);
        push(trace, track, finding, &stall.name, stall.span, &stall.args);
        for (i, piece) in stall.pieces.iter().enumerate() {
            push(trace, track, finding, &piece.name, piece.span, &piece.args);
            let first_of_worker = i == 0
                && piece
                    .target
                    .zip(stall.wait)
                    .is_none_or(|(to, wait)| to.track != wait.track);
            let wait = if first_of_worker { stall.wait } else { None };
            let targets = piece.target.into_iter().chain(wait);
            arrows.extend(targets.filter_map(|to| ends(track, piece.span, to)));
        }
    }
    for (id, (from, to)) in (1..).zip(arrows) {
        trace.flows.push(Flow {
            id,
            name: arrow,
            cat: finding,
            from,
            to,
        });
    }
}

/// An arrow's two ends: one moment, just after the piece begins, that lies inside both slices.
fn ends(track: TrackId, piece: Interval, to: FlowTarget) -> Option<(FlowEnd, FlowEnd)> {
    let both = piece.intersection(to.span);
    let inside = both.start + Nanos::new(1);
    let at: TraceTime = if both.contains(inside) {
        inside
    } else {
        both.start
    };
    let ends = (
        FlowEnd { track, at },
        FlowEnd {
            track: to.track,
            at,
        },
    );
    both.contains(at).then_some(ends)
}

fn push(
    trace: &mut Trace,
    track: TrackId,
    cat: Symbol,
    name: &str,
    span: Interval,
    args: &[(&'static str, Arg)],
) {
    let strings = &mut trace.strings;
    let args = args.iter().map(|(key, value)| {
        let key = strings.intern(key);
        let value = match value {
            Arg::Number(n) => Value::U64(*n),
            Arg::Share(share) => Value::F64(crate::stats::round_share(*share)),
            Arg::Text(text) => Value::Str(strings.intern(text)),
        };
        (key, value)
    });
    let args = args.collect();
    let name = strings.intern(name);
    trace.slices.push(Slice {
        track,
        name,
        cat,
        span,
        args,
    });
}

/// A track for a trainer's stalls; new unless an earlier call left it.
fn track(trace: &mut Trace, stall: &Drawn, several: bool) -> Option<TrackId> {
    let process = trace.strings.intern(TRACK_NAME);
    let pid = own_process(trace).unwrap_or_else(|| {
        let taken = |pid: u32| {
            let of_process = trace
                .processes
                .iter()
                .any(|process| process.pid == Pid(pid));
            of_process || trace.tracks.iter().any(|track| track.pid == Pid(pid))
        };
        let pid = Pid((Pid::SYNTHETIC..)
            .find(|&pid| !taken(pid))
            .unwrap_or(u32::MAX));
        trace.processes.push(Process {
            pid,
            name: process,
            sort: -1,
        });
        pid
    });
    let title = match several {
        true => format!("{TRACK_NAME}: {}", stall.trainer),
        false => TRACK_NAME.to_owned(),
    };
    let name = trace.strings.intern(&title);
    // The trainer's own id is unique among the trainers.
    let own = |track: &Track| track.pid == pid && track.tid == stall.tid;
    let position = match trace.tracks.iter().position(own) {
        Some(position) => position,
        None => {
            let kind = TrackKind::Synthetic;
            trace.tracks.push(Track {
                pid,
                tid: stall.tid,
                name,
                sort: 0,
                kind,
            });
            trace.tracks.len() - 1
        }
    };
    u32::try_from(position).ok().map(TrackId)
}
