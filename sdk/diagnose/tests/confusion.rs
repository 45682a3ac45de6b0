//! The causes that need a device in one matrix: what was planted, and what was found first.
//!
//! Timelines that were recorded on an H200, and for causes that none of them has, such as are played
//! through. `cargo test -p gpustall-diagnose --test confusion -- --nocapture` prints it.

mod common;

use common::pytorch::{Spelling, Torch};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::read_any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the matrix says where nothing was planted, or nothing found.
const NOTHING: &str = "nothing";

/// Recordings under `tests/fixtures`, and the cause that must be found first.
const RECORDED: [(&str, &str); 17] = [
    ("kineto/healthy_gpu_bound.pt.trace.json.gz", NOTHING),
    ("kineto/loader_inprocess_cpu.pt.trace.json.gz", "data"),
    ("kineto/h2d_pageable.pt.trace.json.gz", "transfer.pageable"),
    (
        "kineto/launch_bound_tiny_kernels.pt.trace.json.gz",
        "host.launch-bound",
    ),
    (
        "kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz",
        "data",
    ),
    (
        "kineto/resnet50_num_workers_4__worker0.1623212756351.pt.trace.json.gz",
        "host.launch-bound",
    ),
    ("kineto/planted/healthy_mlp.pt.trace.json.gz", NOTHING),
    ("kineto/planted/h2d_prefetched.pt.trace.json.gz", NOTHING),
    (
        "kineto/planted/readback_every_layer.pt.trace.json.gz",
        "sync.readback",
    ),
    (
        "kineto/planted/host_compute_between_steps.pt.trace.json.gz",
        "host.compute",
    ),
    (
        "kineto/planted/h2d_pinned.pt.trace.json.gz",
        "transfer.bandwidth",
    ),
    // Two causes are in it: the model is small, too.
    (
        "kineto/planted/alloc_every_step.pt.trace.json.gz",
        "alloc.device|host.launch-bound",
    ),
    (
        "kineto/planted/checkpoint_marked.pt.trace.json.gz",
        "host.checkpoint",
    ),
    (
        "kineto/planted/loader_two_slow_workers.pt.trace.json.gz",
        "data",
    ),
    (
        "kineto/planted/cuda_graph_replay.pt.trace.json.gz",
        "gpu.launch-latency",
    ),
    // Without steps nothing finer is said.
    ("cuda/torch.json.partial.gz", "host"),
    ("cuda/mix.json.partial.gz", "host"),
];

/// Twelve steps of a model that keeps its device busy, with something in each.
fn played(step: impl Fn(&mut Torch)) -> Report {
    let mut torch = Torch::new(Spelling::Cuda);
    for number in 3..15 {
        torch.step(number, |t| {
            t.model(10, 400.0);
            step(t);
        });
    }
    torch.report()
}

/// A loop in which one device of two gets its work late.
fn straggler() -> Report {
    let mut torch = Torch::new(Spelling::Cuda);
    for number in 3..15 {
        torch.step(number, |t| {
            t.device = 1;
            t.model(10, 700.0);
            t.device = 0;
            t.model(10, 300.0);
            t.exchange("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 200.0);
        });
    }
    torch.report()
}

/// Those that are played, and the cause that must be found first.
fn all_played() -> Vec<(&'static str, &'static str, Report)> {
    vec![
        (
            "an exchange after the backward pass",
            "comm.exposed",
            played(|t| {
                t.collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4_000.0);
                t.wait_for_collectives();
            }),
        ),
        ("a device that is late", "comm.straggler", straggler()),
        (
            "an event of another stream",
            "gpu.dependency",
            played(|t| {
                t.wait_for_event(4_000.0);
                t.kernel("sgemm", 400.0);
            }),
        ),
        (
            "metrics in the step",
            "host.metrics",
            played(|t| {
                t.item();
                t.annotate("metrics: accuracy", |t| t.spend(5_000.0));
            }),
        ),
        (
            "shapes that change",
            "host.compile",
            played(|t| {
                t.item();
                t.call("LibraryLoadData", 5_000.0);
            }),
        ),
        (
            "a copy into pinned memory",
            "transfer.staging",
            played(|t| {
                t.item();
                t.annotate("staging", |t| t.spend(5_000.0));
            }),
        ),
        ("nothing", NOTHING, played(|_| {})),
    ]
}

fn recorded(file: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    diagnose(&read_any(&folder.join(file)).expect("it is readable").trace)
}

fn first(report: &Report) -> &'static str {
    report.findings.first().map_or(NOTHING, |f| f.cause.id())
}

#[test]
fn what_is_found_first_is_what_was_planted() {
    let mut cells: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let recordings = RECORDED.map(|(file, cause)| (file, cause, recorded(file), "recorded"));
    let played = all_played().into_iter();
    let played = played.map(|(name, cause, report)| (name, cause, report, "played"));
    println!(
        "{:<9} {:<56} {:<19} found first, share of the window",
        "", "timeline", "planted"
    );
    for (name, planted, report, how) in recordings.into_iter().chain(played) {
        assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        let found = first(&report);
        let planted = match planted.split('|').find(|&cause| cause == found) {
            Some(cause) => cause,
            None => planted.split('|').next().unwrap_or(planted),
        };
        let name = name.trim_end_matches(".pt.trace.json.gz");
        let name: String = name.chars().take(56).collect();
        let share = report.findings.first().map_or(0.0, |f| f.share * 100.0);
        println!("{how:<9} {name:<56} {planted:<19} {found} {share:.0} %");
        *cells.entry((planted, found)).or_default() += 1;
        if found != planted {
            wrong.push(format!(
                "{name}: planted {planted}, found {found}\n{report}"
            ));
        }
    }
    print_matrix(&cells);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn print_matrix(cells: &BTreeMap<(&str, &str), usize>) {
    println!("\n{:<20}found first", "planted");
    let planted: BTreeSet<&str> = cells.keys().map(|of| of.0).collect();
    for planted in planted {
        let row = cells.iter().filter(|((of, _), _)| *of == planted);
        let row: Vec<String> = row.map(|((_, found), n)| format!("{found} x{n}")).collect();
        println!("{planted:<20}{}", row.join(", "));
    }
}
