//! Stalls of one cause at one loader, grouped into findings.

use crate::cause::{Cause, Severity};
use crate::caveat::caveat;
use crate::chain::walk;
use crate::charge::{Account, Source, Stall};
use crate::culprits;
use crate::device_proof::Proof;
use crate::events::{LoaderKey, Role};
use crate::framework::Framework;
use crate::iterable;
use crate::kernel_advice::KernelSigns;
use crate::links::Chain;
use crate::loaders::LoaderFacts;
use crate::maker::{Maker, maker};
use crate::piece::PieceKind;
use crate::ranks::{self, Lateness, Waited};
use crate::remedy::{self, Facts};
use crate::report::{self, Finding};
use crate::sampling::Sampled;
use crate::stats::{Distribution, mean, round_share};
use crate::steps::{Prediction, Steps};
use crate::tally::{Tally, on_worker};
use crate::timeline::Timeline;
use crate::trainers;
use crate::turnover::Turnover;
use crate::uneven::SlowWorker;
use crate::waits::Waits;
use crate::window::Trainer;
use crate::workers::{Hand, shortage};
use crate::worth::{self, worth};
use gpustall_trace::{Interval, Nanos};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Every kernel takes about a microsecond or two to begin after the one before it. Launch latency
/// of which 95 % of the stalls are not longer than this many nanoseconds is a finding from
/// [`Severity::Medium`] on.
pub const KERNEL_START_NS: u64 = 5_000;

/// What makes stalls one finding: the cause and, for data causes, the loader.
pub(crate) type GroupKey = (Cause, Option<LoaderKey>);

/// Everything that a finding is made from.
pub(crate) struct Run<'a> {
    pub(crate) timeline: &'a Timeline<'a>,
    pub(crate) trainers: &'a [Trainer],
    pub(crate) accounts: &'a [Account],
    pub(crate) steps: &'a Steps,
    pub(crate) loaders: &'a [LoaderFacts],
    pub(crate) workers: &'a [Hand],
    pub(crate) waits: &'a Waits,
    /// Device time of the window.
    pub(crate) device: Nanos,
    /// What devices waited for others.
    pub(crate) waited: &'a [Waited],
    /// The stretch that tables are of.
    pub(crate) judged: Interval,
    /// How long a wait that did not end goes on at least to be a hang.
    pub(crate) hang: Nanos,
}

/// The group that a stall belongs to.
pub(crate) fn group_of(timeline: &Timeline<'_>, stall: &Stall) -> GroupKey {
    let loader = match stall.source {
        Source::Wait(i) if stall.cause.is_data() => timeline.waits.get(i).map(|wait| wait.loader),
        _ => None,
    };
    (stall.cause, loader)
}

