//! Sessions of the SDK on a GPU, diagnosed again: device time is that of CUDA's own events, and
//! operations belong to the phases that asked for them. `tests/fixtures/cuda/README.md` says how they
//! were made.

use gpustall_diagnose::{DeviceTime, Report, annotate, diagnose};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Trace, read};
use std::path::Path;

fn recording(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/cuda");
    let outcome = read(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    outcome.trace
}

fn device(report: &Report, phase: &str) -> DeviceTime {
    let row = report.phases.iter().find(|row| row.name == phase);
    row.and_then(|row| row.device).unwrap_or_default()
}

/// Recordings with what their program measured with CUDA's events in each phase, milliseconds: with
/// CUPTI, and without it.
const EVENTS_MS: [(&str, [(&str, f64); 3]); 2] = [
    (
        "streams.trace.json.gz",
        [
            ("copy in", 24.494),
            ("compute", 20.222),
            ("copy out", 24.596),
        ],
    ),
    (
        "streams_events.trace.json.gz",
        [
            ("copy in", 24.621),
            ("compute", 20.797),
            ("copy out", 24.680),
        ],
    ),
];

#[test]
fn device_time_of_phases_is_that_of_cudas_own_events() {
    for (name, phases) in EVENTS_MS {
        let trace = recording(name);
        let of = |kind| {
            let slices = trace.slices.iter();
            slices.filter(|slice| trace.text(slice.cat) == kind).count()
        };
        let counted = [cat::KERNEL, cat::GPU_MEMCPY, cat::GPU_MEMSET].map(of);
        assert_eq!(
            counted,
            [260, 40, 1],
            "{name}: as the program submitted them"
        );
        let report = diagnose(&trace);
        for (phase, events) in phases {
            let ours = device(&report, phase).total_ns as f64 / 1e6;
            assert!(
                (ours / events - 1.0).abs() <= 0.02,
                "{name} {phase}: {ours} ms"
            );
        }
    }
}

/// What the program asks for in a step: the same in each of its 20 steps.
const KERNELS: [(&str, u64); 3] = [("forward", 10), ("backward", 14), ("optimizer", 8)];

#[test]
fn kernels_of_burn_belong_to_the_phases_that_asked_for_them() {
    for name in ["burn.trace.json.gz", "burn_sidecar.trace.json.gz"] {
        let report = diagnose(&recording(name));
        for (phase, kernels) in KERNELS {
            let time = device(&report, phase);
            assert_eq!(time.kernels, 20 * kernels, "{name} {phase}: {report}");
            assert!(time.total_ns > 0);
        }
        // The loss is read back in a phase, batches are copied by the workers.
        assert_eq!(device(&report, "metrics").copies, 20, "{report}");
        assert_eq!(report.outside_phases.map(|time| time.copies), Some(40));
        assert_eq!(report.untied.map(|time| time.operations()), Some(0));
    }
}

/// The program waited for the device at the end of each phase, so an operation ran while the
/// phase went on that asked for it.
#[test]
fn they_are_the_ones_that_ran_in_these_phases() {
    let mut trace = recording("burn.trace.json.gz");
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let phases: Vec<_> = (trace.slices.iter())
        .filter(|slice| trace.text(slice.cat) == cat::PHASE)
        .collect();
    let mut checked = 0;
    for slice in &trace.slices {
        let Some(name) = trace.arg_str(&slice.args, arg::PHASE) else {
            continue;
        };
        let inside = phases.iter().any(|phase| {
            trace.text(phase.name) == name
                && phase.span.start <= slice.span.start
                && slice.span.end <= phase.span.end
        });
        assert!(inside, "{} is not of {name}", trace.text(slice.name));
        checked += 1;
    }
    assert_eq!(checked, 660);
}

#[test]
fn without_cupti_burns_own_windows_are_there() {
    let report = diagnose(&recording("burn_windows.trace.json.gz"));
    for phase in ["forward", "backward", "optimizer"] {
        let time = device(&report, phase);
        assert_eq!(time.operations(), 0, "{report}");
        assert!(time.window_ns.is_some_and(|window| window > 0), "{report}");
    }
}
