//! The sentence that a report begins with is of what takes the most, and is true and plain.

mod common;

use common::kernel::blocked;
use common::{Builder, V, with_workers};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{arg, cat};

/// Steps of which the batches are waited for, `tagged` of 20 with a worker that is known, the others with one
/// that is not, by `worker` (whose thread has no track), or without any tag.
fn half_known(tagged: u64, worker: Option<u32>) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let known = b.thread(101, "dataloader-0");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step + 1, 100, (at, at + 10_000));
        let batch = match step < tagged {
            true => Some((step, 101)),
            false => worker.map(|worker| (1000 + step, worker)),
        };
        b.wait(main, "train", (0, step + 1), batch, (at, at + 8_000));
        if step < tagged {
            b.stage(known, cat::DATA_GET, step, Some(100), (at, at + 8_000));
        }
    }
    diagnose(&b.build(300_000))
}

#[test]
fn a_worker_that_is_not_known_is_not_said_to_do_what_another_one_did() {
    let report = half_known(8, None);
    let verdict = "main waits for workers; which of them is mostly not recorded";
    assert!(report.verdict.ends_with(verdict), "{report}");
    let report = half_known(0, None);
    let verdict = "main waits in next(); who makes the batches is not recorded";
    assert!(report.verdict.ends_with(verdict), "{report}");
    let report = half_known(12, None);
    let verdict = "main waits for dataloader-0, which spends it in get";
    assert!(report.verdict.ends_with(verdict), "{report}");
}

#[test]
fn the_verdict_is_of_the_loader_with_the_most_and_says_its_part() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..40 {
        let at = 100_000 + step * 10_000;
        // One loop asks two loaders: a long wait for the one, two short ones for the other.
        b.step("images", 0, step + 1, 100, (at, at + 10_000));
        b.wait(
            main,
            "images",
            (0, step + 1),
            Some((step, 100)),
            (at, at + 2_000),
        );
        b.stage(main, cat::DATA_GET, step, Some(10), (at, at + 2_000));
        for half in 0..2 {
            let batch = 1000 + step * 2 + half;
            let span = (at + 3_000 + half * 2_000, at + 3_000 + half * 2_000 + 1_500);
            b.wait(main, "texts", (0, step + 1), Some((batch, 100)), span);
            // Half of them computed, half not.
            let cpu = if half == 0 { 1_490 } else { 10 };
            b.stage(main, cat::DATA_COLLATE, batch, Some(cpu), span);
        }
    }
    let report = diagnose(&b.build(500_000));
    assert_eq!(
        report.findings[0].loader.as_deref(),
        Some("images"),
        "{report}"
    );
    let verdict = "mlp: 50 % of the window is data wait (30 % at `texts`); main makes the batches itself in \
                   next(), mostly in collate";
    assert_eq!(report.verdict, verdict, "{report}");
}

#[test]
fn waits_for_batches_are_one_thing_beside_what_is_larger_than_any_cause_of_them() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..40 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step + 1, 100, (at, at + 10_000));
        for half in 0..2 {
            let batch = step * 2 + half;
            let span = (at + half * 2_000, at + half * 2_000 + 2_000);
            b.wait(main, "train", (0, step + 1), Some((batch, 100)), span);
            let cpu = if step % 2 == 0 { 1_990 } else { 10 };
            b.stage(main, cat::DATA_GET, batch, Some(cpu), span);
        }
        b.phase(main, "metrics", (at + 5_000, at + 8_000));
    }
    let report = diagnose(&b.build(500_000));
    assert_eq!(report.findings[0].cause.id(), "host.metrics", "{report}");
    assert!(
        report
            .verdict
            .starts_with("mlp: 40 % of the window is data wait; "),
        "{report}"
    );
}

#[test]
fn numbers_of_any_width_stand_apart() {
    let mut report = diagnose(&with_workers(50, 7000, 12_000));
    report.steps.count = 599_181;
    let text = report.to_string();
    assert!(text.contains("steps   599181 p50 10.0 ms"), "{text}");
}

