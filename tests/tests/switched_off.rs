//! `GPUSTALL=off`.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::child::{assert_unchanged, run, run_without, trainer};

const TRAINER: &str = env!("CARGO_BIN_EXE_trainer");

#[test]
fn switched_off_a_session_writes_nothing_and_training_is_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let with = run(&mut trainer(TRAINER, "train", &output));
    assert!(output.exists());
    let without = run_without(TRAINER, "train");
    assert_unchanged(&with, &without);
    assert_eq!(with.stdout, "16 batches, 2016 in all\n");
    assert_eq!(with.code, Some(7));
    assert!(
        without.stderr.contains("switched off"),
        "{}",
        without.stderr
    );
}

#[test]
fn switched_off_even_an_impossible_output_is_no_error() {
    let nowhere = std::path::Path::new("/nowhere/run.trace.json");
    for value in ["off", "OFF", "0", "false", "no"] {
        let ended = run(trainer(TRAINER, "train", nowhere).env("GPUSTALL", value));
        assert!(!ended.stderr.contains("ERROR"), "{}", ended.stderr);
        assert_eq!(ended.code, Some(7));
    }
}

#[test]
fn other_values_leave_recording_on() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    for value in ["on", "1", ""] {
        let ended = run(trainer(TRAINER, "train", &output).env("GPUSTALL", value));
        assert_eq!(ended.code, Some(7));
        assert!(output.exists(), "GPUSTALL={value}");
        std::fs::remove_file(&output).unwrap();
    }
}
