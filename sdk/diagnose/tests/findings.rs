//! What becomes a finding, of which cause, and what it proposes.

mod common;

use common::{Builder, V, in_process, with_workers};
use gpustall_diagnose::{Cause, Report, Severity, diagnose};
use gpustall_trace::Trace;
use gpustall_trace::vocab::{self, arg, cat, kind};

fn causes(report: &Report) -> Vec<(Cause, Severity)> {
    report
        .findings
        .iter()
        .map(|finding| (finding.cause, finding.severity))
        .collect()
}

#[test]
fn a_healthy_run_has_no_findings() {
    let report = diagnose(&with_workers(50, 400, 1200));
    assert!(report.findings.is_empty());
    assert_eq!(
        report.verdict,
        "mlp: healthy: 96 % of the window is compute, no cause takes 5 %"
    );
    assert!(report.breakdown["data"] > 0.03);
}

#[test]
fn waiting_for_workers_is_data_and_no_more_than_that() {
    let report = diagnose(&with_workers(50, 7000, 12_000));
    assert_eq!(causes(&report), [(Cause::Data, Severity::High)]);
    assert_eq!(report.findings[0].lost_ns, 49 * 7_000_000);
    assert_eq!(report.findings[0].stalls.count, 49);
    assert!(report.findings[0].share > 0.68 && report.findings[0].share < 0.69);
}

#[test]
fn making_batches_in_process_is_data_compute_only_if_the_cpu_time_proves_it() {
    assert_eq!(
        causes(&diagnose(&in_process(50, 7000, 97))),
        [(Cause::DataCompute, Severity::High)]
    );
    assert_eq!(
        causes(&diagnose(&in_process(50, 7000, 60))),
        [(Cause::Data, Severity::High)]
    );
}

#[test]
fn a_wait_that_others_slowed_down_goes_with_its_loader_and_one_that_was_blocked_does_not() {
    for (cpu, share) in [(6000, 1.0), (600, 0.9)] {
        let mut b = Builder::new();
        let main = b.thread(100, "main");
        for step in 0..10 {
            let at = step * 10_000;
            b.step("train", 0, step, 100, (at, at + 10_000));
            b.wait(
                main,
                "train",
                (0, step),
                Some((step, 100)),
                (at, at + 10_000),
            );
            let cpu = if step == 5 { cpu } else { 9500 };
            b.stage(main, cat::DATA_COLLATE, step, Some(cpu), (at, at + 10_000));
        }
        let report = diagnose(&b.build(100_000));
        assert_eq!(report.breakdown["data.compute"], share);
    }
}

#[test]
fn severity_follows_the_share_of_the_window() {
    for (wait, severity) in [
        (2100, Severity::High),
        (1100, Severity::Medium),
        (600, Severity::Low),
    ] {
        let report = diagnose(&with_workers(50, wait, 300));
        assert_eq!(causes(&report), [(Cause::Data, severity)], "{wait}");
    }
}

#[test]
fn with_fewer_than_five_steps_there_is_too_little_to_judge() {
    let report = diagnose(&with_workers(4, 7000, 12_000));
    assert!(report.findings.is_empty());
    assert_eq!(
        report.verdict,
        "mlp: too little to judge: 4 complete training steps, 5 are needed, or 2 that take 10.0 s with \
         one cause for most of what is lost"
    );
    assert!(report.breakdown["data"] > 0.4);
}

#[test]
fn an_empty_trace_has_no_window() {
    let report = diagnose(&Builder::new().build(1000));
    assert_eq!(report.window_ns, 0);
    assert!(report.breakdown.is_empty());
    assert!(
        report
            .verdict
            .starts_with("mlp: too little to judge: no complete training step")
    );
}

/// Two epochs of ten steps of 10 ms; `iter()` and the first wait of each take `start` ms.
fn two_epochs(start: u64) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    let mut at = 0;
    for epoch in 0..2 {
        let args = [
            (arg::LOADER, V::S("train")),
            (arg::KIND, V::S(kind::TRAIN)),
            (arg::EPOCH, V::N(epoch)),
        ];
        b.slice(
            main,
            cat::EPOCH_START,
            "epoch start",
            (at, at + 1000),
            &args,
        );
        at += 1000;
        for step in 0..10 {
            let wait = if step == 0 { start * 1000 } else { 10 };
            let batch = epoch * 10 + step;
            b.wait(
                main,
                "train",
                (epoch, step),
                Some((batch, 101)),
                (at, at + wait),
            );
            b.stage(worker, cat::DATA_GET, batch, None, (at, at + wait - 5));
            b.step("train", epoch, step, 100, (at, at + wait + 10_000));
            at += wait + 10_000;
        }
    }
    diagnose(&b.build(at))
}

