//! Jobs that read, and what their reports predict beside what became of them.

use super::{Disk, Job, Ran};
use gpustall_diagnose::{Report, WorkerCount, diagnose};
use gpustall_trace::Trace;

/// A predicted gain may be off by so much of the true one, as elsewhere.
const OFF: f64 = 0.2;

/// A gain below this share of the step is no test of a prediction; then the step may be off by
const LEAST_GAIN: f64 = 0.2;

/// this share of it. The same holds beyond a bound: no run is exactly like another.
pub const STEP_OFF: f64 = 0.06;

/// A job with many batches, of which each reads 24 times.
pub fn job(disk: Disk, workers: usize) -> Job {
    Job {
        disk,
        workers,
        batches: 480,
        reads_a_batch: 24,
        item: 20,
        collate: 300,
        rest: 100,
        seed: 7,
    }
}

/// The prediction for so many workers.
pub fn count(report: &Report, workers: usize) -> Option<WorkerCount> {
    let of = |count: &&WorkerCount| count.workers == workers as u64;
    let mut counts = report.findings.first()?.worker_counts.iter();
    counts.find(of).copied()
}

/// The text of a report on one line.
pub fn words(report: &Report) -> String {
    let text = report.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What was predicted, and how much of it was wrong.
#[derive(Debug, Default)]
pub struct Predictions {
    numbers: usize,
    bounds: usize,
    wrongs: Vec<String>,
}

impl Predictions {
    /// What is predicted of each run of the job with a number of workers, against the runs with the others;
    /// `recorded` makes the trace of it that is diagnosed.
    pub fn add(&mut self, name: &str, job: Job, counts: &[usize], recorded: fn(Trace) -> Trace) {
        let with = |&workers: &usize| (workers, Job { workers, ..job }.run());
        let runs: Vec<(usize, Ran)> = counts.iter().map(with).collect();
        let steps: Vec<(usize, f64)> = runs.iter().map(|(of, ran)| (*of, ran.step_ns)).collect();
        for (have, run) in runs {
            let report = diagnose(&recorded(run.trace));
            for &(other, then) in steps.iter().filter(|of| of.0 != have) {
                let Some(predicted) = count(&report, other) else {
                    continue;
                };
                match predicted.at_most_step_ns {
                    Some(_) => self.bounds += 1,
                    None => self.numbers += 1,
                }
                if let Some(told) = wrong(run.step_ns, predicted, then) {
                    let assumed = &report.findings[0].worker_counts_assume;
                    let told = format!("{name}: {have} -> {other} workers: {told}; {assumed}");
                    self.wrongs.push(told);
                }
            }
        }
    }

    /// There are so many, and none is wrong.
    pub fn assert_right(&self, least: usize) {
        let (numbers, bounds) = (self.numbers, self.bounds);
        assert!(
            numbers + bounds >= least,
            "{numbers} numbers, {bounds} bounds"
        );
        let wrongs = self.wrongs.join("\n");
        assert!(
            wrongs.is_empty(),
            "{wrongs}\n{} of {numbers} numbers and {bounds} bounds",
            self.wrongs.len()
        );
    }
}

/// What is wrong with a prediction, if anything.
fn wrong(now: f64, predicted: WorkerCount, then: f64) -> Option<String> {
    let least = predicted.predicted_step_ns as f64;
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let most = predicted.at_most_step_ns.map(|most| most as f64);
    let slack = STEP_OFF * then;
    let right = match most {
        Some(most) => least - slack <= then && then <= most + slack,
        None if (now - then).abs() < LEAST_GAIN * now => (least - then).abs() <= STEP_OFF * now,
        None => (least - then).abs() <= OFF * (now - then).abs(),
    };
    let to = most.map_or(String::new(), |most| format!(" to {}", ms(most)));
    let (now, least, then) = (ms(now), ms(least), ms(then));
    (!right).then(|| format!("step {now}, predicted {least}{to}, done {then}"))
}
