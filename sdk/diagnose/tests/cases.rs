//! Recordings of the cases in `docs/cases`, from a GPU: each is diagnosed as its page says.
//! `tests/fixtures/cases/README.md` says how they were made.

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::read;
use std::path::Path;

/// The report on a recording, made anew.
fn report(name: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/cases");
    let path = folder.join(format!("{name}.trace.json.gz"));
    let outcome = read(&path).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    let report = diagnose(&outcome.trace);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    report
}

/// Asserts that the largest loss of a recording has this cause, and costs at least a fifth.
fn assert_top_cause(name: &str, cause: &str) {
    let report = report(name);
    let finding = report.findings.first();
    let finding = finding.unwrap_or_else(|| panic!("{name} has no finding\n{report}"));
    assert_eq!(finding.cause.to_string(), cause, "{name}\n{report}");
    assert_eq!(finding.severity.to_string(), "HIGH", "{name}\n{report}");
}

/// Asserts that the largest loss of a recording has this cause, and that mending it is predicted to gain
/// what it gained on the GPU, to a quarter: steps of so many milliseconds by the clock of the program.
fn assert_predicts(name: &str, cause: &str, before_ms: f64, after_ms: f64) {
    let report = report(name);
    let finding = report.findings.first();
    let finding = finding.unwrap_or_else(|| panic!("{name} has no finding\n{report}"));
    assert_eq!(finding.cause.to_string(), cause, "{name}\n{report}");
    let steps = finding.step_ns.zip(finding.predicted_step_ns);
    let (now, then) = steps.expect("it is worth something");
    let gain = (now as f64 - then as f64) / 1e6 / (before_ms - after_ms);
    assert!((gain - 1.0).abs() < 0.25, "{name}: {gain}\n{report}");
}

#[test]
fn pageable_copies_are_what_the_step_waits_for() {
    assert_top_cause("pageable", "transfer.pageable");
    assert_predicts("pageable", "transfer.pageable", 10.477, 1.978);
    let remedy = &report("pageable").findings[0].remedy;
    assert!(remedy.contains("context.alloc_pinned"), "{remedy}");
}

#[test]
fn a_loss_that_is_read_every_step_drains_the_device() {
    assert_predicts("readback", "sync.readback", 0.082, 0.061);
}

#[test]
fn small_kernels_are_launch_bound() {
    assert_top_cause("launches", "host.launch-bound");
    assert_predicts("launches", "host.launch-bound", 4.110, 0.682);
}

#[test]
fn memory_that_is_allocated_every_step_is_what_it_waits_for() {
    assert_predicts("allocations", "alloc.device", 1.648, 0.349);
}

/// Memory for each item and each batch is faulted in anew, which takes longer than filling it.
#[test]
fn rows_picked_one_by_one_in_process_are_a_matter_of_memory_first() {
    assert_top_cause("inmemory-in-process", "data.memory");
    let report = report("inmemory-in-process");
    assert_eq!(report.loaders[0].in_process, Some(true));
    let causes = report
        .findings
        .iter()
        .map(|finding| finding.cause.to_string());
    assert!(
        causes
            .collect::<Vec<_>>()
            .contains(&"data.compute".to_owned())
    );
    // Of workers on as many threads the gain was less than predicted.
    let caveat = "fault in pages at once hold each other up";
    let mut findings = report.findings.iter();
    assert!(findings.any(|of| of.remedy.contains(caveat)), "{report}");
}

#[test]
fn with_few_batches_in_an_epoch_workers_leave_the_first_one_to_wait_for() {
    assert_top_cause("inmemory-4-workers", "data.startup");
}

#[test]
fn an_unchanged_pytorch_program_that_picks_rows_in_process_computes_its_batches() {
    assert_top_cause("pytorch-in-process", "data.compute");
    let report = report("pytorch-in-process");
    assert_eq!(report.loaders[0].in_process, Some(true));
    let remedy = &report.findings[0].remedy;
    assert!(remedy.contains("num_workers="), "{remedy}");
    assert!(remedy.contains("__getitems__"), "{remedy}");
}

/// Its batches lie made in the workers, whose interpreters are at the next ones. With 16 workers the
/// same program took 15.7 ms for a step instead of 56.7.
#[test]
fn an_unchanged_pytorch_program_with_busy_workers_is_told_what_more_of_them_are_worth() {
    assert_top_cause("pytorch-4-workers", "data.worker-limit");
    let report = report("pytorch-4-workers");
    let finding = &report.findings[0];
    let counts = &finding.worker_counts;
    let with = counts.iter().find(|count| count.workers == 16);
    let predicted = with.expect("there are 16 CPUs").predicted_step_ns;
    let gain = finding.step_ns.expect("there are steady steps") - predicted;
    let measured = 56.7e6 - 15.7e6;
    assert!((gain as f64 / measured - 1.0).abs() < 0.2, "{report}");
}

