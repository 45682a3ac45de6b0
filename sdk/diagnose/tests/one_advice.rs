//! What a report advises about workers in one finding, no other finding of it contradicts.

mod common;

use common::Builder;
use common::kernel::{blocked, preempted};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::cat;

const STEP: u64 = 20_000;
const STEPS: u64 = 60;

/// A program of PyTorch with two workers: the trainer waits for a batch for 6 of the 20 ms of a step, of
/// which the batch was made already for `made` microseconds; then `rest` happens.
fn report(cpus: u32, made: u64, rest: impl FnMut(&mut Builder, (u64, u64))) -> Report {
    report_of(cpus, (15_000, made), rest)
}

/// The same, where a batch takes so many microseconds to make.
fn report_of(
    cpus: u32,
    (get, made): (u64, u64),
    mut rest: impl FnMut(&mut Builder, (u64, u64)),
) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    let workers = [b.thread(101, "worker-0"), b.thread(102, "worker-1")];
    b.thread(103, "pt_data_worker");
    let mut at = 100_000;
    for step in 0..STEPS {
        let (worker, tid) = (workers[(step % 2) as usize], 101 + (step % 2) as u32);
        let wait = (at, at + 6_000);
        b.step("train", 0, step, 100, (at, at + STEP));
        b.wait(main, "train", (0, step), Some((step, tid)), wait);
        b.off(100, blocked("poll", "poll_schedule_timeout"), wait);
        let get = (wait.1 - made - get, wait.1 - made);
        b.stage(worker, cat::DATA_GET, step, Some(1_000), get);
        rest(&mut b, (wait.1, at + STEP));
        at += STEP;
    }
    b.watch(100, (0, at), &[]);
    diagnose(&b.build(at))
}

fn remedies(report: &Report) -> Vec<&str> {
    let remedies = report.findings.iter().map(|of| of.remedy.as_str());
    remedies.collect()
}

#[test]
fn batches_that_are_made_already_need_no_more_workers() {
    let report = report(4, 5_000, |_, _| {});
    let told = remedies(&report);
    assert!(told[0].contains("more workers do not help"), "{report}");
    assert!(!told[0].contains("raise num_workers"), "{report}");
}

#[test]
fn where_workers_have_the_trainers_cpu_nobody_advises_more_of_them() {
    let report = report(4, 0, |b, rest| {
        let span = (rest.0 + 1_000, rest.0 + 8_000);
        b.off(100, preempted("worker-0", 101), span);
    });
    let told = remedies(&report);
    assert!(
        told.iter()
            .any(|of| of.contains("num_workers=1 instead of 2 leaves the trainer a CPU")),
        "{report}"
    );
    assert!(told.len() > 1, "{report}");
    for told in told {
        assert!(!told.contains("raise num_workers"), "{report}");
        let fewer = told.contains("leaves the trainer a CPU");
        assert!(fewer || !told.contains("instead of 2"), "{report}");
    }
}

#[test]
fn fewer_workers_are_not_advised_where_they_are_predicted_to_be_slower() {
    let report = report_of(4, (35_000, 0), |b, rest| {
        let span = (rest.0 + 1_000, rest.0 + 8_000);
        b.off(100, preempted("worker-0", 101), span);
    });
    let told = remedies(&report);
    let more = "the loader's own workers have its CPU, and fewer of them are not predicted to make a step \
                shorter: give the job more CPUs, or make batches cheaper.";
    assert!(told.contains(&more), "{report}");
    assert!(
        told.iter().all(|of| !of.contains("fewer workers")),
        "{report}"
    );
}

#[test]
fn more_workers_are_advised_only_where_they_are_predicted_to_be_faster() {
    for cpus in [1, 2, 8] {
        let report = report(cpus, 0, |_, _| {});
        for finding in &report.findings {
            let of = |workers: u64| {
                let mut counts = finding.worker_counts.iter();
                let of = counts.find(|count| count.workers == workers);
                of.map(|of| of.predicted_step_ns as f64)
            };
            let now = of(2).expect("a prediction for those there are");
            let more = (3..20).filter_map(of).fold(f64::INFINITY, f64::min);
            let told = &finding.remedy;
            let raises = told.contains("raise num_workers") || told.contains("instead of 2");
            assert!(!raises || more <= 0.98 * now, "{report}");
        }
    }
}