#[test]
fn the_first_wait_of_an_epoch_and_iter_are_startup() {
    let report = two_epochs(30);
    assert_eq!(causes(&report), [(Cause::DataStartup, Severity::High)]);
    // The window begins with the first step, after the first iter().
    assert_eq!(report.charges_ns["data.startup"], 61_000_000);
    assert_eq!(report.first_steps.length.count, 2);
    assert_eq!(report.first_steps.length.max_ns, 40_000_000);
    assert_eq!(report.steps.count, 18);
    assert_eq!(report.steps.max_ns, 10_010_000);
    let finding = &report.findings[0];
    assert!(
        finding.assumption.contains("first batch of each epoch"),
        "{report}"
    );
    assert_eq!(finding.step_ns, Some(13_059_000));
    assert_eq!(finding.predicted_step_ns, Some(10_009_000));
}

#[test]
fn phases_named_metrics_and_checkpoint_are_host_causes() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..20 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.phase(main, "forward", (at, at + 5000));
        b.phase(main, "metrics", (at + 6000, at + 9000));
        if step % 10 == 9 {
            b.phase(main, "checkpoint: weights", (at + 1000, at + 10_000));
        }
    }
    let report = diagnose(&b.build(200_000));
    // Within a checkpoint the metrics are the inner phase.
    assert_eq!(report.charges_ns["host.metrics"], 20 * 3_000_000);
    assert_eq!(report.charges_ns["host.checkpoint"], 2 * 6_000_000);
    let expected = [
        (Cause::HostMetrics, Severity::High),
        (Cause::HostCheckpoint, Severity::Low),
    ];
    assert_eq!(causes(&report), expected);
    assert!(
        report
            .verdict
            .contains("metrics work; main spends it in phase `metrics`")
    );
    let phases: Vec<&str> = report
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    assert_eq!(phases, ["forward", "metrics", "checkpoint: weights"]);
}

#[test]
fn the_predicted_step_is_the_mean_steady_step_without_its_mean_loss() {
    let report = diagnose(&with_workers(50, 7000, 12_000));
    let finding = &report.findings[0];
    assert_eq!(finding.step_ns, Some(10_000_000));
    assert_eq!(finding.predicted_step_ns, Some(3_000_000));
    assert!(
        finding
            .assumption
            .starts_with("if every batch were ready when asked for")
    );
}

#[test]
fn in_process_the_remedy_is_as_many_workers_as_keep_up() {
    let report = diagnose(&in_process(50, 7000, 97));
    let remedy = &report.findings[0].remedy;
    assert!(remedy.contains(".num_workers(3)"), "{remedy}");
    let mut few = in_process(50, 7000, 97);
    few.meta.cpus = 2;
    let report = diagnose(&few);
    let remedy = &report.findings[0].remedy;
    let words = ".num_workers(2): a step of 4.88 ms is predicted, then the CPUs are the limit";
    assert!(remedy.contains(words), "{remedy}");
    assert!(remedy.contains("index the data directly"), "{remedy}");
    // One CPU has no room for any.
    few.meta.cpus = 1;
    let report = diagnose(&few);
    let remedy = &report.findings[0].remedy;
    assert!(!remedy.contains(".num_workers("), "{remedy}");
}

#[test]
fn the_number_of_workers_that_a_remedy_names_is_the_best_of_the_table() {
    for cpus in [2, 3, 4, 8, 16] {
        for wait in [3000, 5000, 7000, 9000] {
            let mut trace = in_process(50, wait, 97);
            trace.meta.cpus = cpus;
            let finding = &diagnose(&trace).findings[0];
            let counts = finding
                .worker_counts
                .iter()
                .map(|count| count.predicted_step_ns);
            let least = counts.min().expect("there are counts") as f64;
            let named = finding.remedy.split(".num_workers(").nth(1);
            let Some(named) = named.and_then(|rest| rest.split(')').next()) else {
                let gain = least / finding.step_ns.expect("a step") as f64;
                assert!(gain > 0.9, "none is named: {}", finding.remedy);
                continue;
            };
            let named: usize = named.parse().expect("a number");
            let step = finding.worker_counts[named - 1].predicted_step_ns as f64;
            assert!(step <= least * 1.02, "{}", finding.remedy);
        }
    }
}

#[test]
fn workers_that_are_mostly_idle_are_not_multiplied() {
    let report = diagnose(&with_workers(50, 7000, 4000));
    let remedy = &report.findings[0].remedy;
    assert!(!remedy.contains(".num_workers("), "{remedy}");
}

#[test]
fn warm_up_is_reported_apart() {
    let mut b = Builder::new();
    b.thread(100, "main");
    let mut at = 0;
    for step in 0..30 {
        let len = if step < 4 { 100_000 } else { 10_000 };
        b.step("train", 0, step, 100, (at, at + len));
        at += len;
    }
    let report = diagnose(&b.build(at));
    assert_eq!(report.first_steps.warmup, 3);
    assert_eq!(report.first_steps.length.count, 4);
    assert_eq!(report.steps.max_ns, 10_000_000);
}

