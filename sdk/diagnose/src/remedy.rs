//! What to change, in the words of the framework that ran.

use crate::advice::{Signs, advice};
use crate::burn;
use crate::cause::Cause;
use crate::framework::Framework;
use crate::kernel_advice::{self, KernelSigns, Workers};
use crate::loader_waits::beside_locks;
use crate::loaders::LoaderFacts;
use crate::pytorch;
use crate::report::{Worker, WorkerCount};
use crate::sampling::{self, Sampled};
use crate::stages::StageKind;
use crate::stats::round_share;
use crate::tally::{Tally, stage_kind};
use crate::turnover::{Started, Turnover};
use crate::uneven::{self, SlowWorker};
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
    /// Share of the loss that is waits for the end of an epoch, not for a batch.
    pub(crate) ends_epochs: f64,
    pub(crate) framework: Framework,
    pub(crate) signs: Signs,
    pub(crate) kernel: KernelSigns,
    /// CPUs that others kept busy; `None` where it was not counted.
    pub(crate) taken_cpus: Option<f64>,
    /// Share of the waits for the loader that this finding is, where the scheduler divides them.
    pub(crate) of_waits: Option<f64>,
    /// The same, whatever divides them; 1 for causes that are no waits for batches.
    pub(crate) part: f64,
    /// Share of the loss in which workers waited for a CPU, where whole waits are charged to that.
    pub(crate) ready: Option<f64>,
    /// Numbers about devices that the finding rests on.
    pub(crate) numbers: Vec<(&'static str, f64)>,
    pub(crate) loader: Option<&'a LoaderFacts>,
    pub(crate) workers: Vec<&'a Worker>,
    /// How many of them there were at the same time.
    pub(crate) crew: usize,
    /// Share of the window in which the loader was looped over.
    pub(crate) looped: f64,
    /// The same for each thread that takes batches: what a program sets.
    pub(crate) have: u64,
    /// The threads that take batches of the loader at the same time.
    pub(crate) takers: usize,
    /// CPUs that the job may use; 0 if not known.
    pub(crate) cpus: u32,
    /// Threads that run steps at the same time.
    pub(crate) trainers: usize,
    /// Share of the workers' stages in which they waited for a CPU, if that is enough to say that
    /// they are short of CPUs.
    pub(crate) contended: Option<f64>,
    /// Share of the loss in which the batch was made and not taken yet.
    pub(crate) handed_over: f64,
    /// Share of the waits for the loader that are for locks, if it is so much that more workers are no faster.
    pub(crate) locked: Option<f64>,
    /// Whether the kernel's work for memory is a large part of the waits for the loader.
    pub(crate) faults: bool,
    /// The worker that makes its batches much more slowly than all others, where each has its own items.
    pub(crate) slow_worker: Option<SlowWorker>,
    /// How much of the loss is the sampler's.
    pub(crate) sampled: Sampled,
    /// Share of the loss in which the workers of an earlier loop were stopped.
    pub(crate) stopping: f64,
    /// Whether another finding says that there are more workers than CPUs for them.
    pub(crate) crowded: bool,
    /// Mean steady step without any wait for the loader.
    pub(crate) rest: Option<Nanos>,
    /// Mean step as it is.
    pub(crate) step: Option<Nanos>,
    /// Mean steady step; where epochs are short, mean step of all.
    pub(crate) reached: Option<Nanos>,
    /// The same where no batch but the first of each epoch were waited for; 0 unless epochs are short.
    pub(crate) least: Nanos,
    /// Batches of an epoch, if its epochs are short: if they have few batches for each worker, or starting and
    /// ending workers is a large part of them.
    pub(crate) short: Option<u64>,
    /// Whether they have so few.
    pub(crate) few: bool,
    /// What it takes to start and end workers with each epoch, where that is so and known.
    pub(crate) turnover: Option<Turnover>,
    /// How much of the loss is that workers are started which are then kept.
    pub(crate) started: Option<Started>,
    /// Whether it is advised to keep them, which the predicted steps then take for granted.
    pub(crate) keep: bool,
    /// Share of the loss in which workers make the batch.
    pub(crate) by_makers: f64,
    /// The predicted step for each number of workers; empty if it is not known.
    pub(crate) counts: Vec<WorkerCount>,
    /// The same if others kept no CPU busy; empty if they do not.
    pub(crate) counts_if_free: Vec<WorkerCount>,
}