/// Pauses of the device's recording lie in three of its seven steps, and one ends 15 us after the recording.
#[test]
fn seven_steps_of_six_seconds_are_judged_and_as_many_workers_advised() {
    assert_top_cause("pytorch-7-batches-in-process", "data.compute");
    let report = report("pytorch-7-batches-in-process");
    assert_eq!(report.steps.count + report.first_steps.length.count, 7);
    let finding = &report.findings[0];
    let remedy = &finding.remedy;
    assert!(remedy.contains("num_workers=7,"), "{remedy}");
    // The first batch of an epoch takes 6.08 s with any number of them.
    let predicted = finding.predicted_step_ns.expect("workers gain");
    assert!(
        (900_000_000..1_000_000_000).contains(&predicted),
        "{report}"
    );
}

/// With four workers the program took 28.5 and 30.7 s for 14 steps, with five of them 28.9 s.
#[test]
fn of_seven_batches_an_epoch_a_fifth_worker_makes_none_sooner() {
    assert_top_cause("pytorch-7-batches-4-workers", "data.startup");
    let report = report("pytorch-7-batches-4-workers");
    let [first, limit] = report.findings.as_slice() else {
        panic!("two findings\n{report}");
    };
    assert_eq!(limit.cause.to_string(), "data.worker-limit");
    let with = |workers: u64| {
        let mut counts = limit.worker_counts.iter();
        let count = counts.find(|count| count.workers == workers);
        count.expect("it is predicted").predicted_step_ns as f64
    };
    assert!(with(5) > 0.97 * with(4), "{report}");
    assert!(with(7) < 0.65 * with(4), "{report}");
    assert_eq!(limit.advised_workers().map(|of| of.workers), Some(7));
    assert!(
        limit.remedy.starts_with("num_workers=7 instead of 4: "),
        "{report}"
    );
    assert!(
        first.remedy.contains("with num_workers=7 instead of 4"),
        "{report}"
    );
    assert!(first.remedy.contains("smaller batches"), "{report}");
    assert!(limit.worker_counts_assume.is_empty(), "{report}");
    assert_eq!(first.step_ns, limit.step_ns, "{report}");
    let measured = 28.87e9 / 14.0;
    assert!((with(5) / measured - 1.0).abs() < 0.05, "{report}");
}

#[test]
fn a_slow_network_that_keeps_the_device_busy_has_no_finding() {
    let report = report("convnet");
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.devices[0].compute > 0.9, "{report}");
}

#[test]
fn a_first_step_in_which_burn_tries_kernels_is_autotune_on_the_runner() {
    assert_top_cause("convnet-autotune", "host.compile");
    let report = report("convnet-autotune");
    let chain = &report.findings[0].chain;
    let tuning = chain.iter().find(|link| link.what.contains("autotune"));
    let tuning = tuning.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(tuning.who, "DSD-0-0");
    assert!(tuning.share > 0.95, "{report}");
    let compiler = |link: &&gpustall_diagnose::Link| link.what.contains("compiling");
    assert!(
        chain
            .iter()
            .find(compiler)
            .is_some_and(|link| link.share > 0.6)
    );
}

#[test]
fn images_that_are_decoded_in_the_training_loop_are_found_in_its_get_stage() {
    // Short and with small batches: the device is busy for most of it, the rest is decoding.
    let report = report("resnet18_input_bound");
    let finding = &report.findings[0];
    assert_eq!(finding.cause.to_string(), "data.compute", "{report}");
    assert_eq!(finding.evidence.get("in_process"), Some(&1.0));
    let get = finding.chain.iter().find(|link| link.what.contains("get"));
    assert!(get.is_some_and(|link| link.share > 0.9), "{report}");
}

#[test]
fn every_finding_of_every_recording_says_what_to_try() {
    let names = [
        "allocations",
        "convnet",
        "convnet-autotune",
        "convnet-unseen-kernels",
        "inmemory-4-workers",
        "inmemory-in-process",
        "launches",
        "pageable",
        "pytorch-7-batches-4-workers",
        "pytorch-7-batches-in-process",
        "readback",
        "resnet18_input_bound",
    ];
    let reports = names.map(report);
    let findings: Vec<_> = reports.iter().flat_map(|of| &of.findings).collect();
    assert!(findings.len() > names.len(), "{}", findings.len());
    for finding in findings {
        assert!(!finding.remedy.is_empty(), "{finding:?}");
    }
}
