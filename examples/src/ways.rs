//! One run in a session of its own, and several beside each other.

use burn::prelude::Device;
use gpustall::{Report, Summary};
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// One way of doing the work, run once.
#[derive(Debug)]
pub struct Way {
    /// What it is called.
    pub name: String,
    /// How long it took, until the device was done.
    pub seconds: f64,
    /// Steps that it took.
    pub steps: usize,
    /// What gpustall found.
    pub summary: Summary,
}

impl Way {
    /// Runs `run`, which returns how many steps it took, in a session; its trace goes to
    /// `directory`.
    ///
    /// # Errors
    ///
    /// Those of the run, and of a trace that cannot be written.
    pub fn run(
        name: &str,
        directory: &Path,
        device: &Device,
        run: impl FnOnce() -> anyhow::Result<usize>,
    ) -> anyhow::Result<Self> {
        let output = directory.join(format!("{name}.trace.json.gz"));
        let session = gpustall::session(name).output(output).start()?; // gpustall
        let start = Instant::now();
        let steps = run()?;
        device.sync()?; // a GPU is behind its host
        let seconds = start.elapsed().as_secs_f64();
        let summary = session.finish()?; // gpustall
        Ok(Self {
            name: name.to_owned(),
            seconds,
            steps,
            summary,
        })
    }

    /// The report, unless gpustall is switched off.
    pub fn report(&self) -> Option<&Report> {
        self.summary.report()
    }

    /// Mean time of a step, all of the run counted, nanoseconds.
    pub fn step_ns(&self) -> f64 {
        self.seconds * 1e9 / self.steps.max(1) as f64
    }
}

/// Share of the time that the trainer, or the device, waited for data.
fn data_wait(report: &Report) -> f64 {
    let causes = report.breakdown.iter();
    let data = causes.filter(|(cause, _)| cause.starts_with("data"));
    data.fold(0.0, |sum, (_, share)| sum + share)
}

/// Share of the time in which the device computed, where it was recorded.
fn busy(report: &Report) -> Option<f64> {
    let device = report.devices.iter().find(|device| device.tid.is_none())?;
    Some(device.compute)
}

/// The ways, one a row, the first one is what the others are compared with; then the verdict of
/// each and where its trace is.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Way]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = |way: &Way| way.report().and_then(busy).is_some();
        let devices = self.0.iter().any(recorded);
        write!(
            f,
            "{:<18} {:>8} {:>10} {:>10}",
            "way", "seconds", "vs direct", "data wait"
        )?;
        writeln!(f, "{}", if devices { "  GPU busy" } else { "" })?;
        let direct = self.0.first().map_or(f64::NAN, |way| way.seconds);
        for way in self.0 {
            let wait = way.report().map_or(f64::NAN, data_wait) * 100.0;
            let ratio = way.seconds / direct;
            write!(
                f,
                "{:<18} {:>8.2} {ratio:>9.1}x {wait:>8.0} %",
                way.name, way.seconds
            )?;
            match way.report().and_then(busy) {
                Some(busy) => writeln!(f, " {:>7.1} %", busy * 100.0)?,
                None => writeln!(f)?,
            }
        }
        writeln!(f)?;
        for way in self.0 {
            if let (Some(report), Some(trace)) = (way.report(), way.summary.trace()) {
                writeln!(f, "{}\n  {}", trace.display(), report.verdict)?;
            }
        }
        Ok(())
    }
}
