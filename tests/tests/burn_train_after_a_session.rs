//! burn-train's learner, started after a session: it installs a global subscriber of its own
//! unless told otherwise.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::tiny_training::{BATCH, EPOCHS, ITEMS, plain_loader, traced_loader, train};
use gpustall_tests::{assert_well_formed, named, number, record, slices, slices_of};
use gpustall_trace::vocab::{arg, cat};

#[test]
fn the_learner_does_not_displace_our_subscriber_and_trains_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, summary, with) = record("learner", || {
        let weights = train(
            directory.path(),
            traced_loader("train", 1),
            traced_loader("valid", 0),
        );
        let _after = tracing::info_span!("after training").entered();
        weights
    });
    let without = train(directory.path(), plain_loader(1), plain_loader(0));
    assert_eq!(
        with, without,
        "training gives the same weights, bit for bit"
    );
    assert_ne!(with, [0.5, 0.25], "and it did train");

    let batches = ITEMS / BATCH;
    let forward = named(&trace, "forward");
    assert_eq!(forward.len(), EPOCHS * 2 * batches, "train and valid");
    assert_eq!(number(&trace, forward[0], "rows"), Some(BATCH as u64));
    assert_eq!(named(&trace, "after training").len(), 1);
    let logged = |i: &&gpustall_trace::Instant| trace.text(i.name) == "forward runs";
    assert_eq!(trace.instants.iter().filter(logged).count(), forward.len());

    for loader in ["train", "valid"] {
        for cat in [cat::DATA_WAIT, cat::STEP] {
            let found = slices_of(&trace, cat, loader);
            let at: Vec<_> = found
                .iter()
                .map(|s| (number(&trace, s, arg::EPOCH), number(&trace, s, arg::STEP)))
                .collect();
            let expected: Vec<_> = (0..EPOCHS as u64)
                .flat_map(|e| (0..batches as u64).map(move |s| (Some(e), Some(s))))
                .collect();
            assert_eq!(at, expected, "{cat} of {loader}");
        }
    }
    assert_eq!(
        slices(&trace, cat::DATA_COLLATE).len(),
        2 * EPOCHS * batches
    );
    let report = summary.report().unwrap();
    assert_eq!(trace.meta.notes, [""; 0]);
    assert!(!report.evaluation, "the training loader gives the steps");
    assert_well_formed(&trace);
}
