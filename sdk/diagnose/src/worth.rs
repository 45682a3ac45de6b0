//! What the remedy of a finding is predicted to be worth.

use crate::advice::condition;
use crate::cause::Cause;
use crate::links::percent;
use crate::remedy::{Facts, Remedy};
use crate::report::Finding;
use crate::steps::Prediction;
use gpustall_trace::Nanos;

/// Waits for a loader of which at least this share is one finding's are all its.
const ALL: f64 = 0.995;

/// Ends of epochs that are at least this share of a loss are named in what it takes for granted.
const SOME: f64 = 0.05;

/// How what a number of workers is worth begins.
const WITH: &str = "with ";

/// The mean step as it is, and what is predicted of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Worth {
    pub(crate) step: Option<Nanos>,
    /// With the remedy: with the workers that it names, else without the loss.
    pub(crate) predicted: Option<Nanos>,
    pub(crate) assumption: String,
    /// Without the loss.
    pub(crate) without_loss: Option<Nanos>,
    pub(crate) without_loss_assumption: String,
}

/// What the remedy is worth. `without` is the mean step without the loss, and `least` says what bounds it.
pub(crate) fn worth(
    facts: &Facts<'_>,
    remedy: &Remedy,
    without: Option<&Prediction>,
    least: &str,
) -> Worth {
    let Some(without) = without.filter(|_| !facts.is_of_recording()) else {
        return Worth::default();
    };
    let mean = match (without.steady, without.own) {
        (true, true) => "mean of this loader's own steady steps",
        (false, true) => "time of this loader's own loops per step",
        (true, false) => "mean of the steady steps",
        (false, false) => "time of the whole window per step",
    };
    let mean = match (without.but.compiling, without.but.starting) {
        (false, false) => mean.to_owned(),
        (true, false) => format!("{mean}, but for what was compiled and loaded"),
        (false, true) => format!("{mean}, but for the start of its workers"),
        (true, true) => {
            format!("{mean}, but for the start of its workers and what was compiled and loaded")
        }
    };
    let pipelined = facts.pipelined_step().filter(|_| without.steady);
    // Where every batch is ready, no time is left in next(), whatever else that is charged to.
    let ready = facts
        .rest
        .filter(|_| without.steady && facts.is_of_all_waits());
    let shortest = [pipelined, ready].into_iter().flatten().min();
    let best = without.predicted.min(shortest.unwrap_or(without.predicted));
    // Items that are divided evenly are as slow to make as before, by all workers together.
    let best = facts
        .evenly()
        .map_or(best, |evenly| best.max(evenly).min(without.step));
    let at_best = format!("{}; {mean}{least}", granted(facts));
    let with_workers = remedy
        .workers
        .filter(|_| without.steady || facts.short.is_some())
        .and_then(|workers| {
            let mut counts = facts.counts.iter();
            let count = counts.find(|count| count.workers == workers)?;
            let step = Nanos::new(count.predicted_step_ns);
            let with = |workers, have| {
                let open = match count.at_most_step_ns {
                    Some(_) => facts.disk().map_or(String::new(), |disk| {
                        format!(", by what {} gives them", disk.source.noun())
                    }),
                    None => String::new(),
                };
                let kept = match facts.keep {
                    true => ", kept from one epoch to the next",
                    false => "",
                };
                format!("{}{kept}{open}; {mean}", with(workers, have))
            };
            (step < without.step).then(|| (step, with(workers, facts.have)))
        });
    let (predicted, assumption) = with_workers.unwrap_or_else(|| (best, at_best.clone()));
    Worth {
        step: Some(without.step),
        predicted: Some(predicted),
        assumption,
        without_loss: Some(best),
        without_loss_assumption: at_best,
    }
}

