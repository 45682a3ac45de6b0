//! Of two loaders that are iterated in turn, as a training set and an evaluation, each is judged by its own steps.

mod common;

use common::{Builder, V};
use gpustall_diagnose::{Finding, Report, diagnose};
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat, kind};

/// A loop over a loader: its name, what its batches are for, how many there are in an epoch, and how long making
/// one and the rest of a step take, in milliseconds.
type Loop<'a> = (&'a str, &'a str, u64, (u64, u64));

/// One epoch from `at` on, microseconds, batches made in process in waits of the CPU for nothing. Returns its end.
fn epoch(
    b: &mut Builder,
    main: TrackId,
    number: u64,
    (name, kind, steps, (make, rest)): Loop<'_>,
    at: u64,
) -> u64 {
    let mut at = at;
    for step in 0..steps {
        let made = at + make * 1_000;
        let end = made + rest * 1_000;
        let of = [
            (arg::LOADER, V::S(name)),
            (arg::KIND, V::S(kind)),
            (arg::EPOCH, V::N(number)),
            (arg::STEP, V::N(step)),
        ];
        let thread = (arg::THREAD, V::N(100));
        let track = b.steps;
        b.slice(
            track,
            cat::STEP,
            "step",
            (at, end),
            &[&of[..], &[thread]].concat(),
        );
        let batch = at;
        let taken = [(arg::BATCH, V::N(batch)), (arg::WORKER, V::N(100))];
        b.slice(
            main,
            cat::DATA_WAIT,
            "data wait",
            (at, made),
            &[&of[..], &taken].concat(),
        );
        b.stage(main, cat::DATA_GET, batch, Some(0), (at, made));
        at = end;
    }
    at
}

/// Five epochs, each a loop over both.
fn in_turn(first: Loop<'_>, second: Loop<'_>) -> Report {
    let mut b = Builder::new();
    b.trace.meta.cpus = 64;
    let main = b.thread(100, "main");
    let mut at = 100_000;
    for number in 0..5 {
        at = epoch(&mut b, main, number, first, at);
        at = epoch(&mut b, main, number, second, at);
    }
    diagnose(&b.build(at))
}

fn of<'a>(report: &'a Report, loader: &str) -> &'a Finding {
    let mut findings = report.findings.iter();
    let at = findings.find(|of| of.loader.as_deref() == Some(loader));
    at.unwrap_or_else(|| panic!("{report}"))
}

/// What is said of a step with so many workers, in milliseconds.
fn with(finding: &Finding, workers: u64) -> f64 {
    let mut counts = finding.worker_counts.iter();
    let count = counts
        .find(|of| of.workers == workers)
        .expect("it is known");
    count.predicted_step_ns as f64 / 1e6
}

#[test]
fn an_evaluation_is_judged_by_its_own_steps_and_the_training_by_its() {
    let report = in_turn(
        ("train", kind::TRAIN, 40, (20, 10)),
        ("held", kind::VALID, 40, (40, 4)),
    );
    assert!(!report.evaluation);
    let (train, held) = (of(&report, "train"), of(&report, "held"));
    for (finding, step, rest) in [(train, 30, 10), (held, 44, 4)] {
        assert_eq!(finding.step_ns, Some(step * 1_000_000), "{report}");
        let least = finding.step_without_loss_ns;
        assert_eq!(least, Some(rest * 1_000_000), "{report}");
    }
    assert!((with(train, 2) - 10.0).abs() < 0.5, "{report}");
    assert!((with(held, 2) - 20.0).abs() < 0.5, "{report}");
    assert!((with(held, 4) - 10.0).abs() < 0.5, "{report}");
    assert!(
        held.assumption
            .ends_with("mean of this loader's own steady steps"),
        "{report}"
    );
    assert!(
        train.assumption.ends_with("mean of the steady steps"),
        "{report}"
    );
}

#[test]
fn of_two_training_sets_neither_is_judged_by_the_steps_of_the_other() {
    let report = in_turn(
        ("images", kind::TRAIN, 40, (20, 10)),
        ("texts", kind::TRAIN, 40, (40, 4)),
    );
    for (loader, step, rest) in [("images", 30, 10), ("texts", 44, 4)] {
        let finding = of(&report, loader);
        assert_eq!(finding.step_ns, Some(step * 1_000_000), "{report}");
        let least = finding.step_without_loss_ns;
        assert_eq!(least, Some(rest * 1_000_000), "{report}");
    }
}

#[test]
fn an_evaluation_of_a_few_batches_is_judged_over_all_of_its_steps() {
    let train = ("train", kind::TRAIN, 40, (20, 10));
    let report = in_turn(train, ("held", kind::VALID, 9, (40, 4)));
    let held = of(&report, "held");
    assert_eq!(held.evidence["epoch_batches"], 9.0, "{report}");
    assert_eq!(held.step_ns, Some(44_000_000), "{report}");
    let own = "time of this loader's own loops per step";
    assert!(held.assumption.ends_with(own), "{report}");
    // Nine batches are five rounds of two workers, and three of four.
    for (workers, rounds) in [(2, 5.0), (4, 3.0)] {
        let least = rounds * 40.0 / 9.0;
        let step = with(held, workers);
        assert!(step >= least && step < least * 1.1, "{step}: {report}");
    }
    assert_eq!(of(&report, "train").step_ns, Some(30_000_000), "{report}");
}
