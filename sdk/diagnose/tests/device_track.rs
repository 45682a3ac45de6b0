//! Device chains in the trace: arrows to the launch, the kernel, the copy and the annotation.

mod common;

use common::Builder;
use common::device::PAGEABLE;
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::Trace;
use gpustall_trace::vocab::cat;

/// Ten steps: 4 ms of data wait, a pageable copy of 3 ms, a kernel of 2 ms.
fn annotated() -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let stream = b.stream(0, 7);
    for step in 0..10 {
        let at = step * 10_000;
        b.profiler_step(main, step, (at, at + 10_000));
        b.annotate(main, "data_next", (at, at + 4_000));
        let copy = 2 * step + 1;
        b.call(main, "cudaMemcpyAsync", copy, (at + 4_000, at + 7_000));
        b.copy(stream, PAGEABLE, copy, 1_000_000, (at + 4_000, at + 7_000));
        b.launch(
            main,
            stream,
            copy + 1,
            (at + 7_500, at + 7_600),
            (at + 7_600, at + 9_900),
        );
    }
    let mut trace = b.build(100_000);
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    trace
}

#[test]
fn each_part_of_a_stall_is_a_slice_and_leads_to_what_explains_it() {
    let trace = annotated();
    let reached = |category: &str, name: &str| {
        let arrows = trace
            .flows
            .iter()
            .filter(|flow| trace.text(flow.cat) == cat::FINDING);
        arrows
            .filter(|flow| {
                trace.slices.iter().any(|slice| {
                    slice.track == flow.to.track
                        && slice.span.contains(flow.to.at)
                        && trace.text(slice.cat) == category
                        && trace.text(slice.name) == name
                })
            })
            .count()
    };
    assert!(
        reached(cat::KERNEL, "gemm") >= 10,
        "the kernel that ended the stall"
    );
    assert!(
        reached(cat::CUDA_RUNTIME, "cudaLaunchKernel") >= 10,
        "its launch"
    );
    assert!(
        reached(cat::GPU_MEMCPY, PAGEABLE) >= 10,
        "the copy it needed"
    );
    assert!(
        reached(cat::USER_ANNOTATION, "data_next") >= 10,
        "the wait of the host"
    );
    let stalls: Vec<&str> = trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::FINDING)
        .map(|slice| trace.text(slice.name))
        .filter(|name| name.starts_with("starved: "))
        .collect();
    assert!(stalls.contains(&"starved: data 4.00 ms"), "{stalls:?}");
    assert!(
        stalls.contains(&"starved: transfer.pageable 3.00 ms"),
        "{stalls:?}"
    );
}

#[test]
fn a_second_call_changes_nothing_and_the_report_stays_the_same() {
    let mut trace = annotated();
    let report = diagnose(&trace);
    let (slices, flows) = (trace.slices.len(), trace.flows.len());
    annotate(&mut trace, &report);
    assert_eq!((trace.slices.len(), trace.flows.len()), (slices, flows));
    assert_eq!(diagnose(&trace), report);
    let carried = trace.report.expect("it was embedded");
    let carried: gpustall_diagnose::Report = serde_json::from_value(carried).expect("it is ours");
    assert_eq!(carried, report, "it survives JSON");
}
