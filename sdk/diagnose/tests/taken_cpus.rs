//! Other programs keep CPUs of the job busy: that is said where it is why workers do not help.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, arg, cat};

const OTHERS: &str = "other programs (gpustall's sidecar included)";

/// Batches of 30 ms of computing that are made in process, and 8 ms of the rest of the step, on two CPUs
/// of which others keep `taken` busy.
fn in_process(taken: f64, pytorch: bool) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 2;
    let main = b.thread(100, "main");
    let mut at = 100_000;
    for step in 0..60 {
        let get = (at, at + 30_000);
        b.step("train", 0, step, 100, (at, get.1 + 8_000));
        b.wait(main, "train", (0, step), Some((step, 100)), get);
        b.stage(main, cat::DATA_GET, step, Some(30_000), get);
        at = get.1 + 8_000;
    }
    b.watch(100, (0, at), &[]);
    b.sample(100, "user", "augment", at - 1);
    // The trainer itself runs all the time.
    b.machine(2, &[(0, 0.0), (at, 1.0 + taken)]);
    let mut trace = b.build(at);
    if pytorch {
        trace.strings.intern(arg::FRAMEWORK);
        trace.strings.intern(PYTORCH);
    }
    diagnose(&trace)
}

#[test]
fn workers_that_find_no_free_cpu_are_no_help_until_the_others_are_gone() {
    for (pytorch, set) in [
        (true, "num_workers=2, persistent"),
        (false, ".num_workers(2) is"),
    ] {
        let report = in_process(1.0, pytorch);
        let finding = &report.findings[0];
        let told = &finding.remedy;
        let others = format!("{OTHERS} keep 1.0 of the 2 CPUs that this job may use busy");
        let reason = format!("free the CPUs first: {others}");
        assert!(told.starts_with(&reason), "{report}");
        assert!(
            told.contains(set) && told.contains("a step of 19.0 ms"),
            "{report}"
        );
        assert!(!told.contains("would need more CPUs"), "{report}");
        let assumed = format!("{others}; on free CPUs 2 workers give a step of 19.0 ms");
        assert_eq!(finding.worker_counts_assume, assumed);
    }
}

#[test]
fn on_free_cpus_workers_are_advised_and_nobody_else_is_blamed() {
    for pytorch in [true, false] {
        let report = in_process(0.0, pytorch);
        let finding = &report.findings[0];
        assert!(
            finding
                .remedy
                .contains("a step of 19.0 ms is predicted, then the CPUs are the limit"),
            "{report}"
        );
        assert!(!report.to_string().contains("other programs"), "{report}");
        assert_eq!(finding.worker_counts_assume, "");
    }
}

#[test]
fn the_limit_of_the_cpus_is_others_where_these_keep_a_part_of_them() {
    let report = in_process(0.5, true);
    let told = &report.findings[0].remedy;
    let limit = format!("then the CPUs are the limit, since {OTHERS} keep 0.5 of the 2 CPUs");
    assert!(told.contains(&limit), "{report}");
}

/// Batches of 30 ms of computing that are made in process, for which the thread waits for a CPU for `ready`
/// milliseconds more, by its own word; and 3 ms of the rest of the step.
fn waits_for_cpu(cpus: u32, ready: u64, pytorch: bool) -> Report {
    waits(cpus, (ready, 0), pytorch)
}

/// The same, where it does something else than both for some milliseconds more.
fn waits(cpus: u32, (ready, other): (u64, u64), pytorch: bool) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = cpus;
    let main = b.thread(100, "main");
    if pytorch {
        b.trace.strings.intern(arg::FRAMEWORK);
        b.trace.strings.intern(PYTORCH);
    }
    let mut at = 100_000;
    for step in 0..60 {
        let get = (at, at + 30_000 + (ready + other) * 1_000);
        b.step("train", 0, step, 100, (at, get.1 + 3_000));
        b.wait(main, "train", (0, step), Some((step, 100)), get);
        let args = [
            (arg::BATCH, V::N(step)),
            (arg::ITEMS, V::N(64)),
            (arg::CPU_NS, V::N(30_000_000)),
            (arg::RUNNABLE_NS, V::N(ready * 1_000_000)),
        ];
        b.slice(main, cat::DATA_GET, cat::DATA_GET, get, &args);
        at = get.1 + 3_000;
    }
    diagnose(&b.build(at))
}

const SHORT: &str =
    "The thread that makes batches in next() waited for a CPU for 50 % of that time";

#[test]
fn on_the_one_cpu_of_a_job_no_worker_gains_however_long_the_thread_waits_for_it() {
    for (pytorch, ready) in [(true, 30), (true, 5), (true, 0), (false, 30)] {
        let report = waits_for_cpu(1, ready, pytorch);
        let finding = &report.findings[0];
        let step = (33 + ready) * 1_000_000;
        assert_eq!(finding.step_ns, Some(step), "{report}");
        for count in &finding.worker_counts {
            let least = step as f64 * 0.98;
            assert!(count.predicted_step_ns as f64 > least, "{report}");
        }
        let told = &finding.remedy;
        let why = "Workers would need more than the one CPU that this job may use: ";
        assert!(told.starts_with("make a batch cheaper"), "{report}");
        assert!(told.contains(why), "{report}");
        assert!(!report.to_string().contains("1 CPUs"), "{report}");
        assert!(!report.to_string().contains("on free CPUs"), "{report}");
        let noted = report.notes.iter().any(|note| note.starts_with(SHORT));
        assert_eq!(noted, ready == 30, "{report}");
    }
}

#[test]
fn who_waits_for_a_cpu_by_its_own_word_has_none_free_for_workers_until_the_others_are_gone() {
    let report = waits_for_cpu(2, 30, true);
    let finding = &report.findings[0];
    let told = &finding.remedy;
    let reason = "free the CPUs first: who makes the batches waits for a CPU for 50 % of that time, so none \
                  that this job may use is free";
    assert!(told.starts_with(reason), "{report}");
    assert!(told.contains("num_workers=2, persistent"), "{report}");
    assert!(told.contains("a step of 16.5 ms"), "{report}");
    assert!(!report.to_string().contains("other programs"), "{report}");
    assert!(report.notes[0].starts_with(SHORT), "{report}");
    // On one free CPU a worker that computes is no faster, whatever little else it does.
    let report = waits(1, (60, 5), true);
    assert!(!report.to_string().contains("ree CPUs"), "{report}");
    // Who waits little for one has some free.
    let report = waits_for_cpu(2, 2, true);
    let limited = "a step of 16.5 ms is predicted, then the CPUs are the limit; ";
    assert!(report.findings[0].remedy.contains(limited), "{report}");
    assert!(report.notes.is_empty(), "{report}");
}
