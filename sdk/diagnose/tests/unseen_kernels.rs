//! Launches whose kernels were not recorded say nothing of the device, and least that it was idle.

mod common;

use common::Builder;
use common::device::PINNED;
use common::device_step::{Step, runner_steps};
use gpustall_diagnose::{MIN_UNSEEN_LAUNCHES, Report, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Pid, TrackId, TrackKind};

const LAUNCHES: u64 = MIN_UNSEEN_LAUNCHES / 10;

/// Ten steps of 1000 units, each with a copy and so many launches without a kernel.
fn unanswered(launches: u64, more: impl Fn(&mut Step<'_>)) -> Report {
    runner_steps(1_000, |s| {
        s.copy(PINNED, 1 << 20, (0, 5), (5, 10));
        for i in 0..launches {
            s.call("cuLaunchKernel", (20 + 10 * i, 25 + 10 * i));
        }
        more(s);
    })
}

/// The thread that trains, and the one that calls the driver, which is given back.
fn threads(b: &mut Builder) -> TrackId {
    b.thread(100, "main");
    b.thread(101, "DSD-cuda-0")
}

/// Devices are not captured for so long.
fn pause(b: &mut Builder, span: (u64, u64)) {
    let (pid, name) = (Pid(Pid::SYNTHETIC), "devices not captured");
    let track = b.track(pid, 900, name, TrackKind::Synthetic);
    b.slice(track, cat::PAUSE, "paused", span, &[]);
}

fn says(report: &Report, what: &str) -> bool {
    report.notes.iter().any(|note| note.contains(what))
}

#[test]
fn a_device_whose_kernels_were_not_recorded_is_not_said_to_be_idle() {
    let report = unanswered(LAUNCHES, |_| {});
    assert!(
        report.devices.iter().all(|device| device.tid.is_some()),
        "{report}"
    );
    assert!(
        says(
            &report,
            "200 launches of kernels were recorded and no kernel"
        ),
        "{report}"
    );
    let lacks = report.evidence.missing.iter();
    assert!(
        lacks.clone().any(|of| of.what == "device activity"),
        "{report}"
    );
    let verdict =
        "what the device did is not known: 200 kernels were launched and none was recorded";
    assert!(report.verdict.contains(verdict), "{report}");
    // The calls themselves are known.
    assert_eq!(
        report.calls.first().map(|call| call.count),
        Some(10 * LAUNCHES)
    );
}

#[test]
fn few_launches_one_kernel_or_a_graph_are_no_such_case() {
    let few = unanswered(LAUNCHES - 1, |_| {});
    let one = unanswered(LAUNCHES, |s| s.launch((500, 505), (505, 600)));
    let graph = unanswered(LAUNCHES, |s| s.call("cuGraphLaunch", (500, 505)));
    for report in [few, one, graph] {
        assert!(!says(&report, "no kernel"), "{report}");
        assert!(
            report.devices.iter().any(|device| device.tid.is_none()),
            "{report}"
        );
    }
}

#[test]
fn a_window_of_the_capture_without_kernels_is_left_out_like_a_pause() {
    let mut b = Builder::new();
    let runner = threads(&mut b);
    let stream = b.stream(0, 7);
    for n in 0..40 {
        let at = 1_000 * n;
        b.step("train", 0, n, 100, (at, at + 1_000));
        // Captured up to 15,000 with kernels, and from 20,000 on without.
        if (15..20).contains(&n) {
            continue;
        }
        for i in 0..10 {
            let (id, from) = (n * 100 + i + 1, at + 100 * i);
            b.call(runner, "cuLaunchKernel", id, (from, from + 5));
            if n < 15 {
                b.kernel(stream, id, (from + 5, from + 95));
            } else if i == 0 {
                b.copy(stream, PINNED, id, 1 << 10, (from + 5, from + 10));
            }
        }
    }
    pause(&mut b, (15_000, 20_000));
    let report = diagnose(&b.build(40_000));
    assert!(
        says(&report, "200 kernels were launched and none was recorded"),
        "{report}"
    );
    assert_eq!(report.window_ns, 15_000_000, "{report}");
    let device = report.devices.iter().find(|device| device.tid.is_none());
    assert!(device.is_some_and(|of| of.compute > 0.85), "{report}");
}

#[test]
fn kernels_that_run_when_their_window_is_over_were_seen() {
    let mut b = Builder::new();
    let runner = threads(&mut b);
    let stream = b.stream(0, 7);
    for n in 0..20 {
        b.step("train", 0, n, 100, (1_000 * n, 1_000 * n + 1_000));
    }
    // Launched in the first 2,000, and behind a long kernel until the window is over.
    b.copy(stream, PINNED, 1, 1 << 10, (0, 10));
    for i in 0..MIN_UNSEEN_LAUNCHES {
        b.call(runner, "cuLaunchKernel", i + 2, (5 * i, 5 * i + 3));
        b.kernel(stream, i + 2, (2_500 + 10 * i, 2_510 + 10 * i));
    }
    pause(&mut b, (2_000, 20_000));
    let report = diagnose(&b.build(20_000));
    assert!(!says(&report, "was recorded"), "{report}");
    assert!(!says(&report, "no kernel"), "{report}");
}
