//! PyTorch's workers are started with each epoch and ended after it, one after the other, unless they are kept.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat, kind};

/// Of which the first one may be another one than the rest.
const EPOCHS: u64 = 6;

const MAKE: u64 = 100;
const REST: u64 = 2;

/// What a run is like, times in milliseconds.
#[derive(Clone, Copy)]
struct Run {
    batches: u64,
    workers: u64,
    kept: bool,
    /// A loader is made for each epoch.
    anew: bool,
    /// To start and to end one worker, and until it begins its first batch.
    start: u64,
    end: u64,
    before: u64,
}

const RUN: Run = Run {
    batches: 40,
    workers: 2,
    kept: false,
    anew: false,
    start: 30,
    end: 10,
    before: 0,
};

impl Run {
    fn turns_over(&self, epoch: u64) -> bool {
        epoch == 0 || !self.kept
    }

    /// The steps of an epoch of which the workers are there at `begin`: asked for, there, and done.
    fn steps(&self, begin: u64) -> Vec<(u64, u64, u64)> {
        let mut at = begin;
        let step = |batch| {
            let there = at.max(begin + (batch / self.workers + 1) * MAKE);
            let step = (at, there, there + REST);
            at = step.2;
            step
        };
        (0..self.batches).map(step).collect()
    }

    fn report(&self) -> Report {
        let mut b = Builder::new();
        b.unit = 1_000_000;
        b.trace.meta.cpus = 64;
        let main = b.thread(100, "main");
        let workers: Vec<_> = (0..self.workers as u32)
            .map(|i| b.thread(101 + i, &format!("worker-{i}")))
            .collect();
        let mut at = 0;
        for epoch in 0..EPOCHS {
            let loader = |step: Option<u64>| {
                let mut args = vec![
                    (arg::LOADER, V::S("train")),
                    (arg::KIND, V::S(kind::TRAIN)),
                    (arg::FRAMEWORK, V::S(PYTORCH)),
                    (arg::EPOCH, V::N(epoch)),
                    (arg::NUM_WORKERS, V::N(self.workers)),
                ];
                if self.kept {
                    args.push((arg::PERSISTENT, V::B(true)));
                }
                args.extend(step.map(|step| (arg::STEP, V::N(step))));
                args
            };
            let turns_over = u64::from(self.turns_over(epoch));
            let started = at + turns_over * self.start * self.workers;
            let mut begins = loader(None);
            if self.anew || epoch == 0 {
                begins.push((arg::NEW_LOADER, V::B(true)));
            }
            b.slice(main, cat::EPOCH_START, "iter", (at, started), &begins);
            let begin = started + turns_over * self.before;
            let mut steps = self.steps(begin);
            steps[0].0 = started;
            for (step, (asked, there, done)) in (0..).zip(steps) {
                let batch = epoch * self.batches + step;
                let own = step % self.workers;
                let mut args = loader(Some(step));
                args.push((arg::BATCH, V::N(batch)));
                args.push((arg::WORKER, V::N(101 + own)));
                b.step("train", epoch, step, 100, (asked, done));
                b.slice(main, cat::DATA_WAIT, "data wait", (asked, there), &args);
                let made = begin + (step / self.workers + 1) * MAKE;
                let get = (made - MAKE, made);
                b.stage(workers[own as usize], cat::DATA_GET, batch, Some(0), get);
                at = done;
            }
            let ended = at + u64::from(!self.kept) * self.end * self.workers;
            b.slice(
                main,
                cat::EPOCH_END,
                "epoch end",
                (at, ended),
                &loader(None),
            );
            at = ended;
        }
        for tid in 100..=100 + self.workers as u32 {
            b.watch(tid, (0, at), &[]);
        }
        diagnose(&b.build(at))
    }

    /// How long a step of an epoch takes that is not the first one, with all that belongs to the epoch.
    fn step_ms(&self) -> f64 {
        let turnover = self.workers * (self.start + self.end) + self.before;
        let turnover = u64::from(!self.kept) * turnover;
        let steps = self.steps(0).last().map_or(0, |step| step.2);
        (turnover + steps) as f64 / self.batches as f64
    }
}

fn with_counts(report: &Report) -> &Finding {
    let mut findings = report.findings.iter();
    let found = findings.find(|finding| !finding.worker_counts.is_empty());
    found.unwrap_or_else(|| panic!("nothing is predicted\n{report}"))
}

