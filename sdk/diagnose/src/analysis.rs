//! The diagnosis from end to end.

use crate::call_table::call_table;
use crate::cause::COMPUTE;
use crate::charge::{Account, charge};
use crate::device::{Collectives, Devices, phases};
use crate::feeders::{HandedOn, handed_on};
use crate::finding::Run;
use crate::job;
use crate::links::percent;
use crate::report::{Device, Loader, REPORT_SCHEMA, RULES, Report};
use crate::stats::round_share;
use crate::steps::{MIN_KERNELS, MIN_LONG_STEPS, MIN_LONG_TIME, MIN_STEPS, tell_apart};
use crate::thread_table::tables;
use crate::timeline::Timeline;
use crate::verdict::Beside;
use crate::waits::Waits;
use crate::window::{Trainer, Window, total, window};
use crate::workers::{Hand, shortage};
use crate::{ending, evidence, loaders, ranks, taken, verdict, workers};
use gpustall_trace::{Interval, Nanos, State, Trace, TraceTime};
use std::collections::BTreeMap;

/// A trace whose window is charged.
pub(crate) struct Charged<'a> {
    pub(crate) timeline: Timeline<'a>,
    pub(crate) devices: Devices,
    pub(crate) collectives: Collectives,
    pub(crate) window: Window,
    pub(crate) trainers: Vec<Trainer>,
    /// Threads that made batches in the window.
    pub(crate) workers: Vec<Hand>,
    pub(crate) waits: Waits,
    /// One for each device; where none was recorded, one for each trainer.
    pub(crate) accounts: Vec<Account>,
}

impl<'a> Charged<'a> {
    /// Charges the window of a trace.
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let timeline = Timeline::of(trace);
        let devices = Devices::of(&timeline);
        let (window, trainers) = window(&timeline, &devices);
        let (judged, recorded) = judged(&timeline, &window);
        let workers = workers::workers(&timeline, judged, recorded);
        let waits = Waits::of(&timeline, &window, &workers);
        let collectives = Collectives::of(&devices.list);
        let accounts = match devices.is_empty() {
            true => charge(&timeline, &waits, &trainers),
            false => devices.charge(&timeline, &window, &trainers, (&waits, &collectives)),
        };
        Self {
            timeline,
            devices,
            collectives,
            window,
            trainers,
            workers,
            waits,
            accounts,
        }
    }
}

/// What is said where no step is marked, but the loop is known.
const STEPS_OF_LOOP: &str = "No step is marked: they are counted from the calls of next() and of the \
    optimizer. A profiler that has a schedule marks them where step() is called.";

