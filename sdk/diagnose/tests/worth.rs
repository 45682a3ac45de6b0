//! What a finding is said to be worth: its remedy, its prediction and its text are one story.

mod common;

use common::kernel::{blocked, preempted};
use common::planted::{PLANT, run};
use common::{Builder, V, in_process};
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{self, arg, cat, kind};

/// The line of the text that says what a finding is worth.
fn worth(report: &Report, finding: usize) -> String {
    let text = report.to_string().replace("\n     ", " ");
    let mut lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("worth: "));
    lines.nth(finding).expect("a line").to_owned()
}

fn with(finding: &Finding, workers: u64) -> Option<u64> {
    let mut counts = finding.worker_counts.iter();
    Some(
        counts
            .find(|count| count.workers == workers)?
            .predicted_step_ns,
    )
}

#[test]
fn a_remedy_that_names_workers_is_worth_what_is_predicted_for_them() {
    let mut trace = in_process(50, 7000, 97);
    trace.meta.cpus = 2;
    let report = diagnose(&trace);
    let finding = &report.findings[0];
    assert!(
        finding
            .remedy
            .contains(".num_workers(2): a step of 4.88 ms is predicted"),
        "{report}"
    );
    assert_eq!(finding.predicted_step_ns, with(finding, 2));
    assert_eq!(finding.step_without_loss_ns, Some(3_000_000));
    assert_eq!(
        worth(&report, 0),
        "a step of 4.88 ms instead of 10.0 ms (with 2 workers; mean of the steady steps); at best \
         3.00 ms (if every batch were ready when asked for)"
    );
    // Where they keep up, both are the same.
    trace.meta.cpus = 8;
    let report = diagnose(&trace);
    assert_eq!(
        worth(&report, 0),
        "a step of 3.00 ms instead of 10.0 ms (with 3 workers; mean of the steady steps)"
    );
    // And where nothing but a cheaper batch helps, it is the best that such a one can be.
    trace.meta.cpus = 1;
    let report = diagnose(&trace);
    let at_best = "at best a step of 3.00 ms instead of 10.0 ms (if every batch were ready when asked for; \
                   mean of the steady steps)";
    assert_eq!(worth(&report, 0), at_best);
}

#[test]
fn one_of_several_causes_of_the_waits_is_not_worth_all_of_them() {
    let report = run(2, |b, span| {
        b.off(101, blocked("file read", "filemap_read"), span)
    });
    let [first, second] = report.findings.as_slice() else {
        panic!("two causes: {report}");
    };
    assert_eq!(first.cause, Cause::DataIo, "{report}");
    // The worker sleeps for 8 ms of its 20, and more of them read at the same time.
    let workers = with(first, 2);
    assert_eq!(first.predicted_step_ns, workers, "{report}");
    assert!(
        first
            .assumption
            .starts_with("with 2 workers instead of 1, by what the disk gives them; "),
        "{report}"
    );
    let gone = "if this cause of the waits, 67 % of them, were gone; mean of the steady steps";
    assert_eq!(first.without_loss_assumption, gone);
    let without = first.step_without_loss_ns.expect("it is known");
    assert!(
        (6_600_000..=20_000_000 - PLANT * 1000).contains(&without),
        "{without}"
    );
    for finding in [first, second] {
        let (predicted, step) = (finding.predicted_step_ns, finding.step_ns);
        assert!(predicted <= step, "{report}");
        assert!(!finding.assumption.contains("every batch"), "{report}");
    }
}

