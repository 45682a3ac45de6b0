//! Copies: those that the next kernel depends on are charged, others are background.

mod common;

use common::device::{PAGEABLE, PINNED, TO_HOST, charged, share, top};
use common::device_step::{runner_steps, steps};

#[test]
fn a_pageable_copy_before_the_kernel_is_charged_with_its_rate() {
    let report = steps(10_000, |s| {
        s.copy(PAGEABLE, 70_000_000, (100, 7_150), (150, 7_150));
        s.launch((7_200, 7_210), (7_210, 10_000));
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
    let report = steps(10_000, |s| {
        for (from, bytes) in [(100, 50_000_000), (5_100, 10_000_000)] {
            s.copy(
                PAGEABLE,
                bytes,
                (from, from + 4_000),
                (from + 50, from + 4_000),
            );
        }
        s.launch((9_200, 9_210), (9_210, 10_000));
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
    let report = steps(10_000, |s| {
        s.copy(PINNED, 200_000_000, (0, 10), (10, 4_010));
        s.launch((20, 30), (4_010, 10_000));
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
        let report = steps(10_000, |s| {
            let copies = s.stream(0, 21);
            s.copy_on(copies, PINNED, 200_000_000, (0, 10), (10, 4_010));
            if waits {
                s.call("cudaStreamWaitEvent", (12, 14));
            }
            s.launch((5_000, 5_010), (5_010, 10_000));
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
        let report = steps(10_000, |s| {
            let copies = s.stream(0, 21);
            s.copy_on(copies, PINNED, 200_000_000, (0, 10), (10, 4_010));
            s.recorded_event_wait(copies, stream, on, (12, 14));
            s.launch((20, 30), (4_010, 10_000));
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
    let report = steps(10_000, |s| {
        let copies = s.stream(0, 21);
        s.copy_on(copies, PINNED, 200_000_000, (0, 10), (10, 4_010));
        s.call("cudaStreamSynchronize", (20, 4_020));
        s.launch((4_030, 4_040), (4_040, 10_000));
    });
    let finding = top(&report, "transfer.bandwidth");
    assert!((finding.share - 0.4).abs() < 0.01);
}

#[test]
fn a_copy_to_pageable_memory_of_the_host_gets_advice_for_that_way() {
    let report = steps(10_000, |s| {
        s.launch((0, 10), (10, 5_000));
        s.copy(TO_HOST, 40_000_000, (20, 9_010), (5_000, 9_000));
        s.launch((9_020, 9_030), (9_030, 10_000));
    });
    let finding = top(&report, "transfer.pageable");
    assert!(finding.remedy.contains("pinned buffer"));
    assert!(!finding.remedy.contains("DataLoader"));
}

#[test]
fn memsets_and_copies_within_the_device_are_work_of_the_device() {
    let report = steps(10_000, |s| {
        s.memset(1 << 20, (0, 5), (5, 2_005));
        s.launch((10, 20), (2_005, 10_000));
    });
    let finding = top(&report, "transfer.bandwidth");
    assert!(finding.remedy.contains("memsets"));
}

#[test]
fn a_runner_between_two_copies_of_one_stall_stages() {
    let report = runner_steps(10_000, |s| {
        for chunk in [0, 1_000, 2_000] {
            s.copy(
                PINNED,
                4 << 20,
                (chunk, chunk + 5),
                (chunk + 5, chunk + 205),
            );
        }
        s.launch((2_100, 2_110), (2_210, 10_000));
    });
    assert_eq!(
        charged(&report, "transfer.staging"),
        10 * 2 * 795_000 - 10 * 2 * 5_000 + 10 * 10_000
    );
}

#[test]
fn of_copies_that_do_not_say_their_bytes_no_size_is_told() {
    let proof = |sizes: [u64; 2]| {
        let report = steps(10_000, |s| {
            for (from, bytes) in [(0, sizes[0]), (3_000, sizes[1])] {
                let run = (from + 50, from + 3_000);
                s.copy(PAGEABLE, bytes, (from, from + 3_000), run);
            }
            s.launch((6_010, 6_020), (6_020, 10_000));
        });
        let finding = top(&report, "transfer.pageable");
        finding.chain[1].evidence.clone()
    };
    let none = proof([0, 0]);
    assert!(
        none.starts_with("20 copies") && !none.contains(" B"),
        "{none}"
    );
    let half = proof([0, 30_000_000]);
    assert!(half.contains(" copies of 30.0 MB each"), "{half}");
}
