//! The kernel's end of a chain: what the thread of a link did, as the scheduler saw it.

use crate::culprits::{Culprit, culprits};
use crate::links::percent;
use crate::piece::Edge;
use crate::report::Link;
use crate::rules::BlockedOn;
use crate::stats::round_share;
use crate::threads::{StateSums, What, Who};
use crate::timeline::Timeline;
use gpustall_trace::Nanos;
use gpustall_trace::vocab::state;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A link below this share of the loss has no links of states under it.
pub(crate) const SMALLEST_STATE: f64 = 0.05;

/// What the links of states say.
pub(crate) const RUNNING: &str = "running";
/// The thread waited for a CPU.
pub(crate) const READY: &str = "ready to run, without a CPU";
/// How links of blocked time begin.
pub(crate) const BLOCKED: &str = "blocked ";
/// Nothing is known of the thread then.
pub(crate) const NOT_WATCHED: &str = "not watched";
/// The kernel was at work to give the thread memory.
pub(crate) const AT_WORK: &str = "at work for memory: page faults, mapping, reclaim";

/// No more others than this are named.
const MAX_OTHERS: usize = 3;

/// No more functions than this are named.
const MAX_FUNCTIONS: usize = 3;

/// The links under one of `who`, whose time `sums` divides: they add up to it.
pub(crate) fn links(
    timeline: &Timeline<'_>,
    sums: &StateSums,
    (depth, who, whole): (u32, &str, Nanos),
    lost: Nanos,
) -> Vec<Link> {
    if sums.known() == Nanos::ZERO || whole.share_of(lost) < SMALLEST_STATE {
        return Vec::new();
    }
    let mut rows: Vec<(String, Nanos, String)> = Vec::new();
    rows.push((READY.to_owned(), sums.waiting, holders(timeline, sums)));
    let mut blocked: Vec<(&What, &Nanos)> = sums.blocked.iter().collect();
    blocked.sort_by_key(|&(what, ns)| (Reverse(ns), what));
    let (named, rest) = blocked.split_at(blocked.len().min(MAX_OTHERS));
    for &(what, &ns) in named {
        rows.push((
            blocked_in(timeline, what),
            ns,
            proof(timeline, sums, what.0),
        ));
    }
    let rest: Nanos = rest.iter().map(|&(_, &ns)| ns).sum();
    rows.push(("blocked otherwise".to_owned(), rest, String::new()));
    rows.push((AT_WORK.to_owned(), sums.memory, memory(timeline, sums)));
    rows.push((RUNNING.to_owned(), sums.running, functions(timeline, sums)));
    let known: Nanos = rows.iter().map(|&(_, ns, _)| ns).sum();
    rows.push((NOT_WATCHED.to_owned(), whole - known, String::new()));
    rows.retain(|&(_, ns, _)| ns > Nanos::ZERO);
    rows.sort_by_key(|&(_, ns, _)| Reverse(ns));
    let edge = match sums.inferred {
        Nanos::ZERO => Edge::Observed,
        _ => Edge::Inferred,
    };
    let link = |(what, ns, evidence): (String, Nanos, String)| Link {
        depth,
        who: who.to_owned(),
        what,
        ns: ns.get(),
        share: round_share(ns.share_of(lost)),
        edge,
        evidence,
    };
    rows.into_iter().map(link).collect()
}

/// `blocked in file read (folio_wait_bit_common)`.
pub(crate) fn blocked_in(timeline: &Timeline<'_>, &(_, class, function): &What) -> String {
    let class = match timeline.trace.text(class) {
        // The state of the thread, where its wait has no class: not the wait class `sleep`.
        state::SLEEPING | state::UNINTERRUPTIBLE => "something that was not recorded",
        class => class,
    };
    match function.map(|function| timeline.trace.text(function)) {
        Some(function) if !function.is_empty() => format!("blocked in {class} ({function})"),
        _ => format!("blocked in {class}"),
    }
}

/// Who had the CPU, the most first.
pub(crate) fn holders(timeline: &Timeline<'_>, sums: &StateSums) -> String {
    let others = ranked(timeline, &sums.held_by, sums.waiting);
    let cpu = match sums.cpus.iter().collect::<Vec<_>>().as_slice() {
        [] => "the CPU was".to_owned(),
        [(cpu, _)] => format!("CPU {cpu}"),
        cpus => format!("{} CPUs", cpus.len()),
    };
    let mut parts = Vec::new();
    if !others.is_empty() {
        let inferred = match sums.held_inferred.share_of(sums.waiting) {
            share if share < SMALLEST_STATE => String::new(),
            share if share > 0.995 => " (inferred)".to_owned(),
            share => format!(" (inferred for {})", percent(share)),
        };
        parts.push(format!("{cpu} held by {others}{inferred}"));
    }
    match sums.preempted.share_of(sums.waiting) {
        share if share < 0.005 => parts.push("after wake-ups".to_owned()),
        share if share > 0.995 => parts.push("preempted".to_owned()),
        share => parts.push(format!(
            "preempted for {} of it, else after wake-ups",
            percent(share)
        )),
    }
    parts.join("; ")
}

