//! The labelled traces of PyTorch: right verdict, right cause, right shares.

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::{Trace, read_any};
use std::path::Path;

/// Percent of the window, as an independent script computed it.
struct Label {
    file: &'static str,
    idle: f64,
    kernels: f64,
    exposed_copies: f64,
    exposed_data: f64,
}

const fn label(file: &'static str, shares: [f64; 4]) -> Label {
    let [idle, kernels, exposed_copies, exposed_data] = shares;
    Label {
        file,
        idle,
        kernels,
        exposed_copies,
        exposed_data,
    }
}

/// A labelled trace.
fn trace(label: &Label) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kineto");
    assert!(folder.exists(), "the traces are in the checkout");
    let path = folder.join(format!("{}.pt.trace.json.gz", label.file));
    read_any(&path).expect("the trace is readable").trace
}

/// The report on a labelled trace, its shares checked.
fn report(label: &Label) -> Report {
    checked(label, diagnose(&trace(label)))
}

/// A report whose shares are those of the label.
fn checked(label: &Label, report: Report) -> Report {
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    assert_eq!(report.evidence.level, "foreign trace");
    let [device] = report.devices.as_slice() else {
        panic!("one device is in it: {report}");
    };
    let near = |what: &str, got: f64, expected: f64, within: f64| {
        let off = (got * 100.0 - expected).abs();
        assert!(
            off <= within,
            "{what}: {got} instead of {expected} %\n{report}"
        );
    };
    near("idle", device.idle, label.idle, 0.5);
    near("kernels", device.compute, label.kernels, 0.5);
    near(
        "copies",
        device.exposed_copy.unwrap_or(f64::NAN),
        label.exposed_copies,
        0.5,
    );
    let data = report
        .breakdown
        .iter()
        .filter(|(cause, _)| cause.starts_with("data"));
    near(
        "data",
        data.map(|(_, share)| share).sum(),
        label.exposed_data,
        1.0,
    );
    report
}

fn causes(report: &Report) -> Vec<&str> {
    report
        .findings
        .iter()
        .map(|finding| finding.cause.id())
        .collect()
}

#[test]
fn a_healthy_run_has_no_finding() {
    let label = label("healthy_gpu_bound", [1.7, 98.0, 0.3, 0.0]);
    let report = report(&label);
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.verdict.contains("compute-bound"), "{report}");
}

#[test]
fn a_loader_in_process_is_named_as_such() {
    for label in [
        label("loader_inprocess_cpu", [86.2, 10.0, 3.8, 81.4]),
        label(
            "resnet50_num_workers_0__worker0.1623143089861",
            [43.4, 55.5, 1.1, 33.4],
        ),
    ] {
        let report = report(&label);
        let first = &report.findings[0];
        assert_eq!(first.cause.id(), "data", "{report}");
        assert_eq!(first.severity.to_string(), "HIGH");
        assert_eq!(first.evidence.get("in_process"), Some(&1.0), "{report}");
        assert!(first.remedy.contains("num_workers="), "{report}");
        assert!(report.verdict.contains("in process"), "{report}");
    }
}

#[test]
fn pageable_copies_are_named_although_the_device_seems_busy() {
    let label = label("h2d_pageable", [1.4, 2.6, 95.9, 0.0]);
    let report = report(&label);
    assert_eq!(causes(&report), ["transfer.pageable"], "{report}");
    let rate = report.findings[0].evidence["copy_gb_s"];
    assert!((9.0..10.0).contains(&rate), "{rate}");
    assert!(report.findings[0].remedy.contains("pin_memory"));
}

#[test]
fn tiny_kernels_are_launch_bound_and_nothing_else() {
    let label = label("launch_bound_tiny_kernels", [89.2, 10.4, 0.3, 0.1]);
    let report = report(&label);
    assert_eq!(causes(&report), ["host.launch-bound"], "{report}");
}

#[test]
fn with_workers_what_is_left_is_host_side_launch_work() {
    let file = "resnet50_num_workers_4__worker0.1623212756351";
    let label = label(file, [27.4, 70.3, 2.3, 0.8]);
    let report = report(&label);
    assert_eq!(causes(&report)[0], "host.launch-bound", "{report}");
    assert!(
        !causes(&report)
            .iter()
            .any(|cause| cause.starts_with("data"))
    );
    assert_eq!(report.loaders[0].in_process, Some(false));
}

/// A profiler without a schedule marks no steps: the loop is known by its loader and its optimizer.
#[test]
fn without_marks_of_steps_the_same_is_found() {
    for label in [
        label("loader_inprocess_cpu", [86.2, 10.0, 3.8, 81.4]),
        label("launch_bound_tiny_kernels", [89.2, 10.4, 0.3, 0.1]),
        label("healthy_gpu_bound", [1.7, 98.0, 0.3, 0.0]),
        label(
            "resnet50_num_workers_0__worker0.1623143089861",
            [43.4, 55.5, 1.1, 33.4],
        ),
        label(
            "resnet50_num_workers_4__worker0.1623212756351",
            [27.4, 70.3, 2.3, 0.8],
        ),
    ] {
        let marked = report(&label);
        let mut trace = trace(&label);
        let strings = trace.strings.clone();
        let is_step = |symbol| strings.get(symbol).starts_with("ProfilerStep#");
        trace.slices.retain(|slice| !is_step(slice.name));
        let report = checked(&label, diagnose(&trace));
        assert_eq!(causes(&report), causes(&marked), "{report}");
        // What comes before the first call and after the last is no step.
        assert!(report.steps.count + 2 >= marked.steps.count, "{report}");
        let note = report
            .notes
            .iter()
            .any(|note| note.contains("No step is marked"));
        assert!(note, "{report}");
    }
}
