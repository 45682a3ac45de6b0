//! The host before a launch: its calls, its phases, its rhythm.

mod common;

use common::device::{charged, share, top};
use common::device_step::{Step, runner_steps, steps};
use common::kernel::{blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::{Cause, diagnose};
use gpustall_trace::vocab::{arg, cat};

/// Fifty launches from `at` on, each `every` after the one before, of kernels that run for `run`.
fn burst(s: &mut Step<'_>, (at, every, run): (u64, u64, u64)) {
    for i in 0..50 {
        let call = at + i * every;
        s.launch((call, call + 5), (call + 7, call + 7 + run));
    }
}

#[test]
fn kernels_that_end_before_the_next_launch_are_launch_bound() {
    let report = steps(2_500, |s| {
        burst(s, (0, 50, 5));
    });
    let finding = top(&report, "host.launch-bound");
    assert!(finding.share > 0.8);
    assert_eq!(finding.severity.to_string(), "HIGH");
    assert!(finding.remedy.contains("CUDA graphs"));
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !finding.cause.id().starts_with("data"))
    );
    assert_eq!(charged(&report, "host.compute"), 0);
    // What is not lost is how long the device is busy.
    let predicted = finding.predicted_step_ns.expect("it is predicted");
    assert!(predicted < 500_000, "{predicted}");
}

#[test]
fn a_stretch_that_stands_out_from_the_rhythm_is_host_compute() {
    let report = steps(12_500, |s| {
        burst(s, (0, 50, 45));
    });
    let finding = top(&report, "host.compute");
    assert!((finding.share - 0.785).abs() < 0.01);
    assert_eq!(
        finding.stalls.count, 9,
        "the last one is after the last operation"
    );
}

#[test]
fn one_launch_a_step_has_no_rhythm_and_long_stretches_still_stand_out() {
    let report = steps(30_000, |s| {
        s.launch((0, 10), (10, 5_000));
    });
    top(&report, "host.compute");
}

#[test]
fn a_stretch_below_a_millisecond_does_not_stand_out() {
    let report = steps(3_300, |s| {
        burst(s, (0, 50, 45));
    });
    assert_eq!(charged(&report, "host.compute"), 0);
    top(&report, "host.launch-bound");
}

#[test]
fn the_optimizers_own_work_is_dispatch() {
    let report = steps(12_000, |s| {
        burst(s, (0, 50, 45));
        s.annotate("Optimizer.step#SGD.step", (2_500, 12_000));
    });
    assert_eq!(charged(&report, "host.compute"), 0);
    let finding = top(&report, "host.launch-bound");
    assert!(
        finding
            .chain
            .iter()
            .any(|link| link.what.contains("Optimizer.step"))
    );
}

#[test]
fn an_optimizer_that_launches_nothing_for_long_computes_on_the_host() {
    let report = steps(42_500, |s| {
        burst(s, (0, 50, 45));
        let span = (2_500, 42_500);
        s.annotate("Optimizer.step#DeepSpeedCPUAdam.step", span);
    });
    let finding = top(&report, "host.compute");
    let names = |what: &str| what.contains("DeepSpeedCPUAdam");
    assert!(
        finding.chain.iter().any(|link| names(&link.what)),
        "{report}"
    );
}

#[test]
fn calls_that_allocate_or_load_code_are_charged_as_such() {
    for (call, cause, word) in [
        ("cudaMalloc", "alloc.device", "caching allocator"),
        ("cudaFree", "alloc.device", "caching allocator"),
        ("cudaHostAlloc", "alloc.device", "caching allocator"),
        ("cuModuleLoadData", "host.compile", "compile"),
        ("cuLibraryLoadData", "host.compile", "compile"),
    ] {
        let report = steps(5_000, |s| {
            burst(s, (0, 50, 45));
            s.call(call, (2_600, 4_900));
        });
        let finding = top(&report, cause);
        assert!((finding.share - 0.46).abs() < 0.05, "{call}");
        assert!(finding.remedy.contains(word) || call == "cuLibraryLoadData");
        assert!(finding.chain.iter().any(|link| link.what.contains(call)));
        assert_eq!(
            charged(&report, "host.compute"),
            0,
            "what is explained does not stand out"
        );
    }
}

#[test]
fn a_call_inside_a_wait_for_data_counts_as_the_call() {
    let report = steps(5_000, |s| {
        burst(s, (0, 50, 45));
        s.annotate("data_next", (2_500, 5_000));
        s.call("cudaHostAlloc", (3_000, 4_500));
    });
    assert_eq!(charged(&report, "alloc.device"), 9 * 1_500_000);
    assert_eq!(
        charged(&report, "data"),
        9 * (2_500_000 - 1_500_000 - 2_000)
    );
}