impl Facts<'_> {
    /// Share of the loader's loops in which a worker makes batches, on average.
    pub(crate) fn busy(&self) -> Option<f64> {
        let sum: f64 = self.workers.iter().map(|worker| worker.busy_share).sum();
        let most = self.crew as f64 * self.looped;
        (most > 0.0).then(|| (sum / most).min(1.0))
    }

    /// Whether most of what a batch takes to make is collate: then that is what is to be cheaper.
    pub(crate) fn is_of_collate(&self) -> bool {
        let collate = self.loader.map(|of| (of.production_collate, of.production));
        let (collate, made) = collate.unwrap_or_default();
        made.is_some_and(|made| collate.share_of(made) > 0.5)
    }

    /// Whether the step depends on how many workers there are. Where they hold each other up, or the end of
    /// an epoch or the sampler does, more of them are no faster; and where one of them has the slow items,
    /// it matters which one has what.
    pub(crate) fn depends_on_workers(&self) -> bool {
        let other = self.is_of_ends() || self.is_of_sampler();
        self.locked.is_none() && self.slow_worker.is_none() && !other
    }

    /// Whether most of the loss is waits for the end of an epoch.
    pub(crate) fn is_of_ends(&self) -> bool {
        self.ends_epochs > 0.5
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
        put("epoch_batches", facts.short.map(|batches| batches as f64));
        if !facts.in_process {
            put("workers", (facts.have > 0).then_some(facts.have as f64));
            put("workers_busy_share", facts.busy());
        }
    }
    evidence
}

const BETWEEN_PHASES: &str = "find what the thread does between the phases (mark it, so that the \
    next recording names it), and move it to the workers or to a thread of its own.";

/// What to change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remedy {
    pub(crate) text: String,
    /// Whether it says that there are more workers than CPUs for them.
    pub(crate) fewer: bool,
    /// The number of workers that it names, where one is predicted to be worth something.
    pub(crate) workers: Option<u64>,
}

impl Remedy {
    /// One that names a number of workers.
    pub(crate) fn with_workers(text: String, workers: u64) -> Self {
        Self {
            workers: Some(workers),
            ..text.into()
        }
    }

    /// One that says that there are more workers than CPUs for them.
    pub(crate) fn of_fewer(text: String) -> Self {
        Self {
            fewer: true,
            ..text.into()
        }
    }
}

impl From<String> for Remedy {
    fn from(text: String) -> Self {
        Self {
            text,
            fewer: false,
            workers: None,
        }
    }
}

impl From<&str> for Remedy {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// What to change, and what is to be said of the number of workers that it names.
pub(crate) fn remedy(facts: &Facts<'_>) -> Remedy {
    let mut remedy = change(facts);
    if let Some(workers) = remedy.workers {
        remedy.text += &facts.about(workers);
        if workers != facts.have {
            remedy.text += &facts.about_kept(workers);
        }
    }
    remedy
}

fn change(facts: &Facts<'_>) -> Remedy {
    // Numbers about a device are there where one was recorded.
    if facts.cause == Cause::HostCompute && facts.numbers.is_empty() {
        return BETWEEN_PHASES.into();
    }
    if facts.cause.is_data() && facts.is_of_sampler() {
        return sampling::remedy(facts);
    }
    if let Some(slow) = facts
        .slow_worker
        .as_ref()
        .filter(|_| facts.is_of_slow_worker())
    {
        return uneven::remedy(slow);
    }
    if facts.is_beside_locks() {
        return match facts.framework {
            Framework::PyTorch => beside_locks(facts, pytorch::cheaper(facts)),
            Framework::Burn => beside_locks(facts, burn::cheaper(facts)),
        };
    }
    let workers = Workers {
        fitting: facts.fitting().filter(|&fitting| fitting < facts.have),
        have: facts.have,
        fewer_are_slower: facts.fewer_are_slower(),
        others: facts.if_free().map(|_| facts.others_keep()),
    };
    let told = kernel_advice::advice(facts.cause, facts.framework, &facts.kernel, &workers);
    if facts.cause == Cause::HostPreempted && facts.kernel.by_own_workers() {
        return Remedy::of_fewer(told);
    }
    if !told.is_empty() {
        return facts.with_readers(told);
    }
    match (facts.cause, facts.framework) {
        (cause, Framework::PyTorch) if cause.is_data() => pytorch::loader(facts),
        (_, Framework::PyTorch) => advice(facts.cause, facts.framework, facts.signs).into(),
        (cause, Framework::Burn) => burn::remedy(cause, facts),
    }
}

impl Facts<'_> {
    /// The advice with the number of workers in its place, where more of them are tried since who waits
    /// for a disk or a peer needs no CPU, and one is predicted to be worth something.
    fn with_readers(&self, told: String) -> Remedy {
        let reads = self.cause == Cause::DataIo && !self.kernel.disk_is_limit();
        let need = self.need().filter(|need| reads && need.gains);
        let Some(need) = need.filter(|need| need.workers > self.have) else {
            return told.into();
        };
        let n = need.workers;
        let numbered = told
            .replace(".num_workers(n)", &format!(".num_workers({n})"))
            .replace("num_workers=n", &format!("num_workers={n}"));
        match numbered == told {
            true => told.into(),
            false => Remedy::with_workers(numbered, n),
        }
    }
}
