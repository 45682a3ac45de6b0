//! Recordings of two ranks on two H200: the rank that is fed late is the one that is named.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::{Part, Trace, merge_job, read_any, vocab};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ranks");
    assert!(folder.exists(), "the traces are in the checkout");
    folder.join(name)
}

/// The report on a trace of both ranks, of which rank 1 took `late_ns` longer, all steps together.
fn report(trace: &Trace, late_ns: f64) -> Report {
    let report = diagnose(trace);
    for device in &report.devices {
        assert_eq!(device.charges_ns.values().sum::<u64>(), device.window_ns);
    }
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let names: Vec<&str> = report.devices.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["GPU 0 (rank 0)", "GPU 1 (rank 1)"]);
    let [first, second] = report.ranks.as_slice() else {
        panic!("two ranks: {report}");
    };
    assert!(second.last_in * 10 >= second.collectives * 8, "{report}");
    assert!(first.waited_for_ns * 20 < second.waited_for_ns, "{report}");
    let off = (second.waited_for_ns as f64 / late_ns - 1.0).abs();
    assert!(off < 0.1, "{} instead of {late_ns}", second.waited_for_ns);
    assert_eq!(
        second.late_by_ns.values().sum::<u64>(),
        second.waited_for_ns
    );
    report
}

/// Kernels by device.
fn kernels(trace: &Trace) -> Vec<usize> {
    let kernel = trace.strings.find(vocab::cat::KERNEL).unwrap();
    let of = trace.slices.iter().filter(|slice| slice.cat == kernel);
    let devices = of.map(|slice| trace.arg_u64(&slice.args, vocab::arg::DEVICE).unwrap());
    devices.fold(vec![0; 2], |mut count, device| {
        count[device as usize] += 1;
        count
    })
}

#[test]
fn files_of_pytorchs_profiler_name_the_late_rank_and_its_loader() {
    let part = |rank| {
        let path = fixture(&format!("short-rank{rank}.pt.trace.json.gz"));
        let label = path.display().to_string();
        let trace = read_any(&path).unwrap().trace;
        assert_eq!(trace.meta.distributed.map(|of| of.rank), Some(rank));
        Part { label, trace }
    };
    let trace = merge_job(vec![part(0), part(1)]).unwrap();
    let report = report(&trace, 10.0 * 15e6);
    let data = report.ranks[1].late_by_ns["data"];
    assert!(data * 10 >= report.ranks[1].waited_for_ns * 8, "{report}");
    let straggler = report
        .findings
        .iter()
        .find(|of| of.cause.id() == "comm.straggler");
    let straggler = straggler.unwrap();
    assert_eq!(straggler.chain[0].who, "GPU 0 (rank 0)");
    assert_eq!(straggler.chain[1].who, "GPU 1 (rank 1)");
    assert!(
        straggler
            .remedy
            .contains("mend its `data` first: make batches on workers")
    );
}

#[test]
fn processes_that_each_call_their_device_0_have_two_accounts() {
    let trace = read_any(&fixture("masked.trace.json.gz")).unwrap().trace;
    assert_eq!(kernels(&trace), [302, 302]);
    // Without steps nothing says what the host did.
    let report = report(&trace, 10.0 * 20e6);
    let host = report.ranks[1].late_by_ns["host"];
    assert!(host * 10 >= report.ranks[1].waited_for_ns * 8, "{report}");
}
