//! The predicted steps do not contradict the measured one, and one read does not upset them.

mod common;

use common::Builder;
use common::kernel::blocked;
use common::planted;
use gpustall_diagnose::{Report, WorkerCount, diagnose};
use gpustall_trace::vocab::cat;

/// Microseconds of a batch that is made in process, and of the rest of the step.
const GET: u64 = 40_000;
const REST: u64 = 10_000;

/// Batches made in process, of which the thread sleeps but for `read` microseconds of a read in each
/// `every` batches.
fn sleeper(read: u64, every: u64) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 4;
    let main = b.thread(100, "main");
    let mut at = 100_000;
    for step in 0..60 {
        let get = (at, at + GET);
        b.step("train", 0, step, 100, (at, get.1 + REST));
        b.wait(main, "train", (0, step), Some((step, 100)), get);
        b.stage(main, cat::DATA_GET, step, Some(0), get);
        let read = if step % every == 0 { read } else { 0 };
        if read > 0 {
            let file = blocked("file read", "folio_wait_bit_common");
            b.off(100, file, (at, at + read));
        }
        let sleep = blocked("sleep", "hrtimer_nanosleep");
        b.off(100, sleep, (at + read, get.1));
        at = get.1 + REST;
    }
    b.watch(100, (0, at), &[]);
    diagnose(&b.build(at))
}

fn counts(report: &Report) -> &[WorkerCount] {
    &report.findings[0].worker_counts
}

#[test]
fn one_small_read_says_nothing_of_more_workers() {
    let (without, with) = (sleeper(0, 1), sleeper(150, 60));
    assert!(with.charges_ns["data.io"] > 0, "{with}");
    assert_eq!(counts(&with), counts(&without), "{with}");
    let steps: Vec<u64> = counts(&with)
        .iter()
        .map(|count| count.predicted_step_ns / 1_000_000)
        .collect();
    assert_eq!(steps[..4], [40, 20, 13, 10], "{with}");
    assert!(!with.to_string().contains("disk"), "{with}");
}

#[test]
fn one_worker_instead_of_none_makes_batches_while_the_trainer_is_at_work() {
    let report = sleeper(30_000, 1);
    let first = counts(&report)[0];
    // As long as a batch takes; or no sooner than it was, if the disk gives no more.
    assert_eq!(first.predicted_step_ns, 40_000_000, "{report}");
    assert_eq!(first.at_most_step_ns, Some(50_000_000), "{report}");
}

#[test]
fn the_workers_that_there_were_are_predicted_the_step_that_they_did() {
    // One CPU for a batch of 20 ms and 8 ms of the rest of the step, and yet steps of 20 ms.
    let report = planted::run(1, |_, _| {});
    let finding = &report.findings[0];
    assert_eq!(finding.step_ns, Some(20_000_000), "{report}");
    assert_eq!(counts(&report)[0].predicted_step_ns, 20_000_000, "{report}");
    for count in counts(&report) {
        assert!(count.predicted_step_ns <= 20_000_000, "{report}");
    }
    assert!(
        report
            .to_string()
            .contains("step by workers: 1 and more: 20.0 ms"),
        "{report}"
    );
}
