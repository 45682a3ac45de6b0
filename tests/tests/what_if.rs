//! Predictions are tested by making the change that the report proposes and running again.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::plant::run::{Ran, run};
use gpustall_tests::plant::{PLANTS, Plant};
use gpustall_tests::sidecar::Sidecar;
use gpustall_tests::skip;
use serde_json::Value;

/// How far a predicted gain may be from the measured one, as a share of the measured one.
const TOLERANCE: f64 = 0.20;

/// A remedy that gains less than this share of the step is no test of the prediction.
const LEAST_GAIN: f64 = 0.20;

struct Case {
    plant: &'static str,
    remedy: &'static str,
    /// What the plant is told, to do what the remedy says.
    change: &'static str,
    /// Where the report has the predicted step, ns.
    predicted: fn(&Value) -> f64,
}

/// The step that the first finding predicts without its loss.
fn without_the_loss(report: &Value) -> f64 {
    let finding = &report["findings"][0];
    finding["step_without_loss_ns"].as_f64().unwrap()
}

/// The step that the first finding predicts for so many workers.
fn with_workers(report: &Value, workers: u64) -> f64 {
    let counts = report["findings"][0]["worker_counts"].as_array().unwrap();
    let count = counts.iter().find(|count| count["workers"] == workers);
    count.unwrap()["predicted_step_ns"].as_f64().unwrap()
}

const CASES: &[Case] = &[
    Case {
        plant: "few-workers",
        remedy: "two workers instead of one",
        change: "--workers=2",
        predicted: |report| with_workers(report, 2),
    },
    Case {
        plant: "collate",
        remedy: "batches that cost nothing to make",
        change: "--ready",
        predicted: without_the_loss,
    },
    Case {
        plant: "collate",
        remedy: "one worker instead of none",
        change: "--workers=1",
        predicted: |report| with_workers(report, 1),
    },
    Case {
        plant: "collate",
        remedy: "two workers instead of none",
        change: "--workers=2",
        predicted: |report| with_workers(report, 2),
    },
    Case {
        plant: "metrics",
        remedy: "no wait for the metrics' thread",
        change: "--bare",
        predicted: without_the_loss,
    },
    Case {
        plant: "lock",
        remedy: "nobody else holds the lock",
        change: "--bare",
        predicted: without_the_loss,
    },
    Case {
        plant: "spinner",
        remedy: "no other program on the trainer's CPU",
        change: "--bare",
        predicted: without_the_loss,
    },
];

/// Mean of the steady steps as the plant itself would count them: its time over its steps.
fn step_ns(ran: &Ran, plant: &Plant) -> f64 {
    ran.truth_ns("trained_ns") / (plant.steps * plant.epochs) as f64
}

#[test]
fn a_remedy_gains_what_was_predicted() {
    let Some(sidecar) = Sidecar::start("what_if") else {
        return;
    };
    let (mut wrong, mut judged) = (Vec::new(), 0);
    for case in CASES {
        let plant = PLANTS
            .iter()
            .find(|plant| plant.name == case.plant)
            .unwrap();
        let program = env!("CARGO_BIN_EXE_plant");
        let before = run(program, plant, Some(&sidecar), &[]);
        let after = run(program, plant, Some(&sidecar), &[case.change]);
        if before.disturbed || after.disturbed {
            println!("{}: not judged, others kept the machine busy", case.plant);
            continue;
        }
        judged += 1;
        let (now, then) = (step_ns(&before, plant), step_ns(&after, plant));
        let step = before.report["findings"][0]["step_ns"].as_f64().unwrap();
        let (gain, predicted) = (now - then, step - (case.predicted)(&before.report));
        let error = (predicted - gain) / gain;
        let line = format!(
            "{:<12} {:<38} step {:>6.2} ms, predicted {:>6.2} ms, done {:>6.2} ms: the gain is off by {:+.0} %",
            case.plant,
            case.remedy,
            now / 1e6,
            (case.predicted)(&before.report) / 1e6,
            then / 1e6,
            100.0 * error
        );
        println!("{line}");
        if gain < LEAST_GAIN * now || error.abs() > TOLERANCE {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    if judged * 2 < CASES.len() {
        let why = "other programs kept the machine busy in most of the runs: nothing is judged";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        skip("what_if", why);
    }
}
