//! burn-train's learner with its `experiment.log`: the session leaves the subscriber to it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::tiny_training::{BATCH, EPOCHS, ITEMS, traced_loader, train};
use gpustall_tests::{named, slices_of};
use gpustall_trace::vocab::cat;

#[test]
fn a_session_without_subscriber_leaves_the_experiment_log_to_the_learner() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("learner")
        .output(&output)
        .subscriber(false)
        .start()
        .unwrap();
    let (training, valid) = (traced_loader("train", 2), traced_loader("valid", 0));
    train(directory.path(), training, valid);
    let summary = session.finish().unwrap();

    let log = std::fs::read_to_string(directory.path().join("experiment.log")).unwrap();
    let forward = EPOCHS * 2 * ITEMS / BATCH;
    assert_eq!(log.matches("forward runs").count(), forward, "{log}");

    let trace = gpustall_trace::read(&output).unwrap().trace;
    for loader in ["train", "valid"] {
        for cat in [cat::DATA_WAIT, cat::STEP] {
            let found = slices_of(&trace, cat, loader).len();
            assert_eq!(found, EPOCHS * ITEMS / BATCH, "{cat} of {loader}");
        }
    }
    assert!(named(&trace, "forward").is_empty());
    let notes = &summary.report().unwrap().notes;
    assert!(
        notes.iter().any(|n| n.contains("gpustall::layer()")),
        "{notes:?}"
    );
}
