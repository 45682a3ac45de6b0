//! How a device spent the window, over the union of its streams.

mod common;

use common::device::{NCCL, PINNED, charged};
use common::{Builder, V};
use gpustall_diagnose::diagnose;
use gpustall_trace::TrackKind;
use gpustall_trace::vocab::{arg, cat};

#[test]
fn overlapping_streams_count_once_and_the_first_of_compute_communication_copy_wins() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let (compute, comm, copies) = (b.stream(0, 7), b.stream(0, 20), b.stream(0, 21));
    b.profiler_step(main, 0, (0, 100));
    b.kernel(compute, 1, (10, 30));
    b.kernel(comm, 2, (20, 40));
    b.nccl(comm, 3, (35, 60));
    b.copy(copies, PINNED, 4, 1, (50, 70));
    b.op(copies, cat::GPU_MEMSET, "Memset (Device)", 5, 1, (70, 75));
    b.kernel(compute, 6, (90, 100));
    let report = diagnose(&b.build(120));
    assert_eq!(report.window_ns, 100_000, "it ends with the last operation");
    let device = &report.devices[0];
    assert_eq!(device.name, "GPU 0");
    assert_eq!(device.tid, None);
    assert_eq!(device.compute, 0.4);
    assert_eq!(device.exposed_comm, Some(0.2));
    assert_eq!(device.exposed_copy, Some(0.15));
    assert_eq!(device.idle, 0.25);
    assert_eq!(charged(&report, "compute"), 40_000);
    assert_eq!(report.charges_ns.values().sum::<u64>(), 100_000);
}

#[test]
fn every_device_has_an_account_of_its_own() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let streams = [b.stream(0, 7), b.stream(1, 7)];
    for step in 0..10 {
        let at = step * 1000;
        b.profiler_step(main, step, (at, at + 1000));
        b.kernel(streams[0], 2 * step + 1, (at, at + 900));
        b.kernel(streams[1], 2 * step + 2, (at, at + 300));
    }
    b.kernel(streams[0], 100, (9900, 10_000));
    let report = diagnose(&b.build(10_000));
    assert_eq!(report.window_ns, 10_000_000);
    assert_eq!(report.device_ns, 20_000_000);
    let names: Vec<&str> = report.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["GPU 0", "GPU 1"]);
    assert_eq!(report.devices[0].compute, 0.91);
    assert_eq!(report.devices[1].compute, 0.3);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
}

#[test]
fn without_steps_the_window_spans_the_operations_and_causes_stay_coarse() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    for i in 0..50 {
        let at = 1000 + i * 100;
        b.launch(main, stream, i + 1, (at, at + 5), (at + 5, at + 40));
    }
    let report = diagnose(&b.build(10_000));
    assert_eq!(report.window_start_ns, 1_005_000);
    assert_eq!(report.window_ns, 4_935_000);
    assert_eq!(report.steps.count, 0);
    assert_eq!(report.evidence.level, "foreign trace");
    assert_eq!(report.findings[0].cause.id(), "host");
    assert!(
        report
            .evidence
            .missing
            .iter()
            .any(|missing| missing.what == "steps")
    );
    assert!(!report.breakdown.contains_key("host.launch-bound"));
}

#[test]
fn a_recording_of_ours_is_judged_to_its_end_and_says_its_level() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    for step in 0..10 {
        let at = step * 1000;
        b.step("train", 0, step, 100, (at, at + 1000));
        b.launch(main, stream, step + 1, (at, at + 10), (at + 10, at + 900));
    }
    let report = diagnose(&b.build(11_000));
    assert_eq!(report.window_ns, 11_000_000);
    assert_eq!(report.evidence.level, "spans + device");
    let have = |what: &str| report.evidence.have.iter().any(|have| have == what);
    assert!(have("device operations") && have("driver calls"));
    assert_eq!(
        charged(&report, "unknown"),
        1_100_000,
        "no kernel follows the last one"
    );
}

#[test]
fn each_driver_call_has_a_row_with_its_percentiles() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    b.profiler_step(main, 0, (0, 2000));
    for i in 0..100 {
        let length = if i == 99 { 10 } else { 2 };
        let at = i * 20;
        b.launch(main, stream, i + 1, (at, at + length), (at + 10, at + 20));
    }
    b.call(main, "cudaMalloc", 0, (1995, 2000));
    let report = diagnose(&b.build(2000));
    assert_eq!(report.calls.len(), 2);
    let launch = &report.calls[0];
    assert_eq!(
        (launch.name.as_str(), launch.count),
        ("cudaLaunchKernel", 100)
    );
    assert_eq!(
        (launch.p50_ns, launch.p99_ns, launch.max_ns),
        (2000, 2000, 10_000)
    );
    assert_eq!((launch.total_ns, launch.p99_over_p50), (208_000, Some(1.0)));
}

#[test]
fn an_operation_without_arguments_still_counts() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let track = b.track(gpustall_trace::Pid(0), 7, "stream 7", TrackKind::Synthetic);
    b.profiler_step(main, 0, (0, 100));
    b.slice(
        track,
        cat::KERNEL,
        NCCL,
        (0, 50),
        &[(arg::STREAM, V::S("seven"))],
    );
    b.slice(track, cat::KERNEL, "gemm", (50, 100), &[]);
    let report = diagnose(&b.build(100));
    assert_eq!(charged(&report, "compute"), 50_000);
    assert_eq!(charged(&report, "comm.exposed"), 50_000);
}

#[test]
fn events_that_were_lost_are_said_and_the_charges_still_add_up() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    for step in 0..10 {
        let at = step * 1000;
        b.profiler_step(main, step, (at, at + 1000));
        // The launch of every second kernel is lost.
        if step % 2 == 0 {
            b.call(main, "cudaLaunchKernel", step + 1, (at, at + 10));
        }
        b.kernel(stream, step + 1, (at + 500, at + 1000));
    }
    b.lose("cupti", 5000, 5);
    let report = diagnose(&b.build(10_000));
    assert_eq!(report.lost_events["cupti"], 5);
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("5 from cupti"))
    );
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    assert_eq!(charged(&report, "gpu.launch-latency"), 5 * 490_000);
    assert_eq!(
        charged(&report, "host.launch-bound"),
        5 * 500_000 + 5 * 10_000
    );
}