impl Run<'_> {
    /// The findings, the largest loss first.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut groups: BTreeMap<GroupKey, Vec<&Stall>> = BTreeMap::new();
        let stalls = self.accounts.iter().flat_map(|account| &account.stalls);
        for stall in stalls.filter(|stall| !self.was_cut_off(stall)) {
            groups
                .entry(group_of(self.timeline, stall))
                .or_default()
                .push(stall);
        }
        let divided = self.divided(&groups);
        // Those that say whether there are too many workers come first, so that no other one says the
        // opposite.
        let of_cpus = |key: &GroupKey| matches!(key.0, Cause::HostPreempted | Cause::DataContended);
        let (first, others): (Vec<_>, Vec<_>) = groups.iter().partition(|(key, _)| of_cpus(key));
        let (mut findings, mut crowded) = (Vec::new(), false);
        for (key, stalls) in first.into_iter().chain(others) {
            let found = self.finding(*key, stalls, divided.contains(key), crowded);
            if let Some((finding, fewer)) = found {
                crowded |= fewer;
                findings.push(finding);
            }
        }
        findings.sort_by_key(|finding: &Finding| (Reverse(finding.lost_ns), finding.cause));
        worth::once(&mut findings);
        let late = |finding: &Finding| finding.cause == Cause::CommStraggler;
        let remedy = ranks::remedy(&self.lateness(), &findings);
        if let Some((remedy, finding)) = remedy.zip(findings.iter_mut().find(|of| late(of))) {
            finding.remedy = remedy;
        }
        findings
    }

    /// Who was late to collectives, and why.
    fn lateness(&self) -> Lateness {
        let names: Vec<String> = self.accounts.iter().map(|of| of.name.clone()).collect();
        ranks::lateness(self.waited, &names)
    }

    /// And whether it says that there are more workers than CPUs for them. `divided`: whether it is one
    /// although it costs less than others; `crowded`: whether another one says that.
    fn finding(
        &self,
        (cause, loader): GroupKey,
        stalls: &[&Stall],
        divided: bool,
        crowded: bool,
    ) -> Option<(Finding, bool)> {
        let lost: Nanos = stalls.iter().map(|stall| stall.lost).sum();
        let share = lost.share_of(self.device);
        let severity = Severity::of(share).or(divided.then_some(Severity::Low))?;
        let mut tally = Tally::default();
        for stall in stalls {
            tally.add(self.timeline, &walk(self.timeline, stall));
        }
        let lengths = Distribution::of(stalls.iter().map(|stall| stall.lost));
        let usual = cause == Cause::GpuLaunchLatency && lengths.p95_ns <= KERNEL_START_NS;
        if usual && severity == Severity::Low {
            return None;
        }
        let in_process = cause.is_data() && stalls.iter().all(|stall| self.in_process(stall));
        let own = self.own_steps(loader);
        let mut prediction = match &own {
            Some(own) => own.without(stalls),
            None => self.steps.without(self.trainers, stalls, self.device),
        };
        let steps = own.as_ref().map_or(self.steps, |own| &own.steps);
        let mut least = String::new();
        let devices: BTreeSet<usize> = stalls.iter().map(|stall| stall.device).collect();
        let accounts = || devices.iter().filter_map(|&i| self.accounts.get(i));
        let recorded = accounts().any(|account| account.device.is_some());
        let proof = Proof::of_stalls(self.timeline, self.accounts, &devices, &tally);
        let mut loaders = self.loaders.iter();
        let has_loader = loaders.any(|of| of.row.in_process.is_some());
        let signs = proof.signs(self.timeline, stalls, has_loader);
        let mut numbers = Vec::new();
        if recorded {
            numbers = proof.numbers();
            let drained = stalls.iter().filter(|stall| stall.drained).count();
            let share = drained as f64 / stalls.len().max(1) as f64;
            numbers.push(("began_in_wait_share", share));
        }
        if let Some(prediction) = prediction.as_mut().filter(|_| cause.is_transfer()) {
            let copied = self.steps.count.saturating_mul(devices.len()) as u64;
            least = bounded(prediction, proof.least_copy_time(copied));
        }
        // Without the scheduler whole waits are charged: of them only that goes away.
        let ready = self.ready_of_waits(cause, &tally, lost);
        if let Some((prediction, ready)) = prediction.as_mut().zip(ready) {
            prediction.only(ready);
        }
        let of_waits = self.share_of_waits((cause, loader), lost);
        let names = self.names_of_devices(stalls, lost);
        let is_end = |stall: &&&Stall| match stall.source {
            Source::Wait(i) => {
                let wait = self.timeline.waits.get(i);
                wait.is_some_and(|wait| wait.role == Role::EpochEnd)
            }
            _ => false,
        };
        let taken = self.loaders.iter();
        let taken = taken.filter(|of| loader.is_none_or(|loader| of.key == loader));
        let chain = Chain {
            ends: match cause.is_batch() {
                true => stalls.iter().filter(is_end).count() as u64,
                false => 0,
            },
            batches: taken.map(|of| of.row.batches).sum(),
            devices: recorded.then_some((names, cause, proof)),
            lateness: (cause == Cause::CommStraggler).then(|| self.lateness()),
            launches_known: stalls
                .iter()
                .all(|stall| stall.kernel.is_none() || stall.launch.is_some()),
            timeline: self.timeline,
            tally: &tally,
            trainers: self.names_of_trainers(stalls),
            place: self.place(cause, loader, stalls),
            held_up: cause.is_held_up(),
            in_process,
            stalls: lengths,
            lost,
            of_waits: of_waits.filter(|_| !self.timeline.kernel.is_empty()),
        };
        // Of a thread that trains and has no CPU those matter that may have it.
        let makers = loader.or_else(|| {
            self.only_loader_with_workers()
                .filter(|_| cause == Cause::HostPreempted)
        });
        let crew = self.crew(makers, stalls, lost);
        let states = tally.states();
        let ended = tally.total(|kind| kind == PieceKind::EpochEnd);
        let handed_over = tally.total(|kind| kind == PieceKind::HandOff);
        let sampled = tally.total(|kind| kind == PieceKind::Sampler && cause.is_data());
        let sampled = Sampled {
            share: sampled.share_of(lost),
            mean: mean(sampled, lengths.count),
        };
        let stopping = tally.total(|kind| kind == PieceKind::StopWorkers);
        let contended = match cause {
            Cause::DataContended => {
                runnable_share(&crew.workers).or(tally.runnable_share(on_worker))
            }
            _ => shortage(crew.workers.iter().copied()),
        };
        let row = self.loaders.iter().find(|facts| Some(facts.key) == makers);
        let loader_row = crew.cost.as_ref().or(row);
        let slow_worker = loader_row
            .filter(|of| of.iterable && of.row.in_process != Some(true))
            .and_then(|_| SlowWorker::of(&crew.workers, &tally, lost));
        let told = loader_row.and_then(|of| of.num_workers);
        let mut facts = Facts {
            cause,
            in_process,
            workers_known: loader_row.is_some_and(|facts| facts.row.in_process == Some(false)),
            ends_epochs: ended.share_of(lost),
            framework: Framework::of(self.timeline.trace),
            signs,
            kernel: KernelSigns::of(self.timeline, &states),
            taken_cpus: self.waits.taken_cpus,
            of_waits: of_waits.filter(|_| !self.timeline.kernel.is_empty()),
            part: of_waits.unwrap_or(1.0),
            ready,
            numbers,
            known: tally.total(|kind| kind == PieceKind::UnknownWorker) < lost,
            loader: loader_row,
            crew: crew.together,
            looped: self.waits.looped(makers).unwrap_or(1.0),
            have: told.unwrap_or(crew.have),
            takers: crew.takers,
            workers: crew.workers,
            contended,
            trainers: trainers::at_once(self.trainers),
            cpus: self.timeline.trace.meta.cpus,
            handed_over: handed_over.share_of(lost),
            locked: self.locked(makers),
            faults: self.faults(makers),
            slow_worker,
            sampled,
            stopping: stopping.share_of(lost),
            crowded,
            rest: self.step_without_wait(makers, own.as_ref()),
            step: prediction.as_ref().map(|p| p.step),
            reached: (steps.steady.count > 0).then_some(Nanos::new(steps.steady.mean_ns)),
            least: Nanos::ZERO,
            short: None,
            few: false,
            turnover: None,
            started: None,
            keep: false,
            by_makers: tally.total(on_worker).share_of(lost),
            counts: Vec::new(),
            counts_if_free: Vec::new(),
        };
        let of = facts.loader.filter(|_| cause.is_data());
        let crew = (facts.have, facts.takers);
        facts.turnover = of.and_then(|of| Turnover::of(self.timeline, self.judged, of, crew));
        facts.started = of.and_then(|of| self.started(of, stalls, lost));
        if facts.depends_on_workers() {
            let short = || self.of_short_epochs(&mut facts, (loader, own.as_ref()), stalls);
            if let Some(mut over_all) = cause.is_data().then(short).flatten() {
                over_all.only(ready.unwrap_or(1.0));
                facts.step = Some(over_all.step);
                prediction = Some(over_all);
            }
            (facts.counts, facts.counts_if_free) = facts.worker_counts();
        }
        // What the remedy of the sampler mends is its part, and what that of the waits does is the rest.
        if let Some(prediction) = prediction.as_mut().filter(|_| sampled.share > 0.0) {
            prediction.only(match facts.is_of_sampler() {
                true => sampled.share,
                false => 1.0 - sampled.share,
            });
        }
        facts.kernel.disk = facts.disk();
        let remedy = iterable::suited(&facts, remedy::remedy(&facts));
        let worth = worth(&facts, &remedy, prediction.as_ref(), &least);
        if !cause.is_batch() {
            (facts.counts, facts.counts_if_free) = Default::default();
        }
        let waits_for_cpu = matches!(cause, Cause::HostPreempted | Cause::DataContended);
        let held_by = waits_for_cpu
            .then(|| culprits::in_words(self.timeline, &states.held_by, states.waiting));
        let held_by = held_by.flatten();
        let finding = Finding {
            cause,
            severity,
            loader: loader.map(|loader| self.timeline.loader_name(loader).to_owned()),
            kind: loader.map(|loader| loader.kind.as_str().to_owned()),
            lost_ns: lost.get(),
            share: round_share(share),
            stalls: lengths,
            chain: chain.links(),
            held_by: held_by.unwrap_or_default(),
            evidence: remedy::evidence(&facts, &tally),
            worst: self.worst(stalls),
            remedy: remedy.text,
            caveat: caveat(self.timeline, &states),
            worker_counts_assume: facts.assumed(),
            worker_counts: facts.counts,
            step_ns: worth.step.map(Nanos::get),
            predicted_step_ns: worth.predicted.map(Nanos::get),
            assumption: worth.assumption,
            step_without_loss_ns: worth.without_loss.map(Nanos::get),
            without_loss_assumption: worth.without_loss_assumption,
        };
        Some((finding, remedy.fewer))
    }

    /// Share of whole waits, charged to workers that waited for a CPU, in which these did so.
    fn ready_of_waits(&self, cause: Cause, tally: &Tally, lost: Nanos) -> Option<f64> {
        let whole = cause == Cause::DataContended && self.timeline.kernel.is_empty();
        let share = tally.runnable_share(on_worker).filter(|_| whole)?;
        Some(share * tally.total(on_worker).share_of(lost).min(1.0))
    }

    /// The loader that has workers, if it is only one.
    fn only_loader_with_workers(&self) -> Option<LoaderKey> {
        let loaders = self.workers.iter().filter_map(|hand| hand.loader);
        let loaders: BTreeSet<LoaderKey> = loaders.collect();
        loaders.first().copied().filter(|_| loaders.len() == 1)
    }

    fn in_process(&self, stall: &Stall) -> bool {
        match stall.source {
            Source::Wait(i) => self.timeline.waits.get(i).is_some_and(|wait| {
                // The ends of an epoch say nothing about who made its batches.
                wait.role != Role::Batch || maker(self.timeline, wait) == Maker::InProcess
            }),
            _ => false,
        }
    }
}

/// Share of the workers' stages in which they waited for a CPU, where it was measured.
fn runnable_share(workers: &[&report::Worker]) -> Option<f64> {
    let known = workers
        .iter()
        .filter_map(|of| Some((of.busy_share, of.runnable_share?)));
    let (busy, waited) = known.fold((0.0, 0.0), |(busy, waited), (of, share)| {
        (busy + of, waited + of * share)
    });
    (busy > 0.0).then(|| waited / busy)
}

/// Keeps a step from being predicted shorter than its copies take, and says so.
fn bounded(prediction: &mut Prediction, least: Option<(Nanos, f64, bool)>) -> String {
    let Some((least, rate, seen)) = least else {
        return String::new();
    };
    if least <= prediction.predicted || least >= prediction.step {
        return String::new();
    }
    prediction.predicted = least;
    let from = match seen {
        true => "the best that pinned copies reached here",
        false => "assumed for pinned memory: no copy here shows it",
    };
    format!("; then the copies themselves take that long, at {rate:.1} GB/s, {from}")
}