#[test]
fn the_validation_loader_is_told_from_the_training_one() {
    let mut trace = {
        let mut b = Builder::new();
        let main = b.thread(100, "main");
        for step in 0..10 {
            let at = step * 10_000;
            b.step("train", 0, step, 100, (at, at + 10_000));
            b.wait(main, "train", (0, step), None, (at, at + 10));
        }
        for step in 0..10 {
            let at = 100_000 + step * 10_000;
            let args = [
                (arg::LOADER, V::S("valid")),
                (arg::KIND, V::S(kind::VALID)),
                (arg::EPOCH, V::N(0)),
                (arg::STEP, V::N(step)),
            ];
            b.slice(main, cat::DATA_WAIT, "data wait", (at, at + 5000), &args);
        }
        b.build(200_000)
    };
    let report = diagnose(&trace);
    assert_eq!(report.steps.count, 9);
    let loaders: Vec<_> = report
        .loaders
        .iter()
        .map(|l| (l.name.as_str(), l.kind.as_str()))
        .collect();
    assert_eq!(loaders, [("train", "train"), ("valid", "valid")]);
    assert_eq!(report.findings[0].loader.as_deref(), Some("valid"));
    assert_eq!(report.findings[0].kind.as_deref(), Some("valid"));
    trace.meta.name.clear();
    let verdict = diagnose(&trace).verdict;
    assert!(
        verdict.starts_with("23 % of the window is data wait"),
        "{verdict}"
    );
}

#[test]
fn each_thread_that_runs_steps_is_a_device() {
    let mut b = Builder::new();
    let threads = [b.thread(100, "rank 0"), b.thread(101, "rank 1")];
    for step in 0..10 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.step("train", 0, step, 101, (at, at + 10_000));
        b.wait(threads[1], "train", (0, step), None, (at, at + 4000));
    }
    let report = diagnose(&b.build(100_000));
    assert_eq!(report.window_ns, 100_000_000);
    assert_eq!(report.device_ns, 200_000_000);
    let devices: Vec<(&str, f64, f64)> = report
        .devices
        .iter()
        .map(|d| (d.name.as_str(), d.compute, d.idle))
        .collect();
    assert_eq!(devices, [("rank 0", 1.0, 0.0), ("rank 1", 0.6, 0.4)]);
    assert_eq!(report.devices[0].exposed_copy, None);
    assert_eq!(report.breakdown["compute"], 0.8);
}

#[test]
fn steps_without_a_loader_are_steps() {
    let mut b = Builder::new();
    b.thread(100, "main");
    for step in 0..10 {
        b.step("direct", 0, step, 100, (step * 1000, step * 1000 + 900));
    }
    let report = diagnose(&b.build(10_000));
    assert_eq!(report.breakdown["compute"], 1.0);
    assert_eq!(report.steps.max_ns, 900_000);
    assert!(report.loaders.is_empty());
}

/// Two epochs of a PyTorch loader with a worker: six steps of 1 ms, and an end of 20 ms.
fn slow_ends(keeps_workers: bool) -> Trace {
    let mut b = Builder::new();
    let main = b.thread(1, "main");
    let common = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::FRAMEWORK, V::S(vocab::PYTORCH)),
        (arg::PERSISTENT, V::B(keeps_workers)),
    ];
    for epoch in 0..2 {
        let begins = epoch * 30_000;
        for step in 0..6 {
            let at = begins + step * 1_000;
            b.step("train", epoch, step, 1, (at, at + 1_000));
            let own = [
                (arg::EPOCH, V::N(epoch)),
                (arg::STEP, V::N(step)),
                (arg::BATCH, V::N(epoch * 6 + step)),
                (arg::WORKER, V::N(2)),
            ];
            let args = [&common[..], &own[..]].concat();
            b.slice(main, cat::DATA_WAIT, "data wait", (at, at + 50), &args);
        }
        let end = (begins + 6_000, begins + 26_000);
        b.slice(main, cat::EPOCH_END, "epoch end", end, &common);
    }
    b.build(60_000)
}

#[test]
fn more_workers_are_no_remedy_for_the_end_of_an_epoch() {
    for keeps_workers in [false, true] {
        let report = diagnose(&slow_ends(keeps_workers));
        let finding = &report.findings[0];
        assert_eq!(finding.cause, Cause::Data);
        let remedy = &finding.remedy;
        assert!(remedy.contains("after its last item"), "{remedy}");
        assert!(!remedy.contains("num_workers"), "{remedy}");
        let keep = remedy.contains("persistent_workers=True");
        assert_eq!(keep, !keeps_workers, "{remedy}");
    }
}