#[test]
fn marked_phases_of_the_feeder_are_charged_while_the_runner_has_nothing_to_do() {
    let report = runner_steps(10_000, |s| {
        s.launch((0, 10), (10, 5_000));
        s.phase("metrics.push", (5_000, 8_000));
        s.phase("checkpoint", (8_000, 10_000));
        // A call of the runner hides what the feeder does.
        s.call("cuMemAlloc_v2", (6_000, 7_000));
    });
    assert_eq!(charged(&report, "host.metrics"), 10 * 2_000_000);
    assert_eq!(charged(&report, "alloc.device"), 10 * 1_000_000);
    assert_eq!(charged(&report, "host.checkpoint"), 10 * 2_000_000);
}

#[test]
fn work_of_the_runner_hides_what_the_feeder_does() {
    let mut b = Builder::new();
    let (main, runner) = (b.thread(100, "main"), b.thread(101, "autograd"));
    let stream = b.stream(0, 7);
    for step in 0..10u64 {
        let at = step * 10_000;
        b.profiler_step(main, step, (at, at + 10_000));
        b.annotate(main, "data_next", (at + 5_000, at + 9_000));
        let args = [(arg::CORRELATION, V::N(0))];
        b.slice(
            runner,
            cat::CPU_OP,
            "aten::mul",
            (at + 6_000, at + 7_000),
            &args,
        );
        b.launch(
            runner,
            stream,
            step + 1,
            (at, at + 10),
            (at + 10, at + 5_000),
        );
    }
    let report = gpustall_diagnose::diagnose(&b.build(100_000));
    assert_eq!(charged(&report, "data"), 9 * 3_000_000);
}

#[test]
fn a_launch_that_was_not_recorded_is_still_charged_once_and_only_inferred() {
    let report = steps(2_500, |s| {
        for i in 0..50 {
            let call = i * 50;
            s.kernel((call + 7, call + 12));
        }
    });
    assert!(share(&report, "host.launch-bound") > 0.8);
    let finding = top(&report, "host.launch-bound");
    let edges: Vec<_> = finding.chain.iter().map(|link| link.edge).collect();
    assert_eq!(edges[1], gpustall_diagnose::Edge::Inferred);
}

#[test]
fn a_busy_device_has_no_finding() {
    let report = steps(5_000, |s| {
        for i in 0..10 {
            let call = i * 20;
            let run = i * 500;
            s.launch((call, call + 5), (run + 10, run + 509));
        }
    });
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.verdict.contains("compute-bound"));
}

/// Ten steps of 100 ms on `main` (thread 100), whose kernel a runner (101) launches after 60 ms; `more` draws
/// the rest of each, from its start.
fn fed_runner(more: impl Fn(&mut Builder, u64)) -> gpustall_diagnose::Report {
    let mut b = Builder::new();
    b.thread(100, "main");
    let runner = b.thread(101, "DSD-0-0");
    let stream = b.stream(0, 7);
    for step in 0..10 {
        let start = step * 100_000;
        let call = (start + 60_000, start + 60_010);
        b.step("train", 0, step, 100, (start, start + 100_000));
        b.launch(runner, stream, step + 1, call, (call.1, start + 100_000));
        more(&mut b, start);
    }
    b.watch(100, (0, 1_000_000), &[]);
    b.watch(101, (0, 1_000_000), &[]);
    diagnose(&b.build(1_000_000))
}

/// Burn's runner compiles between its calls, while the thread that trains sleeps and looks whether it is
/// done.
#[test]
fn a_runner_that_compiles_is_known_by_its_samples() {
    let report = fed_runner(|b, start| {
        let sleep = blocked("sleep", "hrtimer_nanosleep");
        b.off(100, sleep, (start, start + 60_000));
        for sample in 1..12 {
            let class = match sample < 9 {
                true => "device compiler",
                false => "user",
            };
            b.sample(101, class, "[libnvrtc.so.13]", start + sample * 5_000);
        }
    });
    let compiled = charged(&report, "host.compile");
    // Eight of twelve samples of each step: 40 of its 60 ms, give or take half a sample at each end.
    assert!((375_000_000..=430_000_000).contains(&compiled), "{report}");
    assert_eq!(report.findings[0].cause, Cause::HostCompile, "{report}");
    assert!(
        report.to_string().contains("compiled device code"),
        "{report}"
    );
}

/// A runner that had no CPU until shortly before it launched had been asked; one that got a CPU long
/// before had not.
#[test]
fn a_runner_without_a_cpu_is_what_keeps_the_device_waiting_if_it_launches_at_once() {
    let charges = |idle_after: u64| {
        let report = fed_runner(|b, start| {
            let until = start + 60_000 - idle_after;
            b.off(101, preempted("other", 9), (start + 10_000, until));
        });
        charged(&report, "host.preempted")
    };
    assert_eq!(charges(500), 10 * 49_500_000);
    assert_eq!(charges(2_000), 0);
}
