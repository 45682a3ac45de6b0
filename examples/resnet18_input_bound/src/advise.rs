//! A run without workers, and one with as many as its report advises.

use gpustall::Report;
use gpustall_examples::fix::Prediction;
use gpustall_examples::ways::Way;
use std::fmt;
use std::path::Path;

/// What a report says of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// Mean steady step, nanoseconds.
    pub step_ns: f64,
    /// Share of the time in which the device computed; without a recorded device, in which the trainer
    /// did.
    pub busy: f64,
    /// Share of the time that was lost to waits for data.
    pub data: f64,
}

impl Numbers {
    fn of(report: &Report) -> Self {
        let waits = report.breakdown.iter();
        let waits = waits.filter(|(cause, _)| cause.starts_with("data"));
        Self {
            step_ns: report.steps.mean_ns as f64,
            busy: report.breakdown.get("compute").copied().unwrap_or(0.0),
            data: waits.map(|(_, share)| share).sum(),
        }
    }
}

/// The report as it stands in a trace file.
///
/// # Errors
///
/// Where the file cannot be read, or has no report.
pub fn report_of(trace: &Path) -> anyhow::Result<Report> {
    let read = gpustall::trace::read(trace)?;
    let json = read.trace.report;
    let json = json.ok_or_else(|| anyhow::anyhow!("{} has no report", trace.display()))?;
    Ok(serde_json::from_value(json)?)
}

/// The two runs beside each other.
#[derive(Debug)]
pub struct Advised {
    before: Way,
    after: Way,
    workers: usize,
    prediction: Prediction,
    numbers: (Numbers, Numbers),
    /// Whether a device was recorded.
    device: bool,
}

impl Advised {
    /// Runs `run`, which is told how many workers to take, without any and then as the report of that
    /// run advises. `None` in place of the second run if it advises none.
    ///
    /// # Errors
    ///
    /// Those of the runs, and of their reports.
    pub fn run(
        mut run: impl FnMut(usize) -> anyhow::Result<Way>,
    ) -> anyhow::Result<Result<Self, Way>> {
        let before = run(0)?;
        let Some(trace) = before.summary.trace() else {
            return Ok(Err(before));
        };
        let report = report_of(trace)?;
        let Some((workers, prediction)) = Prediction::of_workers(&report) else {
            return Ok(Err(before));
        };
        let after = run(workers)?;
        let second = after.summary.trace();
        let second = second.ok_or_else(|| anyhow::anyhow!("the second run recorded nothing"))?;
        Ok(Ok(Self {
            numbers: (Numbers::of(&report), Numbers::of(&report_of(second)?)),
            device: report.devices.iter().any(|device| device.tid.is_none()),
            before,
            after,
            workers,
            prediction,
        }))
    }

    /// By how much of the measured gain the predicted one is too large; negative if too small.
    pub fn error_of_gain(&self) -> f64 {
        let (before, after) = (self.numbers.0.step_ns, self.numbers.1.step_ns);
        let predicted = self.prediction.now_ns - self.prediction.then_ns;
        (predicted - (before - after)) / (before - after)
    }

    /// How many workers were advised.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What the reports of both runs say.
    pub fn numbers(&self) -> (Numbers, Numbers) {
        self.numbers
    }
}

/// One table, what the reports say in a sentence, and where the traces are.
impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = if self.device { "GPU busy" } else { "computes" };
        writeln!(
            f,
            "num_workers {:>9} {busy:>9} {:>10} {:>10}",
            "seconds", "data wait", "step"
        )?;
        let mut row = |workers, way: &Way, numbers: Numbers| {
            writeln!(
                f,
                "{workers:<11} {:>9.2} {:>7.1} % {:>8.1} % {:>7.2} ms",
                way.seconds,
                100.0 * numbers.busy,
                100.0 * numbers.data,
                numbers.step_ns / 1e6
            )
        };
        row(0, &self.before, self.numbers.0)?;
        row(self.workers, &self.after, self.numbers.1)?;
        let (before, after) = (self.numbers.0.step_ns, self.numbers.1.step_ns);
        let gain = |from: f64, to: f64| 100.0 * (from - to) / from;
        writeln!(
            f,
            "\npredicted for {} workers: a step of {:.2} ms ({:.0} % less); measured {:.0} % less: the \
             predicted gain is off by {:+.0} %",
            self.workers,
            self.prediction.then_ns / 1e6,
            gain(self.prediction.now_ns, self.prediction.then_ns),
            gain(before, after),
            100.0 * self.error_of_gain(),
        )?;
        for way in [&self.before, &self.after] {
            if let (Some(report), Some(trace)) = (way.report(), way.summary.trace()) {
                write!(f, "\n{}\n  {}", trace.display(), report.verdict)?;
            }
        }
        Ok(())
    }
}
