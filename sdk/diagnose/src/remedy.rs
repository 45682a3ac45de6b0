//! What to change, in the words of the framework that ran, and what it would be worth.

use crate::advice::{Signs, advice, condition};
use crate::cause::Cause;
use crate::framework::Framework;
use crate::kernel_advice::{self, KernelSigns};
use crate::links::percent;
use crate::loaders::LoaderFacts;
use crate::pytorch;
use crate::report::{Worker, WorkerCount};
use crate::rules::WORKERS_BUSY_SHARE;
use crate::stages::StageKind;
use crate::stats::round_share;
use crate::steps::Prediction;
use crate::tally::{Tally, stage_kind};
use crate::worker_counts::Costs;
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
}

impl Facts<'_> {
    fn busy(&self) -> Option<f64> {
        let sum: f64 = self.workers.iter().map(|worker| worker.busy_share).sum();
        (!self.workers.is_empty()).then(|| sum / self.workers.len() as f64)
    }

    /// Workers that would make batches as fast as they are asked for, and what they need. Whether
    /// there are CPUs for them is a matter of their CPU time, not of their number: who waits for
    /// I/O needs none.
    pub(crate) fn need(&self) -> Option<Need> {
        let made = self.loader?.production?;
        let cpu = self.loader?.production_cpu;
        let rest = self.rest.filter(|rest| *rest > Nanos::ZERO)?;
        let cpus = cpu.unwrap_or(made).share_of(rest);
        Some(Need {
            workers: made.get().div_ceil(rest.get()).max(1),
            made,
            cpu,
            rest,
            cpus,
            fits: self.cpus == 0 || cpus + self.trainers as f64 <= f64::from(self.cpus),
        })
    }

    /// The predicted step for each number of workers, where what a batch costs is known.
    pub(crate) fn worker_counts(&self) -> Vec<WorkerCount> {
        let costs = || {
            let made = self.loader?.production?;
            let ready = self.loader?.production_ready.unwrap_or_default();
            let unhindered = made - ready;
            let rest = self.rest.filter(|rest| *rest > Nanos::ZERO)?;
            Some(Costs {
                unhindered,
                cpu: self
                    .loader?
                    .production_cpu
                    .unwrap_or(unhindered)
                    .min(unhindered),
                rest,
                trainers: self.trainers as u64,
                cpus: self.cpus,
                taken: self.taken_cpus,
            })
        };
        let costs = costs().filter(|_| self.cause.is_batch() && self.cpus > 0);
        costs.map_or(Vec::new(), |costs| costs.counts())
    }

    /// Workers that leave each trainer a CPU, from what one uses while none has to wait for one.
    pub(crate) fn fitting(&self) -> Option<u64> {
        let known = self.workers.iter().filter_map(|worker| {
            let busy = worker.busy_share;
            let cpu = busy * worker.cpu_share?;
            Some((cpu, cpu + busy * worker.blocked_share?))
        });
        let (cpu, unhindered) = known.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let room = f64::from(self.cpus) - self.trainers as f64;
        (self.cpus > 0 && cpu > 0.0).then(|| (room * unhindered / cpu).floor().max(1.0) as u64)
    }
}

/// What batches cost, and whether there are CPUs to make them as fast as they are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// Workers that keep up.
    pub(crate) workers: u64,
    /// Mean time to make a batch.
    pub(crate) made: Nanos,
    /// How much of it is CPU time, where it was measured.
    pub(crate) cpu: Option<Nanos>,
    /// Mean step without any wait for the loader.
    pub(crate) rest: Nanos,
    /// CPUs that those workers use, beside those of the trainers.
    pub(crate) cpus: f64,
    /// Whether the job may use so many; yes if that is not known.
    pub(crate) fits: bool,
}

