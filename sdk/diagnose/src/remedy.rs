//! What to change, in the words of the framework that ran, and what it would be worth.

use crate::advice::{Signs, advice, condition};
use crate::cause::Cause;
use crate::framework::Framework;
use crate::links::percent;
use crate::loaders::LoaderFacts;
use crate::pytorch;
use crate::report::Worker;
use crate::stages::StageKind;
use crate::stats::round_share;
use crate::steps::Prediction;
use crate::tally::{Tally, stage_kind};
use crate::workers::shortage;
use gpustall_trace::Nanos;
use std::collections::BTreeMap;

/// Workers that are busy for at least this share of the window are why batches are late.
pub const WORKERS_BUSY_SHARE: f64 = 0.7;

/// What is known where a finding is.
pub(crate) struct Facts<'a> {
    pub(crate) cause: Cause,
    pub(crate) in_process: bool,
    /// Whether anything is known about who made the batches.
    pub(crate) known: bool,
    /// Whether it is known that workers make them, if not which.
    pub(crate) workers_known: bool,
    pub(crate) framework: Framework,
    pub(crate) signs: Signs,
    /// Numbers about devices that the finding rests on.
    pub(crate) numbers: Vec<(&'static str, f64)>,
    pub(crate) loader: Option<&'a LoaderFacts>,
    pub(crate) workers: Vec<&'a Worker>,
    /// CPUs that the job may use; 0 if not known.
    pub(crate) cpus: u32,
    /// Threads that run steps.
    pub(crate) trainers: usize,
    /// Mean steady step without any wait for the loader.
    pub(crate) rest: Option<Nanos>,
}

impl Facts<'_> {
    fn busy(&self) -> Option<f64> {
        let sum: f64 = self.workers.iter().map(|worker| worker.busy_share).sum();
        (!self.workers.is_empty()).then(|| sum / self.workers.len() as f64)
    }

    /// Workers that would make batches as fast as they are asked for, and the numbers behind it.
    pub(crate) fn enough_workers(&self) -> Option<(u64, Nanos, Nanos)> {
        let made = self.loader?.production?;
        let rest = self.rest.filter(|rest| *rest > Nanos::ZERO)?;
        Some((made.get().div_ceil(rest.get()).max(1), made, rest))
    }
}

/// The numbers that prove a chain, by name.
pub(crate) fn evidence(facts: &Facts<'_>, tally: &Tally) -> BTreeMap<String, f64> {
    let mut evidence = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            evidence.insert(name.to_owned(), round_share(value));
        }
    };
    put("cpus", (facts.cpus > 0).then_some(f64::from(facts.cpus)));
    for (kind, name) in [
        (StageKind::Get, "get_cpu_share"),
        (StageKind::Collate, "collate_cpu_share"),
    ] {
        let sums = tally.largest(|piece| stage_kind(piece) == Some(kind));
        put(name, sums.first().and_then(|(_, sum)| sum.cpu_share()));
    }
    for &(name, value) in &facts.numbers {
        put(name, Some(value));
    }
    if facts.cause.is_data() {
        let production = facts.loader.and_then(|loader| loader.production);
        put("batch_production_ns", production.map(|ns| ns.get() as f64));
        put("step_without_wait_ns", facts.rest.map(|ns| ns.get() as f64));
        put(
            "queue_empty_share",
            facts.loader.and_then(|l| l.row.queue).map(|q| q.empty),
        );
        put(
            "in_process",
            (facts.known || facts.workers_known).then_some(f64::from(u8::from(facts.in_process))),
        );
        if !facts.in_process {
            put(
                "workers",
                (!facts.workers.is_empty()).then_some(facts.workers.len() as f64),
            );
            put("workers_busy_share", facts.busy());
        }
    }
    evidence
}

const CHEAPER: &str = "make a batch cheaper: index the data directly if it is in memory, or let one \
    item be a whole batch";

/// What to change.
pub(crate) fn remedy(facts: &Facts<'_>) -> String {
    match (facts.cause, facts.framework) {
        (Cause::Data | Cause::DataCompute | Cause::DataStartup, Framework::PyTorch) => {
            pytorch::loader(facts)
        }
        (_, Framework::PyTorch) => advice(facts.cause, facts.framework, facts.signs).to_owned(),
        (cause, Framework::Burn) => burn(cause, facts),
    }
}