#[test]
fn workers_that_are_kept_are_advised_and_predicted_from_some_that_are_not() {
    for workers in [1, 2, 4, 8] {
        let run = Run { workers, ..RUN };
        let report = run.report();
        let finding = with_counts(&report);
        let advised = finding.advised_workers().expect("a number is advised");
        for count in &finding.worker_counts {
            let kept = Run {
                workers: count.workers,
                kept: true,
                ..RUN
            };
            let off = count.predicted_step_ns as f64 / 1e6 / kept.step_ms() - 1.0;
            assert!(
                off.abs() < 0.06,
                "{workers} to {}: off by {off}\n{report}",
                count.workers
            );
        }
        let set = format!(
            "num_workers={} instead of {workers} and persistent_workers=True",
            advised.workers
        );
        assert!(finding.remedy.starts_with(&set), "{report}");
        assert!(
            finding
                .remedy
                .contains("one takes 40.0 ms to start and end"),
            "{report}"
        );
        let table = &finding.worker_counts_assume;
        assert!(
            table.starts_with("with persistent_workers=True"),
            "{report}"
        );
        // And with those that are not kept it is what these take.
        let not_kept = Run {
            workers: advised.workers,
            ..RUN
        };
        let words = format!("that are not kept a step is {:.1} ms", not_kept.step_ms());
        assert!(finding.remedy.contains(&words), "{words}\n{report}");
    }
}

#[test]
fn what_workers_do_before_their_first_batch_is_kept_too() {
    let run = Run { before: 500, ..RUN };
    let report = run.report();
    let finding = with_counts(&report);
    for workers in [1, 2, 8] {
        let kept = Run {
            workers,
            kept: true,
            ..RUN
        };
        let count = &finding.worker_counts[workers as usize - 1];
        let off = count.predicted_step_ns as f64 / 1e6 / kept.step_ms() - 1.0;
        assert!(off.abs() < 0.06, "{workers}: off by {off}\n{report}");
    }
    let told = "one takes 40.0 ms to start and end, and 500 ms until it begins its first batch";
    assert!(finding.remedy.contains(told), "{report}");
}

#[test]
fn a_loader_that_is_made_anew_has_no_workers_to_keep() {
    let run = Run { anew: true, ..RUN };
    let report = run.report();
    assert!(
        !report.to_string().contains("persistent_workers"),
        "{report}"
    );
    let finding = with_counts(&report);
    for workers in [1, 2, 8] {
        let then = Run { workers, ..run };
        let count = &finding.worker_counts[workers as usize - 1];
        let off = count.predicted_step_ns as f64 / 1e6 / then.step_ms() - 1.0;
        assert!(off.abs() < 0.06, "{workers}: off by {off}\n{report}");
    }
}

#[test]
fn the_start_of_workers_that_are_kept_is_no_part_of_steps() {
    let run = Run {
        kept: true,
        workers: 8,
        ..RUN
    };
    let report = run.report();
    let finding = with_counts(&report);
    assert!(!finding.remedy.contains("persistent_workers"), "{report}");
    let eight = &finding.worker_counts[7];
    assert_eq!(eight.workers, 8);
    let off = eight.predicted_step_ns as f64 / 1e6 / run.step_ms() - 1.0;
    assert!(off.abs() < 0.02, "off by {off}\n{report}");
}

#[test]
fn where_it_is_next_to_nothing_steady_steps_are_predicted() {
    let run = Run {
        batches: 1_000,
        start: 1,
        end: 0,
        ..RUN
    };
    let report = run.report();
    let finding = with_counts(&report);
    assert!(
        finding.assumption.ends_with("mean of the steady steps"),
        "{report}"
    );
    assert!(
        !report.to_string().contains("persistent_workers"),
        "{report}"
    );
}

#[test]
fn where_starting_them_is_the_loss_the_number_stays() {
    // Batches are made as fast as they are asked for.
    let run = Run {
        workers: 50,
        batches: 100,
        ..RUN
    };
    let report = run.report();
    let mut findings = report.findings.iter();
    let start = findings.find(|finding| finding.cause == Cause::DataStartup);
    let start = start.unwrap_or_else(|| panic!("no start\n{report}"));
    let told = "persistent_workers=True keeps the workers from one epoch to the next, and one takes 40.0 ms to \
                start and end: with the 50 that there are a step of ";
    assert!(start.remedy.starts_with(told), "{report}");
    let predicted = start.predicted_step_ns.expect("it is predicted") as f64 / 1e6;
    let off = predicted / Run { kept: true, ..run }.step_ms() - 1.0;
    assert!(off.abs() < 0.06, "off by {off}\n{report}");
}
