//! A slow sampler: it draws indices in `next()`, on the thread that trains, with any number of workers.

mod common;

use common::Builder;
use common::kernel::blocked;
use gpustall_diagnose::{Cause, Finding, Report, diagnose};
use gpustall_trace::vocab::{PYTORCH, SAMPLE_INDICES, arg, cat};
use gpustall_trace::{TrackId, Value};

const STEPS: u64 = 60;
/// What a step takes outside of the loader, microseconds.
const REST: u64 = 10_000;

/// A program of PyTorch whose batches take `get` to make; the sampler takes `sampler` each time. With workers
/// a batch has come before its `next()` draws the indices of another one.
fn report(workers: u32, sampler: u64, get: u64) -> Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let hands: Vec<TrackId> = (0..workers)
        .map(|n| b.thread(101 + n, &format!("worker-{n}")))
        .collect();
    let mut at = 100_000;
    for step in 0..STEPS {
        let hand = step
            .checked_rem(u64::from(workers))
            .map_or(0, |n| n as usize);
        let ready = hands.get(hand).map(|&track| {
            // It was made in the step before.
            b.stage(
                track,
                cat::DATA_GET,
                step,
                Some(get),
                (at - get - 100, at - 100),
            );
        });
        let (drawn, wait) = match ready {
            Some(()) => ((at + 200, at + 200 + sampler), (at, at + 250 + sampler)),
            None => {
                let drawn = (at + 50, at + 50 + sampler);
                let made = (drawn.1, drawn.1 + get);
                b.stage(main, cat::DATA_GET, step, Some(get), made);
                (drawn, (at, made.1 + 50))
            }
        };
        b.slice(main, cat::PYTHON_FUNCTION, SAMPLE_INDICES, drawn, &[]);
        b.off(100, blocked("sleep", "hrtimer_nanosleep"), drawn);
        let tid = match ready {
            Some(()) => 101 + hand as u32,
            None => 100,
        };
        b.wait(main, "train", (0, step), Some((step, tid)), wait);
        b.step("train", 0, step, 100, (at, wait.1 + REST));
        at = wait.1 + REST;
    }
    b.watch(100, (0, at), &[]);
    let mut trace = b.build(at);
    let wait = trace.strings.find(cat::DATA_WAIT);
    let framework = trace.strings.intern(arg::FRAMEWORK);
    let pytorch = Value::Str(trace.strings.intern(PYTORCH));
    for slice in trace.slices.iter_mut().filter(|of| Some(of.cat) == wait) {
        let own = [(framework, pytorch)];
        slice.args = slice.args.iter().copied().chain(own).collect();
    }
    diagnose(&trace)
}

fn sampler(finding: &Finding) -> u64 {
    let links = finding.chain.iter().filter(|link| link.what == "sampler");
    links.map(|link| link.ns).sum()
}

#[test]
fn a_slow_sampler_is_a_stage_of_the_thread_that_trains_with_and_without_workers() {
    for workers in [0, 2] {
        let report = report(workers, 8_000, 500);
        let found = &report.findings[0];
        assert_eq!(found.cause, Cause::Data, "{report}");
        assert!(report.verdict.contains("in the sampler"), "{report}");
        // The first batch of an epoch that workers make is another cause's.
        let waits = STEPS - u64::from(workers > 0);
        assert_eq!(sampler(found), waits * 8_000_000, "{report}");
        let link = found.chain.iter().find(|link| link.what == "sampler");
        assert_eq!(link.map(|link| link.who.as_str()), Some("main"), "{report}");

        // Nobody is sent to the workers or to collate_fn, and nothing is predicted of either.
        assert!(
            found
                .remedy
                .contains("the sampler runs on the thread that trains")
        );
        assert!(!found.remedy.contains("num_workers"), "{report}");
        assert!(!found.remedy.contains("collate_fn"), "{report}");
        assert!(found.worker_counts.is_empty(), "{report}");
        let gained = found.step_ns.zip(found.predicted_step_ns);
        let gained = gained.map_or(0, |(step, then)| step - then);
        assert!(gained.abs_diff(8_000_000) < 100_000, "{report}");
    }
}

#[test]
fn workers_are_not_predicted_to_take_the_sampler_over() {
    // A batch takes 9 ms and its indices 6 ms, which the trainer spends beside the 10 ms of a step.
    let report = report(0, 6_000, 9_000);
    let found = report
        .findings
        .iter()
        .find(|of| of.cause == Cause::DataCompute)
        .unwrap_or_else(|| panic!("{report}"));
    assert!(found.remedy.contains("num_workers=1"), "{report}");
    assert!(!found.worker_counts.is_empty(), "{report}");
    for count in &found.worker_counts {
        assert!(count.predicted_step_ns >= 15_900_000, "{report}");
    }
    let then = found.predicted_step_ns.unwrap_or_default();
    assert!((15_900_000..17_000_000).contains(&then), "{report}");
}

#[test]
fn a_sampler_that_takes_next_to_nothing_is_not_told_apart() {
    let report = report(0, 100, 9_000);
    assert_eq!(report.findings[0].cause, Cause::DataCompute, "{report}");
    assert!(
        report.findings.iter().all(|of| sampler(of) == 0),
        "{report}"
    );
    assert!(!report.to_string().contains("sampler"), "{report}");
}
