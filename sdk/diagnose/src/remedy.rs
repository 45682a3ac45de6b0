//! What to change, in the words of the framework that ran, and what it would be worth.

use crate::advice::{Signs, advice, condition};
use crate::burn;
use crate::cause::Cause;
use crate::framework::Framework;
use crate::kernel_advice::{self, KernelSigns};
use crate::loaders::LoaderFacts;
use crate::pytorch;
use crate::report::{Worker, WorkerCount};
use crate::stages::StageKind;
use crate::stats::round_share;
use crate::steps::Prediction;
use crate::tally::{Tally, stage_kind};
use gpustall_trace::Nanos;
use std::collections::BTreeMap;

/// What is known where a finding is.
pub(crate) struct Facts<'a> {
    pub(crate) cause: Cause,
    pub(crate) in_process: bool,
    /// Whether anything is known about who made the batches.
    pub(crate) known: bool,
    /// Whether it is known that workers make them, if not which.
    pub(crate) workers_known: bool,
    /// Whether most of the waits is for the end of an epoch, not for a batch.
    pub(crate) ends_epochs: bool,
    pub(crate) framework: Framework,
    pub(crate) signs: Signs,
    pub(crate) kernel: KernelSigns,
    /// CPUs that others kept busy.
    pub(crate) taken_cpus: f64,
    /// Share of the waits for the loader that this finding is.
    pub(crate) of_waits: Option<f64>,
    /// Numbers about devices that the finding rests on.
    pub(crate) numbers: Vec<(&'static str, f64)>,
    pub(crate) loader: Option<&'a LoaderFacts>,
    pub(crate) workers: Vec<&'a Worker>,
    /// CPUs that the job may use; 0 if not known.
    pub(crate) cpus: u32,
    /// Threads that run steps.
    pub(crate) trainers: usize,
    /// Share of the workers' stages in which they waited for a CPU, if that is enough to say that
    /// they are short of CPUs.
    pub(crate) contended: Option<f64>,
    /// Mean steady step without any wait for the loader.
    pub(crate) rest: Option<Nanos>,
    /// Mean step as it is.
    pub(crate) step: Option<Nanos>,
    /// Mean steady step.
    pub(crate) steady: Option<Nanos>,
    /// The predicted step for each number of workers; empty if it is not known.
    pub(crate) counts: Vec<WorkerCount>,
}

impl Facts<'_> {
    pub(crate) fn busy(&self) -> Option<f64> {
        let sum: f64 = self.workers.iter().map(|worker| worker.busy_share).sum();
        (!self.workers.is_empty()).then(|| sum / self.workers.len() as f64)
    }

    /// The step without what this finding charges, where batches are made while the trainer is at
    /// work: a batch costs its workers less by the share of the waits that the finding is, and what
    /// is left of it is seen only where it takes longer than the rest of the step.
    pub(crate) fn pipelined_step(&self) -> Option<Nanos> {
        let made = self.loader?.production?.get() as f64;
        let rest = self.rest?;
        let workers = self.workers.len();
        if self.in_process || workers == 0 || !self.cause.is_batch() {
            return None;
        }
        let left = made * (1.0 - self.of_waits?) * self.trainers.max(1) as f64 / workers as f64;
        Some(rest.max(Nanos::new(left as u64)))
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
    for (kind, name) in [(StageKind::Get, "get"), (StageKind::Collate, "collate")] {
        let sums = tally.largest(|piece| stage_kind(piece) == Some(kind));
        let sum = sums.first().map(|(_, sum)| sum);
        put(
            &format!("{name}_cpu_share"),
            sum.and_then(|sum| sum.cpu_share()),
        );
        let waited = sum.and_then(|sum| sum.runnable_share());
        put(&format!("{name}_runnable_share"), waited);
    }
    for &(name, value) in &facts.numbers {
        put(name, Some(value));
    }
    if facts.cause.is_data() {
        let production = facts.loader.and_then(|loader| loader.production);
        put("batch_production_ns", production.map(|ns| ns.get() as f64));
        let cpu = facts.loader.and_then(|loader| loader.production_cpu);
        put("batch_cpu_ns", cpu.map(|ns| ns.get() as f64));
        put("step_without_wait_ns", facts.rest.map(|ns| ns.get() as f64));
        put(
            "queue_empty_share",
            facts.loader.and_then(|l| l.row.queue).map(|q| q.empty),
        );
        put("share_of_waits", facts.of_waits);
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

const BETWEEN_PHASES: &str = "find what the thread does between the phases (mark it, so that the \
    next recording names it), and move it to the workers or to a thread of its own.";

/// What to change.
pub(crate) fn remedy(facts: &Facts<'_>) -> String {
    // Numbers about a device are there where one was recorded.
    if facts.cause == Cause::HostCompute && facts.numbers.is_empty() {
        return BETWEEN_PHASES.to_owned();
    }
    let workers = facts
        .fitting()
        .map(|fitting| (fitting, facts.workers.len() as u64));
    let told = kernel_advice::advice(facts.cause, facts.framework, &facts.kernel, workers);
    if !told.is_empty() {
        return told;
    }
    match (facts.cause, facts.framework) {
        (cause, Framework::PyTorch) if cause.is_data() => pytorch::loader(facts),
        (_, Framework::PyTorch) => advice(facts.cause, facts.framework, facts.signs).to_owned(),
        (cause, Framework::Burn) => burn::remedy(cause, facts),
    }
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
