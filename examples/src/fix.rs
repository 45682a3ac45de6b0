//! What a report says that a fix is worth, beside what was measured once it was made.

use crate::ways::Way;
use gpustall::Report;
use std::fmt;

/// A prediction of a report, of the mean step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Mean step now, nanoseconds.
    pub now_ns: f64,
    /// Mean step then, nanoseconds; the shortest, where there are only bounds.
    pub then_ns: f64,
    /// The longest, where there are only bounds.
    pub at_most_ns: Option<f64>,
    /// Whether it is of all steps, as where epochs have few batches, and not of the steady ones.
    pub of_all: bool,
}

impl Prediction {
    /// What the step would be without the losses of these causes, together. `None` if there are none.
    pub fn of_causes(report: &Report, causes: &[&str]) -> Option<Self> {
        let findings = report.findings.iter();
        let of = findings.filter(|finding| causes.contains(&finding.cause.to_string().as_str()));
        let steps = of.filter_map(|of| Some((of.step_ns? as f64, of.step_without_loss_ns? as f64)));
        steps.fold(None, |sum, (now, then)| match sum {
            None => Some(Self {
                now_ns: now,
                then_ns: then,
                at_most_ns: None,
                of_all: true,
            }),
            Some(sum) => Some(Self {
                then_ns: (sum.then_ns - (now - then)).max(0.0),
                ..sum
            }),
        })
    }

    /// The step if no batch had to be waited for, whatever the causes of the waits are.
    pub fn without_waits(report: &Report) -> Option<Self> {
        let data = report.findings.iter();
        let data = data.filter(|finding| finding.cause.to_string().starts_with("data"));
        let without = data.clone().find_map(|finding| {
            let without = finding.evidence.get("step_without_wait_ns");
            Some((finding.step_ns?, *without?))
        });
        let first = data.clone().next();
        let first = first.and_then(|of| Some((of.step_ns?, of.step_without_loss_ns? as f64)));
        let (now, then) = without.or(first)?;
        Some(Self {
            now_ns: now as f64,
            then_ns: then,
            at_most_ns: None,
            of_all: true,
        })
    }

    /// As many workers as the report advises, and the step with them.
    pub fn of_workers(report: &Report) -> Option<(usize, Self)> {
        let mut findings = report.findings.iter();
        let finding = findings.find(|finding| !finding.worker_counts.is_empty())?;
        let count = finding.advised_workers()?;
        let workers = usize::try_from(count.workers).ok()?;
        Some((workers, Self::of_count(report, workers)?))
    }

    /// The step with so many workers. `None` if it is not predicted.
    pub fn of_count(report: &Report, workers: usize) -> Option<Self> {
        let mut findings = report.findings.iter();
        let finding = findings.find(|finding| {
            let mut counts = finding.worker_counts.iter();
            counts.any(|count| count.workers == workers as u64)
        })?;
        let mut counts = finding.worker_counts.iter();
        let count = counts.find(|count| count.workers == workers as u64)?;
        let short_epochs = finding.evidence.contains_key("epoch_batches");
        let now = match short_epochs {
            true => finding.step_ns?,
            false => report.steps.mean_ns,
        };
        Some(Self {
            now_ns: now as f64,
            then_ns: count.predicted_step_ns as f64,
            at_most_ns: count.at_most_step_ns.map(|most| most as f64),
            of_all: short_epochs,
        })
    }
}

/// A prediction, and what was measured before and after the change.
#[derive(Debug)]
pub struct Fix {
    what: String,
    prediction: Prediction,
    before_ns: f64,
    after_ns: f64,
}

/// Heads the rows that [`Fix`] prints.
pub const HEADING: &str = "\
before -> after                                    step      predicted    measured  gain predicted  measured  off by";

impl Fix {
    /// `prediction` is of the run `before`, and `after` is the one with the change.
    pub fn new(prediction: Prediction, before: &Way, after: &Way) -> Self {
        Self {
            what: format!("{} -> {}", before.name, after.name),
            prediction,
            before_ns: before.step_ns(),
            after_ns: after.step_ns(),
        }
    }

    /// The same of the steps that numbers of workers are predicted for: the steady ones, without the first of
    /// each epoch, since no number of them has the first batch ready; or where epochs have few batches, all.
    pub fn of_workers(prediction: Prediction, before: &Way, after: &Way) -> Self {
        if prediction.of_all {
            return Self::new(prediction, before, after);
        }
        let steady = |way: &Way| {
            let steps = way.report().map(|report| report.steps);
            let steps = steps.filter(|steps| steps.count > 0);
            steps.map_or(way.step_ns(), |steps| steps.mean_ns as f64)
        };
        Self {
            before_ns: steady(before),
            after_ns: steady(after),
            ..Self::new(prediction, before, after)
        }
    }

    /// The same, where the run before was another process, which left this report.
    pub fn of_report(prediction: Prediction, before: &Report, after: &Way) -> Self {
        let steps = before.steps.count + before.first_steps.length.count;
        Self {
            what: format!("{} -> {}", before.name, after.name),
            prediction,
            before_ns: before.window_ns as f64 / steps.max(1) as f64,
            after_ns: after.step_ns(),
        }
    }
}

/// Times in milliseconds, gains as shares of the step before, and by how much of the measured gain
/// the predicted one is wrong; that not where less than 5 % is gained. Where there are only bounds,
/// whether what was measured lies within them, or else by how much of its gain the nearest is wrong.
impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prediction, .. } = self;
        let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
        let gain = |then: f64| prediction.now_ns - then;
        let least = prediction.then_ns;
        let most = prediction.at_most_ns.unwrap_or(least);
        let measured = self.before_ns - self.after_ns;
        let share = |gain: f64| 100.0 * gain / prediction.now_ns;
        let (step, shares) = match prediction.at_most_ns {
            Some(most) => (
                format!("{:.2}-{}", least / 1e6, ms(most)),
                format!("{:.0}-{:.0} %", share(gain(most)), share(gain(least))),
            ),
            None => (ms(least), format!("{:.0} %", share(gain(least)))),
        };
        write!(
            f,
            "{:<42} {:>12} {step:>14} {:>11} {shares:>15} {:>7.0} %",
            self.what,
            ms(self.before_ns),
            ms(self.after_ns),
            100.0 * measured / self.before_ns,
        )?;
        let nearest = measured.clamp(gain(most).min(gain(least)), gain(least));
        match (prediction.at_most_ns, nearest == measured) {
            (Some(_), true) => write!(f, "  within"),
            _ if measured >= 0.05 * self.before_ns => {
                let off = (nearest - measured).abs() / measured;
                write!(f, " {:>5.0} %", 100.0 * off)
            }
            _ => write!(f, "       -"),
        }
    }
}