/// The report on a trace.
pub(crate) fn report(trace: &Trace) -> Report {
    let charged = Charged::of(trace);
    let Charged {
        timeline,
        devices,
        collectives,
        window,
        trainers,
        workers,
        waits,
        accounts,
    } = &charged;
    let steps = tell_apart(trainers, accounts, ranks::in_lockstep(trace));
    let starts: Vec<TraceTime> = (0..accounts.len())
        .map(|at| window.of_device(at).0.start)
        .collect();
    let waited = ranks::waited(devices, collectives, accounts, &starts);
    let (judged, _) = judged(timeline, window);
    let loaders = loaders::loaders(timeline, judged);
    let lengths = lengths(trainers, accounts, window);
    let device: Nanos = lengths.iter().copied().sum();
    let charges = charges(accounts);
    let run = Run {
        timeline,
        trainers,
        accounts,
        steps: &steps,
        loaders: &loaders,
        workers,
        waits,
        device,
        waited: &waited,
        judged,
        hang: job::hang(timeline),
    };
    let long = steps.count >= MIN_LONG_STEPS && steps.time >= MIN_LONG_TIME;
    let judges = steps.count >= MIN_STEPS
        || kernels(accounts) >= MIN_KERNELS
        || (long && has_main_cause(&charges));
    let findings = if judges { run.findings() } else { Vec::new() };
    let cut_off = run.cut_off();
    let starved = taken::note(&loaders);
    let loaders: Vec<Loader> = loaders.into_iter().map(|facts| facts.row).collect();
    let (threads, processes) = tables(timeline, trainers);
    let rows = phases::rows(timeline, devices, judged);
    let mut report = Report {
        schema: REPORT_SCHEMA,
        rules: RULES.to_owned(),
        name: trace.meta.name.clone(),
        verdict: String::new(),
        ended: String::new(),
        evidence: evidence::evidence(timeline, devices, &loaders),
        finished: trace.meta.state == State::Finished,
        window_start_ns: window.span.start.as_nanos(),
        window_ns: window.len().get(),
        paused_ns: (window.span.len() - window.len()).get(),
        device_ns: device.get(),
        evaluation: window.evaluation && !trainers.is_empty(),
        calls: call_table(timeline, &devices.calls, judged),
        steps: steps.steady,
        first_steps: steps.first,
        devices: device_rows(trainers, accounts, &lengths),
        ranks: ranks::rows(
            timeline,
            (devices, collectives),
            (trainers, &steps),
            &waited,
        ),
        breakdown: shares(&charges, device),
        charges_ns: charges,
        findings,
        loaders,
        workers: workers.iter().map(|hand| hand.row.clone()).collect(),
        threads,
        processes,
        phases: job::phases(timeline, trainers, judged, rows.as_ref()),
        outside_phases: rows.as_ref().map(|rows| rows.outside),
        several_phases: rows.as_ref().map(|rows| rows.several),
        untied: rows.as_ref().map(|rows| rows.unknown),
        faults: job::faults(timeline, trainers),
        unfinished: job::unfinished(timeline, trainers),
        lost_events: lost(trace),
        notes: trace.meta.notes.clone(),
    };
    let watched = trainers
        .iter()
        .all(|trainer| timeline.kernel.get(trainer.tid).is_some());
    add_notes(&mut report, job::lost_pipeline(trace), watched);
    report.notes.extend(starved.filter(|_| !watched));
    if timeline.steps_of_loop {
        report.notes.push(STEPS_OF_LOOP.to_owned());
    }
    report.notes.extend(ranks::notes(timeline));
    report.notes.extend(timeline.unseen.note());
    job::advise_on_hang(&mut report);
    let handed_on = handed_on(timeline, window, trainers).filter(|_| devices.is_empty());
    report.notes.extend(handed_on.as_ref().map(HandedOn::note));
    let handed_on = handed_on.filter(|of| !of.watched);
    report.ended = ending::ending(&report.faults, trace.meta.exit_code, report.finished);
    let beside = Beside {
        handed_on,
        cut_off,
        unseen: timeline.unseen.everywhere(),
    };
    report.verdict = verdict::verdict(&report, steps.count, judges, &beside);
    report
}

/// The stretch that tables are of, and how much of it was recorded: without a window, what was
/// recorded is still listed.
fn judged(timeline: &Timeline<'_>, window: &Window) -> (Interval, Nanos) {
    if window.span.is_empty() {
        let all = Interval::new(TraceTime::ZERO, timeline.end);
        return (all, all.len());
    }
    (window.span, window.len())
}

/// Time by cause, compute included. They add up to the accounts' lengths.
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

/// Whether one cause has more than half of what was lost.
fn has_main_cause(charges: &BTreeMap<String, u64>) -> bool {
    let lost = || charges.iter().filter(|(cause, _)| *cause != COMPUTE);
    let all = lost().fold(0, |all: u64, (_, &ns)| all.saturating_add(ns));
    let most = lost().map(|(_, &ns)| ns).max().unwrap_or_default();
    most > all / 2
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
                round_share(1.0 - others).max(0.0)
            } else {
                share(ns)
            },
        )
    };
    charges.iter().map(of).collect()
}

