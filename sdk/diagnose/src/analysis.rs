//! The diagnosis from end to end.

use crate::cause::COMPUTE;
use crate::charge::{Account, charge};
use crate::finding::Run;
use crate::job;
use crate::report::{Device, Loader, REPORT_SCHEMA, Report};
use crate::stats::round_share;
use crate::steps::{MIN_STEPS, tell_apart};
use crate::timeline::Timeline;
use crate::window::{Trainer, Window, window};
use crate::workers::shortage;
use crate::{evidence, loaders, verdict, workers};
use gpustall_trace::{Interval, Nanos, State, Trace, TraceTime};
use std::collections::BTreeMap;

/// The report on a trace.
pub(crate) fn report(trace: &Trace) -> Report {
    let timeline = Timeline::of(trace);
    let (window, trainers) = window(&timeline);
    let accounts = charge(&timeline, &window, &trainers);
    let steps = tell_apart(&trainers, &accounts);
    // Without a window, what was recorded is still listed.
    let judged = match window.span.is_empty() {
        true => Interval::new(TraceTime::ZERO, timeline.end),
        false => window.span,
    };
    let recorded = if window.span.is_empty() {
        judged.len()
    } else {
        window.len()
    };
    let loaders = loaders::loaders(&timeline, judged);
    let workers = workers::workers(&timeline, judged, recorded);
    let device: Nanos = trainers.iter().map(|_| window.len()).sum();
    let charges = charges(&accounts);
    let run = Run {
        timeline: &timeline,
        trainers: &trainers,
        accounts: &accounts,
        steps: &steps,
        loaders: &loaders,
        workers: &workers,
        device,
    };
    let findings = if steps.count >= MIN_STEPS {
        run.findings()
    } else {
        Vec::new()
    };
    let loaders: Vec<Loader> = loaders.into_iter().map(|facts| facts.row).collect();
    let mut report = Report {
        schema: REPORT_SCHEMA,
        name: trace.meta.name.clone(),
        verdict: String::new(),
        evidence: evidence::evidence(&timeline, &loaders),
        finished: trace.meta.state == State::Finished,
        window_start_ns: window.span.start.as_nanos(),
        window_ns: window.len().get(),
        paused_ns: (window.span.len() - window.len()).get(),
        device_ns: device.get(),
        evaluation: window.evaluation && !trainers.is_empty(),
        steps: steps.steady,
        first_steps: steps.first,
        devices: devices(&trainers, &accounts, &window),
        breakdown: shares(&charges, device),
        charges_ns: charges,
        findings,
        loaders,
        workers: workers.into_iter().map(|(_, worker)| worker).collect(),
        phases: job::phases(&timeline, &trainers, judged),
        faults: job::faults(&timeline, &trainers),
        unfinished: job::unfinished(&timeline, &trainers),
        lost_events: lost(trace),
        notes: trace.meta.notes.clone(),
    };
    add_notes(&mut report, trace.meta.cpus);
    report.verdict = verdict::verdict(&report, steps.count);
    report
}

/// Time by cause, compute included. They add up to the window of every trainer.
fn charges(accounts: &[Account]) -> BTreeMap<String, u64> {
    let mut charges: BTreeMap<&str, Nanos> = BTreeMap::new();
    for account in accounts {
        *charges.entry(COMPUTE).or_default() += account.compute;
        for stall in &account.stalls {
            *charges.entry(stall.cause.id()).or_default() += stall.lost;
        }
    }
    charges
        .into_iter()
        .map(|(cause, ns)| (cause.to_owned(), ns.get()))
        .collect()
}

/// Charges as shares that add up to 1: the largest takes what rounding left over.
fn shares(charges: &BTreeMap<String, u64>, device: Nanos) -> BTreeMap<String, f64> {
    if device == Nanos::ZERO {
        return BTreeMap::new();
    }
    let share = |ns: u64| round_share(Nanos::new(ns).share_of(device));
    let largest = charges
        .iter()
        .max_by_key(|&(_, &ns)| ns)
        .map(|(cause, _)| cause);
    let others = charges.iter().filter(|&(cause, _)| Some(cause) != largest);
    let others: f64 = others.map(|(_, &ns)| share(ns)).sum();
    let of = |(cause, &ns): (&String, &u64)| {
        let rest = Some(cause) == largest;
        (
            cause.clone(),
            if rest {
                round_share(1.0 - others)
            } else {
                share(ns)
            },
        )
    };
    charges.iter().map(of).collect()
}

fn devices(trainers: &[Trainer], accounts: &[Account], window: &Window) -> Vec<Device> {
    let device = |(trainer, account): (&Trainer, &Account)| {
        let compute = round_share(account.compute.share_of(window.len()));
        Device {
            name: trainer.name.clone(),
            tid: Some(trainer.tid.0),
            compute,
            exposed_comm: None,
            exposed_copy: None,
            idle: round_share(1.0 - compute),
        }
    };
    trainers.iter().zip(accounts).map(device).collect()
}

fn lost(trace: &Trace) -> BTreeMap<String, u64> {
    let lost = trace
        .lost_by_source()
        .into_iter()
        .filter(|&(_, total)| total > 0);
    lost.map(|(source, total)| (source.to_owned(), total))
        .collect()
}

fn add_notes(report: &mut Report, cpus: u32) {
    if let Some(short) = shortage(report.workers.iter(), report.devices.len(), cpus) {
        report.notes.push(format!(
            "{}: what counts as compute may be waiting for a CPU too. Try .num_workers({}).",
            short.describe(),
            short.fitting
        ));
    }
    if !report.lost_events.is_empty() {
        let sources: Vec<String> = report
            .lost_events
            .iter()
            .map(|(source, n)| format!("{n} from {source}"))
            .collect();
        report.notes.push(format!(
            "Events were lost ({}): the window is incomplete, what they would have shown is \
             charged as if it had not been.",
            sources.join(", ")
        ));
    }
    if report.paused_ns > 0 {
        let paused = Nanos::new(report.paused_ns);
        report.notes.push(format!(
            "Recording was paused for {paused}, which is not counted."
        ));
    }
}