/// Two epochs of six steps of 1 ms and an end of 20 ms, of a loader with a worker.
fn slow_ends(more: &[(&str, V<'_>)]) -> Report {
    let mut b = Builder::new();
    let main = b.thread(1, "main");
    let worker = b.thread(2, "worker-0");
    for epoch in 0..2 {
        let begins = epoch * 30_000;
        let common = [(arg::LOADER, V::S("train")), (arg::KIND, V::S(kind::TRAIN))];
        let common = [&common[..], more].concat();
        for step in 0..6 {
            let at = begins + step * 1_000;
            b.step("train", epoch, step, 1, (at, at + 1_000));
            let batch = epoch * 6 + step;
            let own = [
                (arg::EPOCH, V::N(epoch)),
                (arg::STEP, V::N(step)),
                (arg::BATCH, V::N(batch)),
                (arg::WORKER, V::N(2)),
            ];
            let args = [&common[..], &own[..]].concat();
            b.slice(main, cat::DATA_WAIT, "data wait", (at, at + 50), &args);
            b.stage(worker, cat::DATA_GET, batch, Some(900), (at, at + 45));
        }
        let end = (begins + 6_000, begins + 26_000);
        b.slice(main, cat::EPOCH_END, "epoch end", end, &common);
    }
    diagnose(&b.build(60_000))
}

#[test]
fn the_end_of_an_epoch_is_worth_no_batches_and_no_workers() {
    for more in [&[][..], &[(arg::FRAMEWORK, V::S(vocab::PYTORCH))][..]] {
        let report = slow_ends(more);
        let finding = &report.findings[0];
        assert!(
            finding.remedy.starts_with("more workers do not help"),
            "{report}"
        );
        assert!(finding.worker_counts.is_empty(), "{report}");
        let granted = "if the next() that ends an epoch took no time; ";
        assert!(finding.assumption.starts_with(granted), "{report}");
        assert!(
            report
                .verdict
                .ends_with("main spends it at the end of the epoch")
        );
    }
}

#[test]
fn two_trainers_share_the_cpus_and_two_that_follow_each_other_do_not() {
    let predicted = |together: bool| {
        let mut b = Builder::new();
        b.trace.meta.cpus = 4;
        for rank in 0..2u64 {
            let tid = 100 + rank as u32;
            let thread = b.thread(tid, &format!("rank-{rank}"));
            for step in 0..20 {
                let first = if together { 0 } else { rank * 200_000 };
                let at = first + step * 10_000;
                let batch = rank * 20 + step;
                b.step("train", rank, step, tid, (at, at + 10_000));
                b.wait(
                    thread,
                    "train",
                    (rank, step),
                    Some((batch, tid)),
                    (at, at + 7_000),
                );
                b.stage(thread, cat::DATA_GET, batch, Some(6_900), (at, at + 7_000));
            }
        }
        let report = diagnose(&b.build(if together { 200_000 } else { 400_000 }));
        let finding = &report.findings[0];
        let each = finding
            .remedy
            .contains("for each of the 2 threads that take batches");
        assert_eq!(each, together, "{report}");
        finding.predicted_step_ns.expect("it is predicted")
    };
    // 3 ms are the rest of a step, and 10 ms of work in each are twice on four CPUs.
    assert!((4_900_000..5_100_000).contains(&predicted(true)));
    assert!((2_900_000..3_300_000).contains(&predicted(false)));
}

/// Workers of other names in each of ten epochs, two at a time, that are busy all the time.
#[test]
fn workers_that_follow_each_other_are_as_many_as_there_are_at_once() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.watch(100, (0, 1_000_000), &[]);
    for epoch in 0..10u64 {
        let tids = [0, 1].map(|i| 1000 + (epoch * 2 + i) as u32);
        let tracks = tids.map(|tid| b.thread(tid, &format!("Thread-{tid}")));
        tids.iter()
            .for_each(|&tid| b.watch(tid, (epoch * 100_000, (epoch + 1) * 100_000), &[]));
        for step in 0..10 {
            let at = epoch * 100_000 + step * 10_000;
            let own = (step % 2) as usize;
            let batch = epoch * 10 + step;
            b.step("train", epoch, step, 100, (at, at + 10_000));
            b.wait(
                main,
                "train",
                (epoch, step),
                Some((batch, tids[own])),
                (at, at + 8_000),
            );
            let get = (at.saturating_sub(12_000).max(epoch * 100_000), at + 8_000);
            b.stage(tracks[own], cat::DATA_GET, batch, None, get);
        }
    }
    let report = diagnose(&b.build(1_000_000));
    assert_eq!(report.workers.len(), 20);
    let finding = &report.findings[0];
    assert_eq!(finding.cause, Cause::DataWorkerLimit, "{report}");
    assert_eq!(finding.evidence["workers"], 2.0);
    assert!(finding.remedy.contains(" instead of 2: "), "{report}");
}

/// Batches made in process, of which the thread sleeps for 30 ms and computes for 10, in steps of 50 ms.
#[test]
fn one_remedy_for_two_causes_is_worth_its_gain_once() {
    let mut b = Builder::new();
    b.trace.meta.cpus = 8;
    let main = b.thread(100, "main");
    for step in 0..60 {
        let at = 100_000 + step * 50_000;
        let get = (at, at + 40_000);
        b.step("train", 0, step, 100, (at, at + 50_000));
        b.wait(main, "train", (0, step), Some((step, 100)), get);
        b.stage(main, cat::DATA_GET, step, Some(10_000), get);
        b.off(
            100,
            blocked("sleep", "hrtimer_nanosleep"),
            (at, at + 30_000),
        );
    }
    b.watch(100, (0, 3_100_000), &[]);
    let report = diagnose(&b.build(3_100_000));
    let [first, second] = report.findings.as_slice() else {
        panic!("two causes: {report}");
    };
    assert_eq!(first.predicted_step_ns, with(first, 4), "{report}");
    assert!(worth(&report, 0).contains("with 4 workers"), "{report}");
    assert_eq!(second.remedy, "the remedy of 1 mends this too.");
    // A fifth of the step is its own.
    assert_eq!(second.predicted_step_ns, Some(40_000_000), "{report}");
    assert_eq!(second.predicted_step_ns, second.step_without_loss_ns);
    assert!(
        worth(&report, 1).starts_with("at best a step of 40.0 ms instead of 50.0 ms"),
        "{report}"
    );
}

/// Batches made in process in 30 ms of computing, of which another program has the CPU for 10 ms more, and
/// 8 ms of the rest of the step.
#[test]
fn the_rest_of_a_step_has_no_time_in_next_whatever_that_is_charged_to() {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let mut at = 100_000;
    for step in 0..60 {
        let get = (at, at + 40_000);
        b.step("train", 0, step, 100, (at, get.1 + 8_000));
        b.wait(main, "train", (0, step), Some((step, 100)), get);
        b.stage(main, cat::DATA_GET, step, Some(30_000), get);
        b.off(100, preempted("spinner", 900), (at + 10_000, at + 20_000));
        at = get.1 + 8_000;
    }
    b.watch(100, (0, at), &[]);
    let report = diagnose(&b.build(at));
    let mut findings = report.findings.iter();
    let data = findings.find(|of| of.cause == Cause::DataCompute);
    let data = data.expect("batches are computed");
    assert!(
        data.remedy.contains("the rest of a step 8.00 ms"),
        "{report}"
    );
    assert_eq!(data.evidence["step_without_wait_ns"], 8e6, "{report}");
    assert_eq!(data.step_without_loss_ns, Some(8_000_000), "{report}");
    let granted = "if every batch were ready when asked for; ";
    assert!(
        data.without_loss_assumption.starts_with(granted),
        "{report}"
    );
    // With a CPU at any time the batches are still made in the step.
    let mut findings = report.findings.iter();
    let preempted = findings.find(|of| of.cause == Cause::HostPreempted);
    let preempted = preempted.expect("another program has the CPU");
    assert_eq!(preempted.predicted_step_ns, Some(38_000_000), "{report}");
}
