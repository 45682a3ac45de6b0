//! Epochs with one or two batches for each worker: what more workers are worth is a matter of rounds.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat};

const EPOCHS: u64 = 4;

/// What a run is like, times in milliseconds.
#[derive(Clone, Copy)]
struct Run {
    pytorch: bool,
    batches: u64,
    /// None: the thread that trains makes the batches.
    workers: u64,
    make: u64,
    rest: u64,
    /// How long is compiled for a device in the last step of the first epoch; 0: no device was recorded.
    compiled: u64,
}

const SHORT: Run = Run {
    pytorch: true,
    batches: 7,
    workers: 4,
    make: 1_000,
    rest: 10,
    compiled: 0,
};

impl Run {
    /// When the steps of an epoch that begins at `at` begin, when their batches are there, and when they end:
    /// each worker makes every so many-th batch.
    fn epoch(&self, mut at: u64) -> Vec<(u64, u64, u64)> {
        let begin = at;
        let mut steps = Vec::new();
        for batch in 0..self.batches {
            let made = match self.workers {
                0 => at + self.make,
                workers => begin + (batch / workers + 1) * self.make,
            };
            let there = made.max(at);
            steps.push((at, there, there + self.rest));
            at = there + self.rest;
        }
        steps
    }

    /// How long a step takes, over all of an epoch.
    fn step_ms(&self) -> f64 {
        let end = self.epoch(0).last().map_or(0, |step| step.2);
        end as f64 / self.batches as f64
    }

    fn report(&self) -> Report {
        let mut b = Builder::new();
        b.unit = 1_000_000;
        b.trace.meta.cpus = 16;
        let main = b.thread(100, "main");
        let workers: Vec<_> = (0..self.workers as u32)
            .map(|i| b.thread(101 + i, &format!("worker-{i}")))
            .collect();
        if self.pytorch {
            b.trace.strings.intern(arg::FRAMEWORK);
            b.trace.strings.intern(PYTORCH);
        }
        let mut at = 0;
        for epoch in 0..EPOCHS {
            for (step, (start, there, mut end)) in (0..).zip(self.epoch(at)) {
                let batch = epoch * self.batches + step;
                if self.compiled > 0 {
                    let last = epoch == 0 && step + 1 == self.batches;
                    let begin = there + if last { self.compiled } else { 0 };
                    if last {
                        b.call(main, "cuModuleLoadData", 0, (there, begin));
                    }
                    end = begin + self.rest;
                    let stream = b.stream(0, 7);
                    b.launch(
                        main,
                        stream,
                        batch + 1,
                        (begin, begin + 1),
                        (begin + 1, end),
                    );
                }
                let own = workers.get((step % self.workers.max(1)) as usize);
                let tid = own.map_or(100, |_| 101 + (step % self.workers) as u32);
                b.step("train", epoch, step, 100, (start, end));
                b.wait(
                    main,
                    "train",
                    (epoch, step),
                    Some((batch, tid)),
                    (start, there),
                );
                let made = match self.workers {
                    0 => there,
                    workers => at + (step / workers + 1) * self.make,
                };
                let get = (made - self.make, made);
                let cpu = self.make * 1_000;
                b.stage(*own.unwrap_or(&main), cat::DATA_GET, batch, Some(cpu), get);
            }
            at = self.epoch(at).last().map_or(at, |step| step.2);
            if epoch == 0 {
                at += self.compiled;
            }
            let loader = [(arg::LOADER, V::S("train")), (arg::EPOCH, V::N(epoch))];
            b.slice(main, cat::EPOCH_END, "epoch end", (at, at), &loader);
        }
        for tid in 100..=100 + self.workers as u32 {
            b.watch(tid, (0, at), &[]);
        }
        diagnose(&b.build(at))
    }
}

fn of(report: &Report, cause: Cause) -> &Finding {
    let mut findings = report.findings.iter();
    let found = findings.find(|finding| finding.cause == cause);
    found.unwrap_or_else(|| panic!("no {cause}\n{report}"))
}

fn predicted_ms(finding: &Finding, workers: u64) -> f64 {
    let mut counts = finding.worker_counts.iter();
    let count = counts.find(|count| count.workers == workers);
    count.expect("it is predicted").predicted_step_ns as f64 / 1e6
}

#[test]
fn what_more_or_fewer_workers_reach_in_a_short_epoch_is_what_is_predicted() {
    for (pytorch, have) in [
        (true, 0),
        (true, 2),
        (true, 4),
        (false, 0),
        (false, 3),
        (false, 5),
    ] {
        let run = Run {
            pytorch,
            workers: have,
            ..SHORT
        };
        let report = run.report();
        // With five of them some have nothing to do for half of the epoch, which is no limit then.
        let cause = match have {
            0 | 5 => Cause::DataCompute,
            _ => Cause::DataWorkerLimit,
        };
        let finding = of(&report, cause);
        let set = if pytorch {
            "num_workers=7"
        } else {
            ".num_workers(7)"
        };
        assert!(finding.remedy.contains(set), "{report}");
        assert_eq!(finding.evidence["epoch_batches"], 7.0, "{report}");
        for workers in 1..=9 {
            let reaches = Run { workers, ..run }.step_ms();
            let off = predicted_ms(finding, workers) / reaches - 1.0;
            assert!(
                off.abs() < 0.05,
                "{have} to {workers}: off by {off}\n{report}"
            );
        }
    }
}

