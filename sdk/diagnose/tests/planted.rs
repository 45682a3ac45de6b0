//! The planted traces of PyTorch: each cause found, and none where none was planted.

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::read_any;
use std::path::Path;

/// The report on a planted trace.
fn report(file: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kineto/planted");
    let path = folder.join(format!("{file}.pt.trace.json.gz"));
    let trace = read_any(&path).expect("the trace is readable").trace;
    let report = diagnose(&trace);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    assert_eq!(report.steps.count + report.first_steps.length.count, 12);
    report
}

/// The causes of the findings, the largest loss first.
fn causes(file: &str) -> Vec<String> {
    let report = report(file);
    report
        .findings
        .iter()
        .map(|f| f.cause.to_string())
        .collect()
}

fn assert_top_cause(file: &str, cause: &str) {
    let causes = causes(file);
    assert_eq!(causes.first().map(String::as_str), Some(cause), "{file}");
}

#[test]
fn a_healthy_run_and_one_that_prefetches_have_no_finding() {
    for file in ["healthy_mlp", "h2d_prefetched"] {
        assert_eq!(causes(file), [""; 0], "{file}");
    }
}

#[test]
fn a_readback_after_every_layer_is_what_drains_the_device() {
    assert_top_cause("readback_every_layer", "sync.readback");
}

#[test]
fn host_work_between_steps_is_host_compute_and_takes_what_was_planted() {
    let report = report("host_compute_between_steps");
    let finding = &report.findings[0];
    assert_eq!(finding.cause.to_string(), "host.compute");
    let planted = 30_000_000.0;
    let off = (finding.stalls.p50_ns as f64 - planted).abs() / planted;
    assert!(off < 0.1, "{report}");
}

#[test]
fn copies_that_the_step_needs_are_charged_to_the_link_when_pinned() {
    assert_top_cause("h2d_pinned", "transfer.bandwidth");
}

#[test]
fn allocation_in_every_step_is_found_beside_slow_launches() {
    let causes = causes("alloc_every_step");
    assert!(causes.contains(&"alloc.device".to_owned()), "{causes:?}");
}

#[test]
fn a_marked_checkpoint_is_found() {
    assert_top_cause("checkpoint_marked", "host.checkpoint");
}

#[test]
fn workers_that_do_not_keep_up_are_a_data_cause() {
    assert_top_cause("loader_two_slow_workers", "data");
}

#[test]
fn the_gaps_within_a_graph_are_not_the_hosts() {
    assert_top_cause("cuda_graph_replay", "gpu.launch-latency");
}

#[test]
fn kernels_that_are_replayed_as_graphs_are_not_told_to_become_one() {
    for finding in &report("cuda_graph_replay").findings {
        let remedy = &finding.remedy;
        let a_graph = remedy.contains("or a graph of them") || remedy.contains("or CUDA graphs");
        assert!(!a_graph, "{remedy}");
        let of_launches = ["gpu.launch-latency", "host.launch-bound"];
        if of_launches.contains(&finding.cause.id()) {
            assert!(remedy.contains("graphs already"), "{remedy}");
            assert!(!finding.assumption.contains("as in a graph"), "{finding:?}");
        }
    }
}
