//! What a report advises about workers in one finding, no other finding of it contradicts.

mod common;

use common::kernel::{blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat};

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
fn where_workers_wait_for_each_other_at_a_lock_nobody_advises_more_of_them() {
    let end = 100_000 + STEPS * STEP;
    for class in ["file read", "sleep"] {
        let mut step = 0;
        // Both workers make batches all the time, and CPUs are free.
        let report = report_of(8, (35_000, 0), |b, rest| {
            let tid = 101 + (step % 2) as u32;
            let class = if step % 4 < 2 { "futex" } else { class };
            b.off(tid, blocked(class, ""), (rest.0 - 6_000, rest.0));
            step += 1;
            if step == STEPS {
                b.watch(101, (0, end), &[]);
                b.watch(102, (0, end), &[]);
            }
        });
        let causes: Vec<Cause> = report.findings.iter().map(|of| of.cause).collect();
        assert!(causes.contains(&Cause::DataLock), "{report}");
        let beside = match class {
            "file read" => Cause::DataIo,
            _ => Cause::DataWorkerLimit,
        };
        assert!(causes.contains(&beside), "{report}");
        for finding in &report.findings {
            let told = &finding.remedy;
            assert!(
                told.to_lowercase().contains("more workers do not help"),
                "{report}"
            );
            assert!(!told.contains("num_workers"), "{report}");
            assert!(finding.worker_counts.is_empty(), "{report}");
        }
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

/// Batches of 30 ms and so many workers that share their CPUs with another program, in a program of PyTorch: a
/// worker waits for one for a third of two batches in three, computes for `cpu` microseconds of each, and
/// sleeps else.
fn short_of_cpus(workers: u64, cpus: u32, cpu: u64) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    let tracks: Vec<_> = (0..workers)
        .map(|i| b.thread(101 + i as u32, &format!("worker-{i}")))
        .collect();
    b.trace.strings.intern(arg::FRAMEWORK);
    b.trace.strings.intern(PYTORCH);
    // Each worker makes its batch while the others do, and all are taken in turn.
    let each = 30_000 / workers;
    for batch in 0..STEPS {
        let (start, on) = (100_000 + batch * each, (batch % workers) as usize);
        let made = start + each - 2_000;
        b.step("train", 0, batch, 100, (start, start + each));
        let tid = 101 + on as u32;
        b.wait(main, "train", (0, batch), Some((batch, tid)), (start, made));
        let ready = if batch % 3 == 0 { 0 } else { 10_000_000 };
        let args = [
            (arg::BATCH, V::N(batch)),
            (arg::ITEMS, V::N(64)),
            (arg::CPU_NS, V::N(cpu * 1000)),
            (arg::RUNNABLE_NS, V::N(ready)),
        ];
        let get = (made - 29_900, made);
        b.slice(tracks[on], cat::DATA_GET, cat::DATA_GET, get, &args);
    }
    diagnose(&b.build(100_000 + STEPS * each))
}

/// What is predicted with so many workers, in milliseconds.
fn predicted(finding: &Finding, workers: u64) -> f64 {
    let mut counts = finding.worker_counts.iter();
    let of = counts.find(|count| count.workers == workers);
    of.expect("it is predicted").predicted_step_ns as f64 / 1e6
}

#[test]
fn what_is_said_of_more_workers_that_wait_for_a_cpu_follows_their_predicted_steps() {
    let report = short_of_cpus(1, 4, 10_000);
    let finding = &report.findings[0];
    assert_eq!(finding.cause, Cause::DataContended, "{report}");
    assert!(
        predicted(finding, 2) < 0.9 * predicted(finding, 1),
        "{report}"
    );
    let told = &finding.remedy;
    assert!(told.contains(" instead of 1: a step of "), "{report}");
    assert!(told.contains("waited for a CPU for 23 %"), "{report}");
    assert!(!report.to_string().contains("not help"), "{report}");
    assert!(!report.to_string().contains("no CPU for more"), "{report}");
    assert!(finding.predicted_step_ns < finding.step_ns, "{report}");
    // What the same number of workers gains is said once.
    let second = report.findings.get(1).map(|of| of.remedy.as_str());
    assert_eq!(second, Some("the remedy of 1 mends this too."), "{report}");
    // On one CPU that they fill they gain nothing.
    let report = short_of_cpus(1, 1, 19_900);
    let finding = &report.findings[0];
    assert_eq!(finding.cause, Cause::DataContended, "{report}");
    assert!(
        predicted(finding, 2) > 0.9 * predicted(finding, 1),
        "{report}"
    );
    let told = &finding.remedy;
    let no = told.contains("more of them do not help") || told.contains("help little: with");
    assert!(no && told.starts_with("more CPUs"), "{report}");
}

/// Two workers, watched, that make batches in 18 ms of computing; `busy`: as fast as they can.
fn compute(busy: bool) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 2;
    let main = b.thread(100, "main");
    let workers = [b.thread(101, "worker-0"), b.thread(102, "worker-1")];
    b.trace.strings.intern(arg::FRAMEWORK);
    b.trace.strings.intern(PYTORCH);
    let step = if busy { 9_000 } else { 18_000 };
    for batch in 0..STEPS {
        let (start, on) = (100_000 + batch * step, (batch % 2) as usize);
        let tid = 101 + on as u32;
        let made = start + step - 1_000;
        b.step("train", 0, batch, 100, (start, start + step));
        b.wait(main, "train", (0, batch), Some((batch, tid)), (start, made));
        b.off(100, blocked("poll", "poll_schedule_timeout"), (start, made));
        let get = (made - 17_900, made);
        b.stage(workers[on], cat::DATA_GET, batch, Some(17_900), get);
    }
    for tid in [100, 101, 102] {
        b.watch(tid, (0, 100_000 + STEPS * step), &[]);
    }
    diagnose(&b.build(100_000 + STEPS * step))
}

#[test]
fn of_workers_that_compute_it_is_said_whether_they_are_busy_or_without_a_cpu() {
    for (busy, why) in [
        (
            true,
            "the workers compute, and there is no CPU for one more",
        ),
        (
            false,
            "the workers compute, and are not all busy: on average one makes batches for 50 %",
        ),
    ] {
        let report = compute(busy);
        let finding = &report.findings[0];
        assert_eq!(finding.cause, Cause::DataCompute, "{report}");
        assert!(finding.remedy.contains(why), "{report}");
        assert!(!finding.remedy.contains("or they are"), "{report}");
    }
}
