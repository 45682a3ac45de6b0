//! The result in one sentence.

mod path;

use crate::cause::{Cause, Severity};
use crate::feeders::HandedOn;
use crate::links::percent;
use crate::report::{Finding, Report, Unfinished};
use crate::steps::{MIN_LONG_STEPS, MIN_LONG_TIME, MIN_STEPS};
use gpustall_trace::Nanos;

/// With less compute than this and no finding, a run is not called healthy: many causes have a little.
const HEALTHY: f64 = 0.8;

/// What the sentence depends on and is not in a report.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Who hands batches on to what trains, where it is not known what that waited for them.
    pub(crate) handed_on: Option<HandedOn>,
    /// Share of the device time in which calls were that the end of the run cut off.
    pub(crate) cut_off: f64,
    /// How many kernels were launched, where none was recorded at any time.
    pub(crate) unseen: Option<u64>,
}

/// The verdict on a report that has everything else.
pub(crate) fn verdict(
    report: &Report,
    complete_steps: usize,
    judges: bool,
    beside: &Beside,
) -> String {
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
        return format!(
            "{name}too little to judge: {steps}, {MIN_STEPS} are needed, or {MIN_LONG_STEPS} that \
             take {MIN_LONG_TIME} with one cause for most of what is lost{hang}"
        );
    }
    if let Some(hang) = hang {
        return format!("{name}{hang}");
    }
    // What went wrong comes before what was slow: a worker that is gone takes its batches along.
    let mut faults = report.faults.iter();
    let name = match faults.find(|fault| !fault.ended_run) {
        Some(fault) if fault.message.starts_with(&fault.thread) => {
            format!("{name}{}; ", fault.message)
        }
        Some(fault) => format!("{name}{}: {}; ", fault.thread, fault.message),
        None => name,
    };
    if let Some((finding, share)) = main(report, beside.cut_off) {
        let cut = Severity::of(beside.cut_off).filter(|_| finding.cause.is_batch());
        let ended = report.faults.iter().all(|fault| fault.ended_run);
        let what = match ended {
            true => "the call in which the run ended",
            false => "calls that failed",
        };
        let cut = cut.map_or(String::new(), |_| {
            format!(", beside {what} ({})", percent(beside.cut_off))
        });
        return format!(
            "{name}{} of the window is {}{}{}{cut}; {}",
            percent(share),
            noun(finding.cause),
            at_loader(report, finding),
            once(finding, share).unwrap_or_default(),
            path::path(finding, has_device(report))
        );
    }
    let compute = report.breakdown.get(crate::cause::COMPUTE);
    let compute = compute.copied().unwrap_or(0.0);
    let whole = percent(compute);
    if let Some(handed_on) = &beside.handed_on {
        return format!(
            "{name}{whole} of the window is compute, or waiting for the batches that {} hands on; it \
             was in next() for {} of the window",
            handed_on.thread,
            percent(handed_on.in_next)
        );
    }
    let cut = match Severity::of(beside.cut_off) {
        Some(_) => ", but for the call in which the run ended",
        None => "",
    };
    if let Some(launches) = beside.unseen {
        return format!(
            "{name}what the device did is not known: {launches} kernels were launched and none was recorded; \
             {whole} of the window is compute of the thread that trains, or its wait for the device{cut}"
        );
    }
    match has_device(report) {
        _ if compute + beside.cut_off < HEALTHY => {
            format!(
                "{name}no single cause: {whole} of the window is compute, no cause takes 5 %{cut}"
            )
        }
        true => format!(
            "{name}compute-bound: {whole} of the window is compute, no cause that can be mended takes 5 %{cut}"
        ),
        false => {
            format!("{name}healthy: {whole} of the window is compute, no cause takes 5 %{cut}")
        }
    }
}

/// The finding that the sentence is about, and the share of the window that it names: of what takes the most
/// over all loaders (data waits as a whole, else one cause), the largest at the loader with the most of it.
fn main(report: &Report, cut_off: f64) -> Option<(&Finding, f64)> {
    let findings = report.findings.iter();
    let share = |finding: &&Finding| whole_share(report, finding, cut_off);
    let most = findings.max_by(|a, b| {
        share(a)
            .total_cmp(&share(b))
            .then(a.lost_ns.cmp(&b.lost_ns))
    })?;
    let same = || report.findings.iter().filter(|of| goes_with(of, most));
    let of_loader = |of: &&Finding| {
        let there = same().filter(|other| is_at(other, of));
        (there.map(|other| other.lost_ns).sum::<u64>(), of.lost_ns)
    };
    let main = same().max_by_key(of_loader)?;
    Some((main, share(&main)))
}

/// What has at least this share of what is lost in one stall happened once.
const ONCE: f64 = 0.9;

/// When it was, where nearly all of a share of the window is lost once: `, once (171 ms in epoch 0 step 0)`.
fn once(finding: &Finding, share: f64) -> Option<String> {
    let worst = finding.worst.first()?;
    let whole = share / finding.share.max(f64::MIN_POSITIVE) * finding.lost_ns as f64;
    if (worst.lost_ns as f64) < whole * ONCE {
        return None;
    }
    let place = match worst.epoch.zip(worst.step) {
        Some((epoch, step)) => format!("in epoch {epoch} step {step}"),
        None => format!("at {}", Nanos::new(worst.start_ns)),
    };
    Some(format!(", once ({} {place})", Nanos::new(worst.lost_ns)))
}

/// Whether both are waits for batches, or of one cause.
fn goes_with(one: &Finding, other: &Finding) -> bool {
    one.cause == other.cause || (one.cause.is_batch() && other.cause.is_batch())
}

/// Whether both are at the same loader.
fn is_at(one: &Finding, other: &Finding) -> bool {
    one.loader == other.loader && one.kind == other.kind
}

/// Of several loaders, how much is at the one of this finding; and whether that one only validates.
fn at_loader(report: &Report, finding: &Finding) -> String {
    let same = || report.findings.iter().filter(|of| goes_with(of, finding));
    let Some(loader) = &finding.loader else {
        return String::new();
    };
    let noun = finding.loader_noun();
    if same().all(|of| is_at(of, finding)) {
        // A run that only validates has no other one to be told from.
        return match noun.is_empty() || report.evaluation {
            true => String::new(),
            false => format!(" at {noun}`{loader}`"),
        };
    }
    let share: f64 = same()
        .filter(|of| is_at(of, finding))
        .map(|of| of.share)
        .sum();
    format!(" ({} at {noun}`{loader}`)", percent(share))
}

/// What the sentence names: data waits as a whole, of which some may be known more finely than
/// others, and without calls that were cut off; otherwise the finding.
fn whole_share(report: &Report, finding: &Finding, cut_off: f64) -> f64 {
    if !finding.cause.is_batch() {
        let same = report
            .findings
            .iter()
            .filter(|other| other.cause == finding.cause);
        return same.map(|other| other.share).sum();
    }
    let waits = Cause::ALL.iter().filter(|cause| cause.is_batch());
    let all: f64 = waits
        .filter_map(|cause| report.breakdown.get(cause.id()))
        .sum();
    (all - cut_off).max(finding.share)
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
