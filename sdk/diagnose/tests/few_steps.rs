//! Which steps are complete, and how many of them are enough to judge a run.

mod common;

use common::Builder;
use gpustall_diagnose::{Cause, Report, diagnose};
use gpustall_trace::vocab::cat;

/// Steps of so many milliseconds, of each of which a batch that is made in process takes the first part in
/// `wait` and work that is charged to metrics the next one in `metrics`.
fn run(steps: u64, step: u64, (wait, metrics): (u64, u64)) -> Builder {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.unit = 1_000_000;
    for number in 0..steps {
        let at = number * step;
        let made = (at, at + wait);
        b.step("train", 0, number, 100, (at, at + step));
        b.wait(main, "train", (0, number), Some((number, 100)), made);
        b.stage(main, cat::DATA_GET, number, Some(wait * 1000), made);
        b.phase(main, "metrics", (made.1, made.1 + metrics));
    }
    b
}

fn is_judged(report: &Report) -> bool {
    !report.verdict.contains("too little to judge")
}

#[test]
fn a_step_is_complete_where_a_fifth_of_it_at_most_was_not_recorded() {
    // The second and the third lose 600 and 1,200 of their 6,000 ms, the fourth 1,201; the last one 20 to
    // the end of the recording.
    let mut b = run(6, 6_000, (5_000, 0));
    let main = b.track(
        gpustall_trace::Pid(0),
        1,
        "pauses",
        gpustall_trace::TrackKind::Synthetic,
    );
    for pause in [(11_400, 13_200), (18_000, 19_201)] {
        b.slice(main, cat::PAUSE, "paused", pause, &[]);
    }
    let report = diagnose(&b.build(35_980));
    assert_eq!(report.first_steps.length.count, 1, "{report}");
    assert_eq!(report.steps.count, 4, "{report}");
    assert_eq!(report.steps.max_ns, 6_000_000_000, "{report}");
    // Of those that a pause touches, what was recorded of them.
    let mean = (5_400 + 4_800 + 6_000 + 5_980) * 1_000_000 / 4;
    assert_eq!(report.steps.mean_ns, mean, "{report}");
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
}

#[test]
fn two_long_steps_say_as_much_as_five_short_ones() {
    let report = diagnose(&run(2, 6_000, (5_000, 0)).build(12_000));
    assert!(is_judged(&report), "{report}");
    assert_eq!(report.findings[0].cause, Cause::DataCompute, "{report}");
    let few = [
        // One is no rhythm.
        run(1, 12_000, (10_000, 0)).build(12_000),
        // What happens once as a job begins may be most of a window as short as this.
        run(4, 2_400, (2_000, 0)).build(9_600),
        // And no cause stands out.
        run(2, 6_000, (2_000, 2_000)).build(12_000),
    ];
    for report in few.iter().map(diagnose) {
        assert!(!is_judged(&report), "{report}");
        assert!(report.findings.is_empty(), "{report}");
    }
    let report = diagnose(&run(5, 2_400, (1_000, 1_000)).build(12_000));
    assert!(is_judged(&report), "{report}");
}
