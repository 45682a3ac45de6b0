//! The result in one sentence.

use crate::cause::Cause;
use crate::chain::PieceKind;
use crate::links::percent;
use crate::report::{Finding, Report, Unfinished};
use crate::steps::MIN_STEPS;
use gpustall_trace::Nanos;

/// The verdict on a report that has everything else.
pub(crate) fn verdict(report: &Report, complete_steps: usize) -> String {
    let name = match report.name.as_str() {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let hang = report.unfinished.iter().find(|open| open.hang).map(hang);
    if complete_steps < MIN_STEPS {
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
    match report.findings.first() {
        Some(finding) => format!(
            "{name}{} of the window is {}; {}",
            percent(whole_share(report, finding)),
            noun(finding.cause),
            path(finding)
        ),
        None => {
            let compute = report
                .breakdown
                .get(crate::cause::COMPUTE)
                .copied()
                .unwrap_or(0.0);
            format!(
                "{name}healthy: {} of the window is compute, no cause takes 5 %",
                percent(compute)
            )
        }
    }
}

/// What the sentence names: data waits as a whole, of which some may be known more finely than
/// others; otherwise the finding.
fn whole_share(report: &Report, finding: &Finding) -> f64 {
    let waits = [Cause::Data, Cause::DataCompute];
    if !waits.contains(&finding.cause) {
        return finding.share;
    }
    let of = |cause: &Cause| report.breakdown.get(&cause.to_string());
    waits.iter().filter_map(of).sum()
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
        Cause::Data | Cause::DataCompute => "data wait",
        Cause::DataStartup => "waiting for the first batch of an epoch",
        Cause::HostMetrics => "metrics work",
        Cause::HostCheckpoint => "checkpointing",
    }
}

/// The chain of a finding, from its links.
fn path(finding: &Finding) -> String {
    let trainer = finding
        .chain
        .first()
        .map_or("the trainer", |link| link.who.as_str());
    if !finding.cause.is_data() {
        let place = finding.chain.first().map_or("", |link| link.what.as_str());
        return format!("{trainer} spends it {place}");
    }
    let deepest = |depth: u32| {
        let links = finding.chain.iter().filter(move |link| link.depth == depth);
        links.max_by_key(|link| link.ns)
    };
    let Some(first) = deepest(1) else {
        return format!("{trainer} waits in next()");
    };
    match deepest(2) {
        Some(stage) if first.what == "making the batch" => {
            let busy = match stage.what.as_str() {
                what if what == PieceKind::Idle.to_string() => {
                    "in nothing that was recorded".to_owned()
                }
                what => format!("in {what}"),
            };
            let who = &first.who;
            let spend = if who.contains(" and ") || who.contains(" threads ") {
                "spend"
            } else {
                "spends"
            };
            format!("{trainer} waits for {who}, which {spend} it {busy}")
        }
        _ if first.who == "unknown worker" => {
            format!("which worker {trainer} waits for is not known")
        }
        _ if finding.evidence.get("in_process") == Some(&1.0) => {
            format!(
                "{trainer} makes the batches itself in next(), mostly in {}",
                first.what
            )
        }
        _ => format!("{trainer} spends it in {}", first.what),
    }
}