fn burn(cause: Cause, facts: &Facts<'_>) -> String {
    match cause {
        Cause::DataStartup => "Burn's workers begin an epoch only when iter() is called: call it \
            before the work between two epochs, or have fewer, longer epochs. Open files and \
            build indexes when the data set is made, not with the first item."
            .to_owned(),
        Cause::HostMetrics => "compute metrics every few steps, or read them back from the device \
            after the next step has been submitted."
            .to_owned(),
        Cause::HostCheckpoint => "save less often, or write the file on a thread of its own from \
            a copy of the weights."
            .to_owned(),
        Cause::Data | Cause::DataCompute if facts.in_process => in_process(facts),
        Cause::Data | Cause::DataCompute if !facts.known => "tag the batches first \
            (instrument::batcher), so that the next recording says which worker and which stage."
            .to_owned(),
        Cause::Data | Cause::DataCompute => with_workers(facts),
        cause => advice(cause, facts.framework, facts.signs).to_owned(),
    }
}

fn in_process(facts: &Facts<'_>) -> String {
    let Some((enough, made, rest)) = facts.enough_workers() else {
        return format!("make batches on workers, .num_workers(n), or {CHEAPER}.");
    };
    let cost = format!("a batch takes {made} to make, the rest of a step {rest}");
    if fits(enough, facts.cpus) {
        format!(
            "make batches on workers, .num_workers({enough}): {cost}, so {} with a CPU each{}. Or \
             {CHEAPER}.",
            count(enough, "worker keeps up", "workers keep up"),
            may_use(facts.cpus),
        )
    } else {
        format!(
            "{CHEAPER}. Workers would need more CPUs than the {} that this job may use: {cost}, so \
             {enough} of them beside the trainer.",
            facts.cpus
        )
    }
}

fn with_workers(facts: &Facts<'_>) -> String {
    let have = facts.workers.len() as u64;
    if let Some(short) = shortage(facts.workers.iter().copied(), facts.trainers, facts.cpus) {
        return format!(
            "fewer workers, .num_workers({}): {}. Or {CHEAPER}.",
            short.fitting,
            short.describe()
        );
    }
    let busy = facts.busy().unwrap_or(0.0);
    if have > 0 && busy < WORKERS_BUSY_SHARE {
        return format!(
            "the workers are in get and collate for only {} of the window: before adding more, \
             see what holds them. And {CHEAPER}.",
            percent(busy)
        );
    }
    match facts.enough_workers() {
        Some((enough, made, rest)) if enough > have && fits(enough, facts.cpus) => format!(
            ".num_workers({enough}) instead of {have}: a batch takes {made} to make, the rest of \
             a step {rest}, if each worker gets a CPU{}. Or {CHEAPER}.",
            may_use(facts.cpus),
        ),
        Some((enough, made, rest)) if enough > have => format!(
            "{CHEAPER}. More workers would need more CPUs than the {} that this job may use: a \
             batch takes {made} to make, the rest of a step {rest}, so {enough} of them beside \
             the trainer.",
            facts.cpus
        ),
        _ => format!("{CHEAPER}; or more workers, .num_workers(n), where CPUs are free."),
    }
}

/// Whether so many workers and the trainer can have a CPU each; yes if the CPUs are not known.
pub(crate) fn fits(workers: u64, cpus: u32) -> bool {
    cpus == 0 || workers < u64::from(cpus)
}

fn may_use(cpus: u32) -> String {
    if cpus == 0 {
        String::new()
    } else {
        format!(" (this job may use {cpus})")
    }
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What a prediction takes for granted.
pub(crate) fn assumption(cause: Cause, prediction: Option<&Prediction>) -> String {
    let condition = condition(cause);
    match prediction {
        None => String::new(),
        Some(Prediction { steady: true, .. }) => format!("{condition}; mean of the steady steps"),
        Some(_) => format!("{condition}; time of the whole window per step"),
    }
}
