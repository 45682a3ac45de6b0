//! Copies: those that the next kernel depends on are charged, others are background.

mod common;

use common::V;
use common::device::{PAGEABLE, PINNED, TO_HOST, charged, next, share, steps, top};
use gpustall_trace::vocab::{arg, cat};

#[test]
fn a_pageable_copy_before_the_kernel_is_charged_with_its_rate() {
    let report = steps(10_000, |b, main, stream, at, id| {
        let copy = next(id);
        b.call(main, "cudaMemcpyAsync", copy, (at + 100, at + 7_150));
        b.copy(stream, PAGEABLE, copy, 70_000_000, (at + 150, at + 7_150));
        b.launch(
            main,
            stream,
            next(id),
            (at + 7_200, at + 7_210),
            (at + 7_210, at + 10_000),
        );
    });
    let finding = top(&report, "transfer.pageable");
    assert!((finding.share - 0.705).abs() < 0.01);
    assert!((finding.evidence["copy_gb_s"] - 10.0).abs() < 0.01);
    assert!(finding.remedy.contains("non_blocking=True"));
    assert!(finding.remedy.contains("pin_memory"));
    assert_eq!(finding.chain[0].who, "GPU 0");
    let copies = format!("{} copies of 70.0 MB each, 10.0 GB/s", finding.stalls.count);
    assert!(finding.chain[1].evidence.starts_with(&copies), "{report}");
    let predicted = finding.predicted_step_ns.expect("it is predicted");
    // 70 MB at 2.5 times what pageable memory reached.
    assert!((2_700_000..3_300_000).contains(&predicted), "{predicted}");
}

#[test]
fn of_copies_that_are_not_equally_large_the_mean_is_told_as_one() {
    let report = steps(10_000, |b, main, stream, at, id| {
        for (from, bytes) in [(at + 100, 50_000_000), (at + 5_100, 10_000_000)] {
            let copy = next(id);
            b.call(main, "cudaMemcpyAsync", copy, (from, from + 4_000));
            b.copy(stream, PAGEABLE, copy, bytes, (from + 50, from + 4_000));
        }
        let call = (at + 9_200, at + 9_210);
        b.launch(main, stream, next(id), call, (at + 9_210, at + 10_000));
    });
    let finding = top(&report, "transfer.pageable");
    let proof = &finding.chain[1].evidence;
    assert!(
        proof.contains(" copies of 30.0 MB on average, "),
        "{report}"
    );
}

#[test]
fn a_pinned_copy_is_bandwidth_and_the_wait_for_it_is_not_named_again() {
    let report = steps(10_000, |b, main, stream, at, id| {
        let copy = next(id);
        b.call(main, "cudaMemcpyAsync", copy, (at, at + 10));
        b.copy(stream, PINNED, copy, 200_000_000, (at + 10, at + 4_010));
        b.launch(
            main,
            stream,
            next(id),
            (at + 20, at + 30),
            (at + 4_010, at + 10_000),
        );
    });
    let finding = top(&report, "transfer.bandwidth");
    assert_eq!(report.findings.len(), 1);
    assert!((finding.share - 0.4).abs() < 0.01);
    assert!(
        !finding.remedy.contains("pin_memory"),
        "it is pinned already"
    );
}

#[test]
fn a_copy_on_another_stream_is_background_without_a_wait_between() {
    for waits in [false, true] {
        let mut other = None;
        let report = steps(10_000, |b, main, stream, at, id| {
            let copies = *other.get_or_insert_with(|| b.stream(0, 21));
            let copy = next(id);
            b.call(main, "cudaMemcpyAsync", copy, (at, at + 10));
            b.copy(copies, PINNED, copy, 200_000_000, (at + 10, at + 4_010));
            if waits {
                b.call(main, "cudaStreamWaitEvent", 0, (at + 12, at + 14));
            }
            b.launch(
                main,
                stream,
                next(id),
                (at + 5_000, at + 5_010),
                (at + 5_010, at + 10_000),
            );
        });
        if waits {
            assert!((share(&report, "transfer.bandwidth") - 0.4).abs() < 0.01);
        } else {
            assert_eq!(charged(&report, "transfer.bandwidth"), 0);
            // One launch a step: that is the rhythm of this run.
            top(&report, "host.launch-bound");
        }
        let copy = report.devices[0].exposed_copy.expect("it is measured");
        assert!(
            (copy - 0.4).abs() < 0.01,
            "the account counts it either way"
        );
    }
}

