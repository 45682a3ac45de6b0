//! The example `resnet18_input_bound`, at a size that a CPU trains in seconds: images that are decoded
//! in the training loop are found as what the trainer waits for, and workers are advised.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use burn::prelude::Device;
use gpustall::Report;
use gpustall::trace::{Trace, vocab::cat};
use gpustall_examples::ways::Way;
use gpustall_resnet18::advise::{Advised, report_of};
use gpustall_resnet18::{Jpegs, Loop, Training};
use std::path::Path;
use std::sync::Mutex;

/// A process has one session.
static ALONE: Mutex<()> = Mutex::new(());

const STEPS: usize = 12;
const BATCH: usize = 4;

/// Large images for a small model: most of a step is decoding.
fn training() -> Training {
    Training {
        device: Device::flex().autodiff(),
        width: 2,
        data: Jpegs::generate(8, (320, 240), 32, STEPS * BATCH).unwrap(),
        side: 32,
        batch: BATCH,
    }
}

fn run(training: &Training, by: Loop, workers: usize, directory: &Path) -> anyhow::Result<Way> {
    let name = format!("{workers}-workers");
    Way::run(&name, directory, &training.device, || {
        training.run(by, workers, &directory.join("learner"))
    })
}

/// Time inside slices of this category or name, nanoseconds.
fn time_in(trace: &Trace, what: &str) -> u64 {
    let of = trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == what || trace.text(slice.name) == what);
    of.map(|slice| slice.span.len().get()).sum()
}

fn data_share(report: &Report) -> f64 {
    let data = report.breakdown.iter();
    let data = data.filter(|(cause, _)| cause.starts_with("data"));
    data.map(|(_, share)| share).sum()
}

#[test]
fn decoding_in_the_training_loop_is_what_the_trainer_waits_for() {
    let _alone = ALONE.lock().unwrap_or_else(|failed| failed.into_inner());
    for by in [Loop::ByHand, Loop::Learner] {
        let directory = tempfile::tempdir().unwrap();
        let training = training();
        training.warm_up(1).unwrap();
        let way = run(&training, by, 0, directory.path()).unwrap();
        let path = way.summary.trace().unwrap();
        let report = report_of(path).unwrap();
        let top = report.findings.first().expect("a finding");
        // Where other programs held the CPUs, the cause is coarser; it is never another one.
        let undisturbed = top
            .evidence
            .get("get_cpu_share")
            .is_some_and(|&on| on > 0.9);
        let cause = top.cause.to_string();
        let right = cause == "data.compute" || !undisturbed && cause == "data";
        assert!(right, "{by:?}: {report}");
        assert!(
            top.chain.iter().any(|link| link.what.contains("get")),
            "the chain names the stage that decodes: {report}"
        );
        // What the stage does is decoding.
        let trace = gpustall::trace::read(path).unwrap().trace;
        let (get, decode) = (time_in(&trace, cat::DATA_GET), time_in(&trace, "decode"));
        assert!(decode <= get && decode * 10 > get * 9, "{decode} of {get}");
        assert_eq!(time_in(&trace, "checkpoint: save"), 0);
    }
}

#[test]
fn the_advised_number_of_workers_is_run_and_compared() {
    let _alone = ALONE.lock().unwrap_or_else(|failed| failed.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let training = training();
    training.warm_up(1).unwrap();
    let advised = Advised::run(|workers| run(&training, Loop::ByHand, workers, directory.path()));
    let advised = advised.unwrap().expect("workers are advised");
    assert!(advised.workers() >= 1);
    let (before, after) = advised.numbers();
    assert!(after.data < before.data, "{advised}");
    let table = advised.to_string();
    for needed in ["0-workers.trace.json.gz", "data wait", "predicted for"] {
        assert!(table.contains(needed), "{table}");
    }
    let report = report_of(&directory.path().join("0-workers.trace.json.gz")).unwrap();
    assert!((data_share(&report) - before.data).abs() < 1e-9);
}
