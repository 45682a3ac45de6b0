//! The chain of a finding of a device: GPU, host thread, what it did.

use crate::cause::Cause;
use crate::device_proof::Proof;
use crate::links::{group, times};
use crate::piece::{Edge, PieceKind};
use crate::report::Link;
use crate::state_links;
use crate::stats::{Distribution, round_share};
use crate::tally::{Sum, Tally};
use crate::timeline::Timeline;
use gpustall_trace::Nanos;
use std::cmp::Reverse;

/// No more names than this stand under a link.
const MAX_NAMES: usize = 3;

/// A name below this share of the loss does not stand in the chain.
const SMALLEST_NAME: f64 = 0.05;

/// The link of the device itself, which every other one hangs on.
pub(crate) fn device(names: &[String], cause: Cause, stalls: &Distribution, lost: Nanos) -> Link {
    let what = match cause {
        Cause::TransferPageable | Cause::TransferBandwidth => "copied and did not compute",
        Cause::CommExposed | Cause::CommStraggler => "communicated and did not compute",
        Cause::GpuDependency | Cause::GpuLaunchLatency => "had work and did not begin it",
        _ => "had nothing to do",
    };
    Link {
        depth: 0,
        who: group(names),
        what: what.to_owned(),
        ns: lost.get(),
        share: 1.0,
        edge: Edge::Observed,
        evidence: times(stalls),
    }
}

/// The links below the device's, where no wait or phase says more.
pub(crate) fn links(
    timeline: &Timeline<'_>,
    tally: &Tally,
    (lost, stalls): (Nanos, u64),
    (proof, held_up): (&Proof, bool),
) -> Vec<Link> {
    let mut links = Vec::new();
    for (kind, sum) in tally.largest(|_| true) {
        let names: Vec<String> = sum.by_thread.keys().cloned().collect();
        let who = match (kind, names.is_empty()) {
            (_, false) => group(&names),
            (PieceKind::Copy, _) => "a copy".to_owned(),
            (PieceKind::Collective, _) => "a collective".to_owned(),
            (PieceKind::Straggler, _) => "another device".to_owned(),
            (PieceKind::Submitted, _) => "the next kernel".to_owned(),
            _ => "the host".to_owned(),
        };
        links.push(Link {
            depth: 1,
            who,
            what: match held_up {
                true if names.len() > 1 => "were held up".to_owned(),
                true => "was held up".to_owned(),
                false => what(kind, names.len() > 1).to_owned(),
            },
            ns: sum.ns.get(),
            share: round_share(sum.ns.share_of(lost)),
            edge: sum.edge(),
            evidence: proof.of(kind, stalls),
        });
        links.extend(names_of(timeline, kind, sum, lost));
        if held_up || matches!(kind, PieceKind::BetweenLaunches | PieceKind::NoLaunch) {
            let who = links.iter().rfind(|link| link.depth == 1);
            let who = who.map_or(String::new(), |link| link.who.clone());
            let below = state_links::links(timeline, &sum.states, (2, &who, sum.ns), lost);
            links.extend(below);
        }
    }
    links
}

/// What a thread, or several, or the device did, as it reads after its name.
fn what(kind: PieceKind, several: bool) -> &'static str {
    match kind {
        PieceKind::Call if several => "were in driver calls",
        PieceKind::Refill if several => "launched again after they had waited for the device",
        PieceKind::Copy => "that the next kernel needed",
        PieceKind::Collective => "ran alone",
        PieceKind::Straggler => "had not begun the collective",
        PieceKind::Submitted => "was submitted and did not run",
        PieceKind::Call => "was in a driver call",
        PieceKind::Staging => "copied into pinned memory",
        PieceKind::Compiling => "compiled device code",
        PieceKind::BetweenLaunches => "launched too slowly",
        PieceKind::NoLaunch => "launched nothing",
        PieceKind::Refill => "launched again after it had waited for the device",
        _ => "did nothing that was recorded",
    }
}

/// Which copies, calls or phases most of it was in.
fn names_of(timeline: &Timeline<'_>, kind: PieceKind, sum: &Sum, lost: Nanos) -> Vec<Link> {
    let mut names: Vec<(&str, Nanos)> = sum
        .by_name
        .iter()
        .map(|(&name, &ns)| (timeline.trace.text(name), ns))
        .collect();
    names.sort_by_key(|&(name, ns)| (Reverse(ns), name));
    let large = |&&(_, ns): &&(&str, Nanos)| ns.share_of(lost) >= SMALLEST_NAME;
    let phase = matches!(
        kind,
        PieceKind::BetweenLaunches
            | PieceKind::NoLaunch
            | PieceKind::Refill
            | PieceKind::Unrecorded
    );
    let link = |&(name, ns): &(&str, Nanos)| Link {
        depth: 2,
        who: if phase {
            "in".to_owned()
        } else {
            String::new()
        },
        what: format!("`{}`", short(name)),
        ns: ns.get(),
        share: round_share(ns.share_of(lost)),
        edge: Edge::Observed,
        evidence: String::new(),
    };
    names
        .iter()
        .filter(large)
        .take(MAX_NAMES)
        .map(link)
        .collect()
}

/// A name cut to a length that a line holds.
fn short(name: &str) -> String {
    const LONGEST: usize = 60;
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_owned(),
    }
}