/// Where two findings have the same remedy for one loader, what it is worth stands at the first of
/// them, and the other one is worth its own share.
pub(crate) fn once(findings: &mut [Finding]) {
    for at in 1..findings.len() {
        let (before, rest) = findings.split_at_mut(at);
        let Some(finding) = rest
            .first_mut()
            .filter(|of| of.loader.is_some() && !of.remedy.is_empty())
        else {
            continue;
        };
        let workers = |of: &Finding| {
            of.assumption
                .starts_with(WITH)
                .then(|| of.assumption.clone())
        };
        let what = |of: &Finding| (of.loader.clone(), of.kind.clone());
        // The same number of workers is the same remedy, whatever else is said of it.
        let same = |other: &Finding| {
            let remedy = other.remedy == finding.remedy;
            let number = workers(finding).is_some() && workers(other) == workers(finding);
            what(other) == what(finding) && (remedy || number)
        };
        let Some(first) = before.iter().position(same) else {
            continue;
        };
        finding.remedy = format!("the remedy of {} mends this too.", first + 1);
        finding.predicted_step_ns = finding.step_without_loss_ns;
        finding.assumption = finding.without_loss_assumption.clone();
    }
}

fn with(workers: u64, have: u64) -> String {
    let word = if workers == 1 { "worker" } else { "workers" };
    match have {
        have if have == workers => format!("{WITH}the {workers} {word} that there are"),
        0 => format!("{WITH}{workers} {word}"),
        have => format!("{WITH}{workers} {word} instead of {have}"),
    }
}

/// What it takes that the loss goes away.
fn granted(facts: &Facts<'_>) -> String {
    let waits = match facts.short {
        Some(_) if !facts.in_process => {
            "if every batch but the first of each epoch were ready when asked for"
        }
        _ => "if every batch were ready when asked for",
    };
    match facts.cause {
        cause if !cause.is_batch() => {
            let graphs = cause == Cause::HostLaunchBound && facts.signs.graphs;
            match graphs {
                true => "if launches cost the host nothing".to_owned(),
                false => condition(cause).to_owned(),
            }
        }
        _ if facts.is_of_sampler() => "if the sampler took no time".to_owned(),
        _ if facts.is_of_slow_worker() => {
            "if each worker had as much to do for its items as the others".to_owned()
        }
        _ if facts.is_of_ends() => "if the next() that ends an epoch took no time".to_owned(),
        _ if facts.ready.is_some() => format!(
            "if workers had not waited for a CPU, {} of these waits",
            percent(facts.ready.unwrap_or_default())
        ),
        _ if !facts.is_of_all_waits() => format!(
            "if this cause of the waits, {} of them, were gone",
            percent(facts.part)
        ),
        _ if facts.ends_epochs >= SOME => format!("{waits}, and epochs ended at once"),
        _ => waits.to_owned(),
    }
}

impl Facts<'_> {
    /// Whether the loss is that of recording: without gpustall the job does not have it, and gains nothing.
    fn is_of_recording(&self) -> bool {
        let short_of_cpus = matches!(self.cause, Cause::HostPreempted | Cause::DataContended);
        short_of_cpus && self.kernel.by_recording()
    }

    /// Whether it is of all that the waits for the loader are charged to, but for what holds the thread
    /// that takes batches up itself.
    fn is_of_all_waits(&self) -> bool {
        let all = self.part >= ALL && self.ready.is_none();
        self.cause.is_batch() && !self.is_of_ends() && !self.is_of_sampler() && all
    }

    /// The step without what this finding charges, where batches are made while the trainer is at
    /// work: a batch costs its workers less by the share of the waits that the finding is, and what
    /// is left of it is seen only where it takes longer than the rest of the step.
    fn pipelined_step(&self) -> Option<Nanos> {
        let made = self.loader?.production?.get() as f64;
        let rest = self.rest?;
        let other = self.is_of_ends() || self.is_of_sampler();
        if self.in_process || self.have == 0 || !self.cause.is_batch() || other {
            return None;
        }
        let left = made * (1.0 - self.of_waits?) / self.have as f64;
        Some(rest.max(Nanos::new(left as u64)))
    }
}
