//! After the launch: kernels that were submitted and do not run, and communication.

mod common;

use common::Builder;
use common::device::{charged, top};
use common::device_step::steps;
use gpustall_diagnose::diagnose;

#[test]
fn a_kernel_that_was_submitted_and_does_not_run_is_latency() {
    let report = steps(1_000, |s| {
        s.launch((0, 10), (210, 1_000));
    });
    assert_eq!(charged(&report, "gpu.launch-latency"), 10 * 200_000);
    assert_eq!(charged(&report, "host.launch-bound"), 10 * 10_000);
    let finding = top(&report, "gpu.launch-latency");
    assert!(finding.remedy.ends_with("or a graph of them."), "{report}");
}

#[test]
fn what_every_kernel_takes_to_begin_is_no_finding_until_it_takes_a_tenth() {
    for (run, finds) in [(30, false), (10, true)] {
        let report = steps(50 * (run + 2), |s| {
            for i in 0..50 {
                let start = i * (run + 2) + 2;
                s.launch((i, i + 1), (start, start + run));
            }
        });
        let found = report
            .findings
            .iter()
            .any(|f| f.cause.id() == "gpu.launch-latency");
        assert_eq!(found, finds, "{report}");
        assert!(common::device::share(&report, "gpu.launch-latency") > 0.05);
    }
}

#[test]
fn a_kernel_behind_an_event_wait_is_a_dependency() {
    let report = steps(1_000, |s| {
        s.call("cudaStreamWaitEvent", (0, 5));
        s.launch((6, 10), (210, 1_000));
    });
    assert_eq!(charged(&report, "gpu.dependency"), 10 * 200_000);
}

#[test]
fn communication_that_the_next_kernel_waits_for_is_exposed() {
    let report = steps(1_000, |s| {
        let comm = s.stream(0, 20);
        s.launch((0, 5), (5, 500));
        s.nccl_on(comm, (10, 15), (300, 900));
        s.call("cudaStreamWaitEvent", (16, 18));
        s.launch((20, 25), (900, 1_005));
    });
    let finding = top(&report, "comm.exposed");
    assert_eq!(charged(&report, "comm.exposed"), 10 * 400_000);
    assert!(finding.remedy.contains("bucket_cap_mb"));
    assert_eq!(report.devices[0].exposed_comm, Some(0.4));
}

#[test]
fn communication_under_a_late_launch_is_background() {
    let report = steps(1_000, |s| {
        let comm = s.stream(0, 20);
        s.nccl_on(comm, (10, 15), (500, 800));
        s.launch((885, 890), (890, 1_400));
    });
    assert_eq!(charged(&report, "comm.exposed"), 0);
    top(&report, "host.launch-bound");
}

#[test]
fn a_collective_waits_for_the_device_that_begins_it_last() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let compute = [b.stream(0, 7), b.stream(1, 7)];
    let comm = [b.stream(0, 20), b.stream(1, 20)];
    for step in 0..10u64 {
        let at = step * 1_000;
        b.profiler_step(main, step, (at, at + 1_000));
        for (device, busy) in [(0, 300), (1, 700)] {
            let id = step * 10 + device as u64 * 4 + 1;
            let call = at + device as u64 * 20;
            let (first, second) = (compute[device], comm[device]);
            b.launch(main, first, id, (call, call + 2), (call + 2, at + busy));
            b.call(main, "cudaLaunchKernelExC", id + 1, (call + 3, call + 5));
            b.nccl(second, id + 1, (at + busy, at + 800));
            b.call(main, "cudaStreamWaitEvent", 0, (call + 6, call + 7));
            b.launch(
                main,
                first,
                id + 2,
                (call + 8, call + 10),
                (at + 800, at + 1_000),
            );
        }
    }
    let report = diagnose(&b.build(10_000));
    assert_eq!(charged(&report, "comm.straggler"), 10 * 400_000);
    assert_eq!(charged(&report, "comm.exposed"), 2 * 10 * 100_000);
    let finding = top(&report, "comm.straggler");
    assert_eq!(finding.chain[0].who, "GPU 0");
}

#[test]
fn what_ends_without_a_kernel_is_unknown_and_shown() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    for step in 0..10u64 {
        let at = step * 1_000;
        b.step("train", 0, step, 100, (at, at + 1_000));
        b.launch(main, stream, step + 1, (at, at + 10), (at + 10, at + 1_000));
    }
    let report = diagnose(&b.build(20_000));
    let finding = top(&report, "unknown");
    assert_eq!(finding.lost_ns, 10_000_000);
    assert!(finding.remedy.contains("mark it"), "{}", finding.remedy);
}

#[test]
fn a_stream_of_another_device_with_the_same_number_is_another_stream() {
    let report = steps(1_000, |s| {
        let other = s.stream(1, 7);
        s.call("cudaStreamWaitEvent", (0, 2));
        // Work for the other device's stream 7 is not what this one's waited behind.
        s.launch_on(other, (3, 5), (5, 1_000));
        s.launch((6, 10), (210, 1_000));
    });
    assert_eq!(charged(&report, "gpu.dependency"), 10 * 200_000);
}
