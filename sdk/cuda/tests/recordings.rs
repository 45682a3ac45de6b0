//! Recordings from a GPU, replayed: what was counted by the program, or by another profiler, is in
//! them, and the device engine of the diagnosis takes them. `tests/fixtures/cuda/README.md` says how
//! they were made.

use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Interval, Slice, Trace, read};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

fn recording(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/cuda");
    let path = folder.join(name);
    let outcome = read(&path).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    outcome.trace
}

fn of<'t>(trace: &'t Trace, cats: &'t [&str]) -> impl Iterator<Item = &'t Slice> {
    let slices = trace.slices.iter();
    slices.filter(move |slice| cats.contains(&trace.text(slice.cat)))
}

fn correlation(trace: &Trace, slice: &Slice) -> u64 {
    trace
        .arg_u64(&slice.args, arg::CORRELATION)
        .expect("calls and operations are joined by a number")
}

/// Milliseconds in which at least one of the spans, which are in the order of their starts, goes on.
fn union_ms<'t>(spans: impl Iterator<Item = &'t Interval>) -> f64 {
    let mut total = 0;
    let mut end = 0;
    for span in spans {
        let (from, to) = (span.start.as_nanos().max(end), span.end.as_nanos());
        total += to.saturating_sub(from);
        end = end.max(to);
    }
    total as f64 / 1e6
}

const OPERATIONS: [&str; 3] = [cat::KERNEL, cat::GPU_MEMCPY, cat::GPU_MEMSET];
const CALLS: [&str; 2] = [cat::CUDA_DRIVER, cat::CUDA_RUNTIME];

/// Two streams with kernels that overlap, pinned and pageable copies, a graph.
#[test]
fn the_records_are_what_the_program_counted() {
    let trace = recording("mix.json.partial.gz");
    let mut counted: BTreeMap<&str, u32> = BTreeMap::new();
    for slice in of(&trace, &OPERATIONS) {
        *counted.entry(trace.text(slice.cat)).or_default() += 1;
    }
    let expected = [
        (cat::KERNEL, 361),
        (cat::GPU_MEMCPY, 45),
        (cat::GPU_MEMSET, 1),
    ];
    assert_eq!(counted, BTreeMap::from(expected));
    assert!(trace.losses.is_empty(), "{:?}", trace.lost_by_source());
    let name = &trace.meta.devices[0].name;
    assert!(name.contains("H200"), "{name}");
}

#[test]
fn graphs_are_recorded_by_node_and_counted_once() {
    let trace = recording("mix.json.partial.gz");
    let in_graph = |slice: &&Slice| trace.arg_u64(&slice.args, arg::GRAPH_NODE).is_some();
    assert_eq!(of(&trace, &[cat::KERNEL]).filter(in_graph).count(), 20 * 8);
    let launches: HashSet<_> = of(&trace, &[cat::KERNEL])
        .filter(in_graph)
        .map(|slice| correlation(&trace, slice))
        .collect();
    assert_eq!(launches.len(), 20);
}

/// The program timed everything but the pageable copies and what came before with CUDA's events.
#[test]
fn device_time_is_that_of_cudas_own_events() {
    let trace = recording("mix.json.partial.gz");
    let timed = |slice: &&Slice| {
        let long_enough = slice.span.len().get() > 20_000;
        long_enough && !trace.text(slice.name).contains("Pageable")
    };
    let spans = of(&trace, &OPERATIONS)
        .filter(timed)
        .map(|slice| &slice.span);
    let (ours, events) = (union_ms(spans), EVENT_MS);
    assert!(
        (ours / events - 1.0).abs() <= 0.02,
        "{ours} ms instead of {events} ms"
    );
}

/// As the program printed it when the recording was made.
const EVENT_MS: f64 = 85.796;

#[test]
fn every_operation_has_the_call_that_submitted_it_and_does_not_begin_before_it() {
    for name in ["mix.json.partial.gz", "torch.json.partial.gz"] {
        let trace = recording(name);
        let mut calls: BTreeMap<u64, u64> = BTreeMap::new();
        for call in of(&trace, &CALLS) {
            let start = call.span.start.as_nanos();
            let first = calls.entry(correlation(&trace, call)).or_insert(start);
            *first = start.min(*first);
        }
        for operation in of(&trace, &OPERATIONS) {
            let call = calls.get(&correlation(&trace, operation));
            let called = *call.unwrap_or_else(|| panic!("{name}: {operation:?} has no call"));
            assert!(called <= operation.span.start.as_nanos(), "{operation:?}");
        }
        assert!(!trace.flows.is_empty(), "{name}");
    }
}

#[test]
fn the_device_engine_takes_them() {
    for name in ["mix.json.partial.gz", "torch.json.partial.gz"] {
        let trace = recording(name);
        let report = diagnose(&trace);
        assert_eq!(report.devices.len(), 1, "{report}");
        assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
        let device = &report.devices[0];
        assert!(device.compute > 0.0 && device.idle > 0.0, "{report}");
    }
}

#[test]
fn the_state_of_the_device_is_one_strip_over_the_window_drawn_once() {
    let mut trace = recording("mix.json.partial.gz");
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let strip = |trace: &Trace| -> Vec<(u64, u64)> {
        let slices = of(trace, &[cat::DEVICE_STATE]).map(|slice| slice.span);
        slices
            .map(|span| (span.start.as_nanos(), span.end.as_nanos()))
            .collect()
    };
    let drawn = strip(&trace);
    assert!(
        drawn.windows(2).all(|pair| pair[0].1 == pair[1].0),
        "{drawn:?}"
    );
    let total: u64 = drawn.iter().map(|(start, end)| end - start).sum();
    assert_eq!(total, report.device_ns);
    annotate(&mut trace, &report);
    assert_eq!(strip(&trace), drawn);
}