#[test]
fn a_recorded_event_wait_counts_for_the_streams_that_it_names_only() {
    for (stream, on, depends) in [(7, 21, true), (7, 22, false), (9, 21, false)] {
        let mut other = None;
        let report = steps(10_000, |b, main, compute, at, id| {
            let copies = *other.get_or_insert_with(|| b.stream(0, 21));
            let (copy, wait) = (next(id), next(id));
            b.call(main, "cudaMemcpyAsync", copy, (at, at + 10));
            b.copy(copies, PINNED, copy, 200_000_000, (at + 10, at + 4_010));
            b.call(main, "cudaStreamWaitEvent", wait, (at + 12, at + 14));
            let args = [
                (arg::CORRELATION, V::N(wait)),
                (arg::STREAM, V::N(stream)),
                (arg::WAIT_ON_STREAM, V::N(on)),
            ];
            b.slice(
                copies.track,
                cat::CUDA_SYNC,
                "Stream Wait Event",
                (at + 13, at + 14),
                &args,
            );
            b.launch(
                main,
                compute,
                next(id),
                (at + 20, at + 30),
                (at + 4_010, at + 10_000),
            );
        });
        assert_eq!(charged(&report, "transfer.bandwidth") > 0, depends);
        assert_eq!(charged(&report, "gpu.launch-latency") > 0, stream == 9);
        if depends {
            let edges: Vec<_> = report.findings[0]
                .chain
                .iter()
                .map(|link| link.edge)
                .collect();
            assert_eq!(edges[1], gpustall_diagnose::Edge::Observed);
        }
    }
}

#[test]
fn a_copy_that_the_host_waited_for_is_a_dependency_on_any_stream() {
    let mut other = None;
    let report = steps(10_000, |b, main, stream, at, id| {
        let copies = *other.get_or_insert_with(|| b.stream(0, 21));
        let copy = next(id);
        b.call(main, "cudaMemcpyAsync", copy, (at, at + 10));
        b.copy(copies, PINNED, copy, 200_000_000, (at + 10, at + 4_010));
        b.call(main, "cudaStreamSynchronize", 0, (at + 20, at + 4_020));
        b.launch(
            main,
            stream,
            next(id),
            (at + 4_030, at + 4_040),
            (at + 4_040, at + 10_000),
        );
    });
    let finding = top(&report, "transfer.bandwidth");
    assert!((finding.share - 0.4).abs() < 0.01);
}

#[test]
fn a_copy_to_pageable_memory_of_the_host_gets_advice_for_that_way() {
    let report = steps(10_000, |b, main, stream, at, id| {
        b.launch(main, stream, next(id), (at, at + 10), (at + 10, at + 5_000));
        let copy = next(id);
        b.call(main, "cudaMemcpyAsync", copy, (at + 20, at + 9_010));
        b.copy(stream, TO_HOST, copy, 40_000_000, (at + 5_000, at + 9_000));
        b.launch(
            main,
            stream,
            next(id),
            (at + 9_020, at + 9_030),
            (at + 9_030, at + 10_000),
        );
    });
    let finding = top(&report, "transfer.pageable");
    assert!(finding.remedy.contains("pinned buffer"));
    assert!(!finding.remedy.contains("DataLoader"));
}

#[test]
fn memsets_and_copies_within_the_device_are_work_of_the_device() {
    let report = steps(10_000, |b, main, stream, at, id| {
        let set = next(id);
        b.call(main, "cudaMemsetAsync", set, (at, at + 5));
        b.op(
            stream,
            cat::GPU_MEMSET,
            "Memset (Device)",
            set,
            1 << 20,
            (at + 5, at + 2_005),
        );
        b.launch(
            main,
            stream,
            next(id),
            (at + 10, at + 20),
            (at + 2_005, at + 10_000),
        );
    });
    let finding = top(&report, "transfer.bandwidth");
    assert!(finding.remedy.contains("memsets"));
}

#[test]
fn a_runner_between_two_copies_of_one_stall_stages() {
    use common::Builder;
    let mut b = Builder::new();
    let (main, runner) = (b.thread(100, "main"), b.thread(101, "DSD-cuda-0"));
    let stream = b.stream(0, 7);
    for step in 0..10u64 {
        let (at, id) = (step * 10_000, step * 10);
        b.step("train", 0, step, 100, (at, at + 10_000));
        for chunk in 0..3 {
            let from = at + 1_000 * chunk;
            b.call(
                runner,
                "cuMemcpyHtoDAsync_v2",
                id + chunk + 1,
                (from, from + 5),
            );
            b.copy(
                stream,
                PINNED,
                id + chunk + 1,
                4 << 20,
                (from + 5, from + 205),
            );
        }
        b.call(runner, "cuLaunchKernel", id + 9, (at + 2_100, at + 2_110));
        b.kernel(stream, id + 9, (at + 2_210, at + 10_000));
    }
    let _ = main;
    let report = gpustall_diagnose::diagnose(&b.build(100_000));
    assert_eq!(
        charged(&report, "transfer.staging"),
        10 * 2 * 795_000 - 10 * 2 * 5_000 + 10 * 10_000
    );
}