#[test]
fn a_worker_for_each_batch_is_advised_and_none_that_gains_nothing() {
    for (pytorch, set) in [(true, "num_workers=7"), (false, ".num_workers(7)")] {
        let report = Run { pytorch, ..SHORT }.report();
        let limit = of(&report, Cause::DataWorkerLimit);
        let told = format!("{set} instead of 4: ");
        assert!(limit.remedy.starts_with(&told), "{report}");
        let rounds = "An epoch has 7 batches, which 4 workers make in 2 rounds and 7 in 1 round.";
        assert!(limit.remedy.contains(rounds), "{report}");
        let first = of(&report, Cause::DataStartup);
        assert!(
            first.remedy.starts_with("an epoch has 7 batches, and "),
            "{report}"
        );
        assert!(
            first
                .remedy
                .contains("the first one takes 1.00 s with any number"),
            "{report}"
        );
        let sooner = format!("The others come sooner with {set} instead of 4: a step of 153 ms");
        assert!(first.remedy.contains(&sooner), "{report}");
        // It takes no time to start and end them.
        assert!(!first.remedy.contains("persistent_workers"), "{report}");

        // Both compare the same steps: all of them.
        assert_eq!(first.step_ns, limit.step_ns, "{report}");
        let all = report.window_ns / (EPOCHS * SHORT.batches);
        assert_eq!(limit.step_ns, Some(all), "{report}");
        for finding in [first, limit] {
            let basis = "time of the whole window per step";
            assert!(finding.assumption.ends_with(basis), "{report}");
        }
        let reaches = Run {
            workers: 7,
            ..SHORT
        }
        .step_ms()
            * 1e6;
        let predicted = limit.predicted_step_ns.expect("it is predicted") as f64;
        assert!((predicted / reaches - 1.0).abs() < 0.05, "{report}");
    }
}

#[test]
fn with_a_worker_for_each_batch_no_more_are_advised() {
    let report = Run {
        workers: 7,
        ..SHORT
    }
    .report();
    let [only] = report.findings.as_slice() else {
        panic!("the first batch alone is waited for: {report}");
    };
    assert_eq!(only.cause, Cause::DataStartup);
    assert!(only.remedy.contains("with any number of them"), "{report}");
    assert!(!only.remedy.contains("num_workers"), "{report}");
}

#[test]
fn without_a_prediction_the_number_is_that_with_a_round_less() {
    // No time is left of a step without its wait.
    let report = Run { rest: 0, ..SHORT }.report();
    let limit = of(&report, Cause::DataWorkerLimit);
    assert!(limit.worker_counts.is_empty(), "{report}");
    let told = "more workers, while CPUs are free: num_workers=7. Or ";
    assert!(limit.remedy.starts_with(told), "{report}");
}

#[test]
fn in_a_long_epoch_it_is_the_rate_of_the_steady_steps() {
    for pytorch in [true, false] {
        let run = Run {
            pytorch,
            batches: 200,
            make: 100,
            ..SHORT
        };
        let report = run.report();
        let limit = of(&report, Cause::DataWorkerLimit);
        assert!(!limit.evidence.contains_key("epoch_batches"), "{report}");
        assert!(
            limit.assumption.ends_with("mean of the steady steps"),
            "{report}"
        );
        assert_eq!(limit.step_ns, Some(report.steps.mean_ns), "{report}");
        assert!(
            limit.remedy.contains("10") && !limit.remedy.contains("An epoch"),
            "{report}"
        );
        for (workers, step) in [(1, 100.0), (2, 50.0), (5, 20.0), (10, 10.0), (16, 10.0)] {
            let off = predicted_ms(limit, workers) / step - 1.0;
            assert!(off.abs() < 0.05, "{workers}: off by {off}\n{report}");
        }
    }
}

#[test]
fn what_is_compiled_once_is_no_part_of_the_steps_of_a_short_epoch() {
    let run = Run {
        compiled: 1_000,
        ..SHORT
    };
    let report = run.report();
    assert!(report.charges_ns["host.compile"] > 900_000_000, "{report}");
    let mut findings = report.findings.iter();
    let limit = findings.find(|of| !of.worker_counts.is_empty());
    let limit = limit.expect("workers are predicted");
    assert!(
        limit.remedy.contains("num_workers=7 instead of 4"),
        "{report}"
    );
    assert!(
        limit
            .assumption
            .ends_with("but for what was compiled and loaded"),
        "{report}"
    );
    for workers in [1, 4, 7] {
        let reaches = Run { workers, ..run }.step_ms();
        let off = predicted_ms(limit, workers) / reaches - 1.0;
        assert!(off.abs() < 0.05, "{workers}: off by {off}\n{report}");
    }
}