/// Names with shares of `whole`, the most first, others counted.
fn ranked(timeline: &Timeline<'_>, of: &BTreeMap<Who, Nanos>, whole: Nanos) -> String {
    let culprits = culprits(timeline, of);
    let one = |of: &Culprit| format!("{} {}", of.label(), percent(of.ns.share_of(whole)));
    let mut parts: Vec<String> = culprits.iter().take(MAX_OTHERS).map(one).collect();
    if culprits.len() > MAX_OTHERS {
        parts.push(format!("{} more", culprits.len() - MAX_OTHERS));
    }
    parts.join(", ")
}

/// The numbers that stand at a wait for something of this kind.
fn proof(timeline: &Timeline<'_>, sums: &StateSums, on: BlockedOn) -> String {
    match on {
        BlockedOn::File if sums.requests > 0 => {
            let disks: Vec<&str> = sums
                .disks
                .iter()
                .map(|&disk| timeline.trace.text(disk))
                .collect();
            let on = match disks.is_empty() {
                true => String::new(),
                false => format!(" on {}", disks.join(", ")),
            };
            format!("{} requests, {}{on}", sums.requests, bytes(sums.bytes))
        }
        BlockedOn::Lock => {
            let locks = sums.blocked_in(|on| on == BlockedOn::Lock);
            match ranked(timeline, &sums.woken_by, locks) {
                by if by.is_empty() => by,
                by => format!("woken by {by}"),
            }
        }
        _ => String::new(),
    }
}

/// Faults of the threads while they were watched, and what the kernel did.
fn memory(timeline: &Timeline<'_>, sums: &StateSums) -> String {
    let totals = sums.tids.iter().filter_map(|&tid| timeline.kernel.get(tid));
    let totals: Vec<_> = totals.flat_map(|lane| &lane.totals).collect();
    let faults = totals.iter().filter_map(|of| of.minor_faults);
    let faults = faults.fold(0u64, u64::saturating_add);
    let longest = totals.iter().map(|of| of.watched.len()).max();
    let mut parts = Vec::new();
    if let Some(watched) = longest.filter(|&watched| faults > 0 && watched > Nanos::ZERO) {
        let rate = faults as f64 / watched.as_secs_f64();
        parts.push(format!(
            "{faults} minor faults while watched, {rate:.0} a second"
        ));
    }
    let functions = functions_of(timeline, sums, |class| class != Some("user"));
    if !functions.is_empty() {
        parts.push(functions);
    }
    parts.join("; ")
}

/// Of fewer samples than this it is not said what share a function has of them.
pub(crate) const MIN_SAMPLES: u64 = 5;

/// The functions that ran, of those that were sampled.
fn functions(timeline: &Timeline<'_>, sums: &StateSums) -> String {
    functions_of(timeline, sums, |_| true)
}

fn functions_of(
    timeline: &Timeline<'_>,
    sums: &StateSums,
    which: impl Fn(Option<&str>) -> bool,
) -> String {
    let all: u64 = sums.samples.values().sum();
    let mut functions: Vec<(&str, u64)> = sums
        .samples
        .iter()
        .filter(|((class, _), _)| which(class.map(|class| timeline.trace.text(class))))
        .map(|(&(_, function), &n)| (timeline.trace.text(function), n))
        .collect();
    functions.sort_by_key(|&(name, n)| (Reverse(n), name));
    let share = |n: u64| percent(n as f64 / all.max(1) as f64);
    let one = |&(name, n): &(&str, u64)| format!("{} {}", short(name), share(n));
    let named: Vec<String> = functions.iter().take(MAX_FUNCTIONS).map(one).collect();
    match named.is_empty() || all < MIN_SAMPLES {
        true => String::new(),
        false => format!("{} of {all} samples", named.join(", ")),
    }
}

/// A function's name cut to a length that a line holds.
pub(crate) fn short(name: &str) -> String {
    const LONGEST: usize = 40;
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_owned(),
    }
}

/// `4.20 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b:.0} B"),
    }
}
