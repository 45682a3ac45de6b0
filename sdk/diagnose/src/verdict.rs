//! The result in one sentence.

use crate::cause::Cause;
use crate::links::percent;
use crate::piece::PieceKind;
use crate::report::{Finding, Link, Report, Unfinished};
use crate::steps::MIN_STEPS;
use gpustall_trace::Nanos;

/// The verdict on a report that has everything else.
pub(crate) fn verdict(report: &Report, complete_steps: usize, judges: bool) -> String {
    let name = match report.name.as_str() {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let hang = report.unfinished.iter().find(|open| open.hang).map(hang);
    if !judges {
        let kind = if report.evaluation {
            "evaluation"
        } else {
            "training"
        };
        let steps = match complete_steps {
            0 => format!("no complete {kind} step"),
            1 => format!("1 complete {kind} step"),
            n => format!("{n} complete {kind} steps"),
        };
        let hang = hang.map_or(String::new(), |hang| format!("; {hang}"));
        return format!("{name}too little to judge: {steps}, {MIN_STEPS} are needed{hang}");
    }
    if let Some(hang) = hang {
        return format!("{name}{hang}");
    }
    // What went wrong comes before what was slow: a worker that is gone takes its batches along.
    let name = match report.faults.first() {
        Some(fault) if fault.message.starts_with(&fault.thread) => {
            format!("{name}{}; ", fault.message)
        }
        Some(fault) => format!("{name}{}: {}; ", fault.thread, fault.message),
        None => name,
    };
    match largest(&report.findings) {
        Some((finding, _)) if finding.cause.is_held_up() => format!(
            "{name}{} of the window is {}; {}",
            percent(whole_share(report, finding)),
            noun(finding.cause),
            held_up_path(report, finding)
        ),
        Some((finding, _)) => format!(
            "{name}{} of the window is {}; {}",
            percent(whole_share(report, finding)),
            noun(finding.cause),
            path(report, finding)
        ),
        None => {
            let compute = report
                .breakdown
                .get(crate::cause::COMPUTE)
                .copied()
                .unwrap_or(0.0);
            let bound = match has_device(report) {
                true => "compute-bound",
                false => "healthy",
            };
            let none = match has_device(report) {
                true => "no cause that can be mended takes 5 %",
                false => "no cause takes 5 %",
            };
            format!(
                "{name}{bound}: {} of the window is compute, {none}",
                percent(compute)
            )
        }
    }
}

/// The largest finding of the cause that takes the most over all its findings, and that share.
fn largest(findings: &[Finding]) -> Option<(&Finding, f64)> {
    let share = |cause: Cause| -> f64 {
        let same = findings.iter().filter(|other| other.cause == cause);
        same.map(|other| other.share).sum()
    };
    let mut largest: Option<(&Finding, f64)> = None;
    for finding in findings {
        let share = share(finding.cause);
        if largest.is_none_or(|(_, most)| share > most) {
            largest = Some((finding, share));
        }
    }
    largest
}

/// The chain of a thread that was held up: the thread, and by what.
fn held_up_path(report: &Report, finding: &Finding) -> String {
    let base = u32::from(has_device(report));
    let who = finding.chain.iter().find(|link| link.depth == base);
    let who = who.map_or("the thread that trains", |link| link.who.as_str());
    let below = finding.chain.iter().filter(|link| link.depth > base);
    let state = below.max_by_key(|link| link.ns);
    let is = match plural(who) {
        true => "are",
        false => "is",
    };
    match state {
        Some(link) if !link.evidence.is_empty() => {
            format!("{who} {is} {}: {}", link.what, link.evidence)
        }
        Some(link) => format!("{who} {is} {}", link.what),
        None => format!("{who} {is} held up"),
    }
}

/// What the sentence names: data waits as a whole, of which some may be known more finely than
/// others; otherwise the finding.
fn whole_share(report: &Report, finding: &Finding) -> f64 {
    if !finding.cause.is_batch() {
        let same = report
            .findings
            .iter()
            .filter(|other| other.cause == finding.cause);
        return same.map(|other| other.share).sum();
    }
    let waits = Cause::ALL.iter().filter(|cause| cause.is_batch());
    waits
        .filter_map(|cause| report.breakdown.get(cause.id()))
        .sum()
}

fn hang(open: &Unfinished) -> String {
    format!(
        "{} had been in {} for {} when the recording ended",
        open.thread,
        open.what,
        Nanos::new(open.for_ns)
    )
}

fn noun(cause: Cause) -> &'static str {
    match cause {
        cause if cause.is_batch() => "data wait",
        Cause::HostPreempted => "the trainer waiting for a CPU",
        Cause::HostBlocked => "the trainer being blocked",
        Cause::DataStartup => "waiting for the first batch of an epoch",
        Cause::HostMetrics => "metrics work",
        Cause::HostCheckpoint => "checkpointing",
        Cause::TransferPageable => "copies of pageable memory",
        Cause::TransferStaging => "staging copies in pinned memory",
        Cause::TransferBandwidth => "copies and memsets",
        Cause::HostLaunchBound => "waiting for launches, the host being slower than the device",
        Cause::HostCompute => "host work that no phase and no launch divides",
        Cause::HostCompile => "compiling and loading kernels",
        Cause::Host => "waiting for the host",
        Cause::SyncReadback => "the device running empty as the host waits for it",
        Cause::AllocDevice => "allocating and freeing memory",
        Cause::GpuDependency => "waiting for another stream",
        Cause::GpuLaunchLatency => "submitted kernels that have not begun",
        Cause::CommExposed => "communication that nothing hides",
        Cause::CommStraggler => "waiting for the slowest device",
        _ => "not explained by anything recorded",
    }
}