impl Need {
    /// The numbers that it follows from.
    pub(crate) fn cost(&self) -> String {
        let cpu = self
            .cpu
            .map_or(String::new(), |cpu| format!(", {cpu} of it on a CPU"));
        format!(
            "a batch takes {} to make{cpu}, the rest of a step {}",
            self.made, self.rest
        )
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

const CHEAPER: &str = "make a batch cheaper: index the data directly if it is in memory, or let one \
    item be a whole batch";

/// What to change.
pub(crate) fn remedy(facts: &Facts<'_>) -> String {
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
        cause if cause.is_batch() => with_workers(facts),
        cause => advice(cause, facts.framework, facts.signs).to_owned(),
    }
}

fn in_process(facts: &Facts<'_>) -> String {
    let Some(need) = facts.need() else {
        return format!("make batches on workers, .num_workers(n), or {CHEAPER}.");
    };
    let (cost, enough) = (need.cost(), need.workers);
    if need.fits {
        format!(
            "make batches on workers, .num_workers({enough}): {cost}, so {}, with {:.1} CPUs \
             beside the trainer's{}. Or {CHEAPER}.",
            count(enough, "worker keeps up", "workers keep up"),
            need.cpus,
            may_use(facts.cpus),
        )
    } else {
        format!(
            "{CHEAPER}. Workers would need more CPUs than the {} that this job may use: {cost}, so \
             {:.1} beside the trainer's.",
            facts.cpus, need.cpus
        )
    }
}

fn with_workers(facts: &Facts<'_>) -> String {
    let have = facts.workers.len() as u64;
    if let Some(share) = facts.contended {
        return contended(facts, have, share);
    }
    if facts.cause == Cause::DataWorkerLimit {
        return worker_limit(facts, have, |n| format!(".num_workers({n})"), CHEAPER);
    }
    let busy = facts.busy().unwrap_or(0.0);
    if have > 0 && busy < WORKERS_BUSY_SHARE {
        return format!(
            "the workers are in get and collate for only {} of the window: before adding more, \
             see what holds them. And {CHEAPER}.",
            percent(busy)
        );
    }
    match facts.need().filter(|need| need.workers > have) {
        Some(need) if need.fits => format!(
            ".num_workers({}) instead of {have}: {}, so {:.1} CPUs beside the trainer's{}. Or \
             {CHEAPER}.",
            need.workers,
            need.cost(),
            need.cpus,
            may_use(facts.cpus),
        ),
        Some(need) => format!(
            "{CHEAPER}. More workers would need more CPUs than the {} that this job may use: {}, \
             so {:.1} beside the trainer's.",
            facts.cpus,
            need.cost(),
            need.cpus
        ),
        _ => format!("{CHEAPER}; or more workers, .num_workers(n), where CPUs are free."),
    }
}

/// The least number of workers that make the step as short as more of them can.
pub(crate) fn worker_limit(
    facts: &Facts<'_>,
    have: u64,
    set: impl Fn(u64) -> String,
    cheaper: &str,
) -> String {
    let counts = facts.worker_counts();
    let least = counts.iter().map(|count| count.predicted_step_ns).min();
    let best = counts
        .iter()
        .find(|count| Some(count.predicted_step_ns) == least);
    match best.filter(|best| best.workers > have) {
        Some(best) => format!(
            "{} instead of {have}: all workers are busy and CPUs are free, a step of {} is predicted. \
             Or {cheaper}.",
            set(best.workers),
            Nanos::new(best.predicted_step_ns)
        ),
        None => format!(
            "more workers, while CPUs are free: {}. Or {cheaper}.",
            set(have + 1)
        ),
    }
}

/// Workers that are short of CPUs: more of them make no batch sooner.
fn contended(facts: &Facts<'_>, have: u64, share: f64) -> String {
    let why = format!(
        "the workers were ready to run and waited for a CPU for {} of their get and collate{}, so \
         more of them do not help",
        percent(share),
        may_use(facts.cpus),
    );
    let room = match facts.fitting() {
        _ if facts.kernel.foreign_holder().is_some() => {
            let who = facts.kernel.foreign_holder().unwrap_or_default();
            format!(" {who} had the CPU meanwhile: stop it, or move it elsewhere.")
        }
        Some(fitting) if fitting < have => {
            format!(" .num_workers({fitting}) instead of {have} would leave the trainer a CPU.")
        }
        Some(_) => " They and the trainer need no more than that: see what else runs.".to_owned(),
        None => String::new(),
    };
    format!("{CHEAPER}, or give the job more CPUs: {why}.{room}")
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