#[test]
fn many_small_causes_are_no_healthy_run() {
    let mut report = diagnose(&with_workers(50, 7000, 12_000));
    assert!(!report.verdict.contains("healthy"));
    report.findings.clear();
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..200u64 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step + 1, 100, (at, at + 10_000));
        // Twelve loaders, of which each takes 4 %.
        for loader in 0..12 {
            let span = (at + loader * 400, at + loader * 400 + 400);
            b.wait(main, &format!("loader-{loader}"), (0, step + 1), None, span);
        }
    }
    let report = diagnose(&b.build(2_100_000));
    assert!(report.findings.is_empty(), "{report}");
    assert!(
        report
            .verdict
            .starts_with("mlp: no single cause: 52 % of the window"),
        "{report}"
    );
}

#[test]
fn what_was_open_when_the_run_ended_is_told_only_if_it_took_longer_than_others() {
    for (length, told) in [(1_000, false), (40_000, true)] {
        let mut b = Builder::new();
        let main = b.thread(100, "main");
        for step in 0..20 {
            let at = 100_000 + step * 10_000;
            b.step("train", 0, step, 100, (at, at + 10_000));
            b.wait(main, "train", (0, step), None, (at, at + 2_000));
        }
        let open = [
            (arg::LOADER, V::S("train")),
            (arg::KIND, V::S("train")),
            (arg::STEP, V::N(20)),
            (arg::UNFINISHED, V::B(true)),
        ];
        let span = (300_000, 300_000 + length);
        b.slice(main, cat::DATA_WAIT, "data wait", span, &open);
        let report = diagnose(&b.build(span.1));
        assert_eq!(
            report.to_string().contains("was still in"),
            told,
            "{report}"
        );
    }
}

/// Ten epochs, at the start of each of which a worker sleeps for 45 ms before it makes a batch.
#[test]
fn what_a_worker_does_before_its_first_batch_is_no_nothing() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "worker-0");
    let mut at = 100_000;
    for epoch in 0..10 {
        for step in 0..10 {
            let batch = epoch * 10 + step;
            let wait = if step == 0 { 50_000 } else { 100 };
            let made = at + wait;
            b.step("train", epoch, step, 100, (at, made + 5_000));
            b.wait(main, "train", (epoch, step), Some((batch, 101)), (at, made));
            b.stage(
                worker,
                cat::DATA_GET,
                batch,
                None,
                (made - 1_000, made - 10),
            );
            if step == 0 {
                b.off(
                    101,
                    blocked("sleep", "hrtimer_nanosleep"),
                    (at, made - 5_000),
                );
            }
            at = made + 5_000;
        }
    }
    b.watch(101, (0, at), &[]);
    let report = diagnose(&b.build(at));
    let verdict = "main waits for worker-0, which spends it in what it does before its first batch, blocked in \
                   sleep (hrtimer_nanosleep)";
    assert!(report.verdict.ends_with(verdict), "{report}");
}

#[test]
fn what_is_lost_in_one_stall_was_lost_once() {
    // Forty steps, of which `slow` wait for 40 ms.
    let of = |slow: u64| {
        let mut b = Builder::new();
        let main = b.thread(100, "main");
        let mut at = 100_000;
        for step in 0..40 {
            let wait = if step < slow { 40_000 } else { 50 };
            let end = at + wait + 5_000;
            b.step("train", 0, step + 1, 100, (at, end));
            b.wait(main, "train", (0, step + 1), None, (at, at + wait));
            at = end;
        }
        diagnose(&b.build(at)).verdict
    };
    let once = "mlp: 17 % of the window is data wait, once (40.0 ms in epoch 0 step 1); main waits in next()";
    assert!(of(1).starts_with(once), "{}", of(1));
    assert!(!of(2).contains("once"), "{}", of(2));
}