/// Kernels that were recorded in the window, of all devices.
fn kernels(accounts: &[Account]) -> u64 {
    let facts = accounts
        .iter()
        .filter_map(|account| account.device.as_ref());
    facts.map(|(_, facts)| facts.kernels.count).sum()
}

/// How much time each account charges: the window of a device, the stretch of a trainer.
fn lengths(trainers: &[Trainer], accounts: &[Account], window: &Window) -> Vec<Nanos> {
    let one = |(i, account): (usize, &Account)| match (&account.device, trainers.get(i)) {
        (Some((shares, _)), _) => shares.all(),
        (None, Some(trainer)) => total(&trainer.parts),
        _ => window.len(),
    };
    accounts.iter().enumerate().map(one).collect()
}

fn device_rows(trainers: &[Trainer], accounts: &[Account], lengths: &[Nanos]) -> Vec<Device> {
    let row = |(i, account): (usize, &Account)| {
        let length = lengths.get(i).copied().unwrap_or_default();
        device_row(trainers.get(i), account, length)
    };
    accounts.iter().enumerate().map(row).collect()
}

fn device_row(trainer: Option<&Trainer>, account: &Account, length: Nanos) -> Device {
    let share = |ns: Nanos| round_share(ns.share_of(length));
    let charges_ns = charges(std::slice::from_ref(account));
    let window_ns = length.get();
    match &account.device {
        Some((shares, _)) => Device {
            name: account.name.clone(),
            tid: None,
            window_ns,
            charges_ns,
            compute: share(shares.compute),
            exposed_comm: Some(share(shares.comm)),
            exposed_copy: Some(share(shares.copy)),
            idle: share(shares.idle),
        },
        None => Device {
            name: account.name.clone(),
            tid: trainer.map(|trainer| trainer.tid.0),
            window_ns,
            charges_ns,
            compute: share(account.compute),
            exposed_comm: None,
            exposed_copy: None,
            idle: match length {
                Nanos::ZERO => 0.0,
                _ => round_share(1.0 - share(account.compute)),
            },
        },
    }
}

fn lost(trace: &Trace) -> BTreeMap<String, u64> {
    let lost = trace
        .lost_by_source()
        .into_iter()
        .filter(|&(_, total)| total > 0);
    lost.map(|(source, total)| (source.to_owned(), total))
        .collect()
}

/// Whether nothing was lost but spans of the user's, which the charges do not rest on.
fn only_spans(lost: &BTreeMap<String, u64>) -> bool {
    lost.keys().all(|source| source == "user spans")
}

/// `watched`: whether the scheduler's events of all trainers are known.
fn add_notes(report: &mut Report, lost_pipeline: bool, watched: bool) {
    if let Some(share) = shortage(report.workers.iter()).filter(|_| !watched) {
        report.notes.push(format!(
            "The threads that make batches waited for a CPU for {} of their get and collate: what \
             counts as compute may be waiting for one too.",
            percent(share)
        ));
    }
    if !report.lost_events.is_empty() {
        let sources: Vec<String> = report
            .lost_events
            .iter()
            .map(|(source, n)| format!("{n} from {source}"))
            .collect();
        let sources = sources.join(", ");
        report.notes.push(if only_spans(&report.lost_events) {
            format!(
                "Some of the program's own spans and events were lost ({sources}); waits, stages, \
                 phases and steps are complete."
            )
        } else {
            format!(
                "Events were lost ({sources}): the window is incomplete, what they would have \
                 shown is charged as if it had not been."
            )
        });
    }
    if !report.unfinished.is_empty() && lost_pipeline {
        report.notes.push(
            "What was still open may have ended: its end may be among the events that were lost."
                .to_owned(),
        );
    }
    if report.paused_ns > 0 {
        let paused = Nanos::new(report.paused_ns);
        report.notes.push(format!(
            "Recording was paused for {paused}, which is not counted."
        ));
    }
}