/// Whether a device was recorded, rather than threads that stand for it.
pub(crate) fn has_device(report: &Report) -> bool {
    report.devices.iter().any(|device| device.tid.is_none())
}

/// The chain of a finding, from its links.
fn path(report: &Report, finding: &Finding) -> String {
    // The first link is the device's, where one was recorded.
    let base = u32::from(has_device(report));
    let own = |depth: u32| {
        let links = finding.chain.iter().filter(move |link| link.depth == depth);
        links.max_by_key(|link| link.ns)
    };
    if base > 0 && !finding.cause.is_data() {
        return device_path(finding, own(1), own(2));
    }
    let trainer = own(base).map_or("the trainer", |link| link.who.as_str());
    if !finding.cause.is_data() {
        let place = own(base).map_or("", |link| link.what.as_str());
        return format!("{trainer} {} it {place}", verb(trainer, "spend"));
    }
    let waits = verb(trainer, "wait");
    let themselves = match plural(trainer) {
        true => "themselves",
        false => "itself",
    };
    let makes = format!(
        "{trainer} {} the batches {themselves}",
        verb(trainer, "make")
    );
    let deepest = |depth: u32| {
        let links = finding
            .chain
            .iter()
            .filter(move |link| link.depth == base + depth);
        links.max_by_key(|link| link.ns)
    };
    let Some(first) = deepest(1) else {
        return format!("{trainer} {waits} in next()");
    };
    match deepest(2) {
        Some(_) if first.what == "making the batch" && finding.cause == Cause::DataContended => {
            let held = deepest(3).map_or("", |link| link.evidence.as_str());
            let held = match held.split_once(';').map_or(held, |(held, _)| held) {
                held if held.contains(" held by ") => format!(" ({held})"),
                _ => String::new(),
            };
            format!("{trainer} {waits} for {}, short of CPUs{held}", first.who)
        }
        Some(stage) if first.what == "making the batch" => {
            let busy = match stage.what.as_str() {
                what if what == PieceKind::Idle.to_string() => {
                    "in nothing that was recorded".to_owned()
                }
                what => format!("in {what}"),
            };
            let who = &first.who;
            let spend = verb(who, "spend");
            let state = match deepest(3) {
                Some(state) if names_state(finding.cause) => format!(", {}", state.what),
                _ => String::new(),
            };
            format!("{trainer} {waits} for {who}, which {spend} it {busy}{state}")
        }
        _ if first.who == "unknown worker" && finding.evidence.get("in_process") == Some(&0.0) => {
            format!("{trainer} {waits} for workers, which of them is not recorded")
        }
        _ if first.who == "unknown worker" && base > 0 => {
            format!("{trainer} {waits} in next(); who makes the batches is not recorded")
        }
        _ if first.who == "unknown worker" => {
            format!("which worker {trainer} {waits} for is not known")
        }
        _ if finding.evidence.get("in_process") == Some(&1.0)
            && first.what == PieceKind::Next.to_string() =>
        {
            format!("{makes} in next(), in process, without a worker")
        }
        _ if finding.evidence.get("in_process") == Some(&1.0) => {
            format!("{makes} in next(), mostly in {}", first.what)
        }
        _ => format!("{trainer} {} it in {}", verb(trainer, "spend"), first.what),
    }
}

/// Whether what the thread was blocked on, or did, is the cause.
fn names_state(cause: Cause) -> bool {
    matches!(cause, Cause::DataIo | Cause::DataMemory | Cause::DataLock)
}

/// Whether [`group`](crate::links::group) named several threads.
fn plural(who: &str) -> bool {
    let counted = who.split_once(' ').is_some_and(|(count, rest)| {
        let several = rest.starts_with("threads") || rest == "GPUs";
        several && count.parse::<u64>().is_ok()
    });
    counted || who.contains(" and ")
}

/// What one does, or several do.
fn verb(who: &str, verb: &str) -> String {
    match plural(who) {
        true => verb.to_owned(),
        false => format!("{verb}s"),
    }
}

/// The chain of a finding of a device: the device, what its thread did, and where.
fn device_path(finding: &Finding, did: Option<&Link>, within: Option<&Link>) -> String {
    let device = finding
        .chain
        .first()
        .map_or("the device", |link| link.who.as_str());
    let Some(did) = did else {
        return format!("{device} {} it so", verb(device, "spend"));
    };
    let within = match within {
        Some(link) if link.share >= 0.5 => {
            format!(", mostly {}", format!("{} {}", link.who, link.what).trim())
        }
        _ => String::new(),
    };
    let proof = match did.evidence.as_str() {
        "" => String::new(),
        evidence => format!(" ({evidence})"),
    };
    format!("{} {}{proof}{within}", did.who, did.what)
}
