//! Jobs that do not end as they should.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::child::{Watched, assert_unchanged, run, run_both, run_without, trainer};
use gpustall_tests::{
    assert_well_formed, batch_flows, eventually, flag, number, slices, text, track_name,
};
use gpustall_trace::{Slice, State, Trace, partial_path, vocab::arg, vocab::cat};
use std::path::Path;
use std::time::Duration;

const TRAINER: &str = env!("CARGO_BIN_EXE_trainer");
const SECOND: u64 = 1_000_000_000;

fn read(path: &Path) -> Trace {
    let outcome = gpustall_trace::read(path).unwrap();
    outcome.trace
}

#[test]
fn a_session_started_twice_is_refused_naming_the_first_which_keeps_recording() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run_both(TRAINER, "twice", &output);
    let stderr = &ended.stderr;
    assert!(stderr.contains("session (twice) runs"), "{stderr}");
    assert!(stderr.contains("finish()"), "what to do: {stderr}");
    let trace = read(&output);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 16);
    assert_eq!(trace.meta.state, State::Finished);
    assert!(!directory.path().join("second.trace.json").exists());
}

#[test]
fn a_data_set_that_returns_errors_shows_them_to_the_trainer_and_in_the_trace() {
    for (mode, message) in [
        ("broken", "dataloader worker 0 failed: planted failure"),
        ("broken-in-process", "planted failure"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("run.trace.json.gz");
        let ended = run_both(TRAINER, mode, &output);
        assert!(ended.stdout.contains(message), "{}", ended.stdout);
        let trace = read(&output);
        let waits = slices(&trace, cat::DATA_WAIT);
        let last = waits.last().unwrap();
        assert_eq!(text(&trace, last, arg::ERROR), Some(message));
    }
}

#[test]
fn a_worker_that_panics_leaves_burns_behaviour_as_it_is_and_the_trace_shows_it() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run_both(TRAINER, "panic", &output);
    let stdout = &ended.stdout;
    assert!(stdout.starts_with("3 batches before the panic"), "{stdout}");
    assert!(stdout.contains("should be alive"), "{stdout}");
    assert!(ended.stderr.contains("planted panic at 13"));
    let report = &ended.stderr;
    assert!(report.contains("dataloader-0 panicked in get"), "{report}");
    let trace = read(&output);
    let mut gets = slices(&trace, cat::DATA_GET);
    gets.retain(|get| flag(&trace, get, arg::PANICKED));
    assert_eq!(gets.len(), 1);
    assert_eq!(track_name(&trace, gets[0]), "dataloader-0");
    assert!(
        trace
            .instants
            .iter()
            .any(|i| trace.text(i.cat) == cat::FAULT)
    );
}

#[test]
fn a_panic_in_process_leaves_the_trainer_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run_both(TRAINER, "panic-in-process", &output);
    assert!(ended.stdout.contains("planted panic at 13"));
}

#[test]
fn a_trainer_that_returns_early_without_finish_has_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run_both(TRAINER, "return-early", &output);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("the loss is NaN"), "{}", ended.stderr);
    let written = format!("trace written to {}", output.display());
    assert!(ended.stderr.contains(&written), "{}", ended.stderr);
    let trace = read(&output);
    assert_eq!(trace.meta.state, State::Finished);
    assert_eq!(slices(&trace, cat::STEP).len(), 3);
    assert!(!partial_path(&output).exists());
}

#[test]
fn a_trainer_that_panics_has_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run_both(TRAINER, "main-panics", &output);
    assert_eq!(ended.code, Some(101));
    let trace = read(&output);
    assert_eq!(trace.meta.state, State::Finished);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 1);
    let phases = slices(&trace, cat::PHASE);
    assert_eq!(phases.len(), 1, "left by the panic, and closed by it");
    assert!(!flag(&trace, phases[0], arg::UNFINISHED));
}

#[test]
fn a_trainer_that_exits_without_finish_leaves_a_partial_file_that_opens() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let ended = run(&mut trainer(TRAINER, "exit", &output));
    assert_unchanged(&ended, &run_without(TRAINER, "exit"));
    assert_eq!(ended.code, Some(3));
    assert!(!output.exists());
    let outcome = gpustall_trace::read(&partial_path(&output)).unwrap();
    assert_eq!(outcome.warnings, [""; 0]);
    let trace = outcome.trace;
    assert_eq!(trace.meta.state, State::Partial);
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 16);
    assert_eq!(slices(&trace, cat::STEP).len(), 16);
    assert_eq!(batch_flows(&trace).len(), 16);
    assert_well_formed(&trace);
    let report = gpustall_diagnose::diagnose(&trace);
    assert!(!report.finished);
    assert_eq!(report.loaders[0].batches, 16);
}

/// Reads numbers that `job` prints until the clock went on by `ns`; the last one.
fn watch(job: &mut Watched, ns: u64) -> u64 {
    let first: u64 = job.line().unwrap().parse().unwrap();
    loop {
        let clock: u64 = job.line().unwrap().parse().unwrap();
        if clock - first > ns {
            return clock;
        }
    }
}

#[test]
fn a_killed_job_leaves_a_partial_file_short_of_at_most_the_last_second() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let mut job = Watched::start(&mut trainer(TRAINER, "forever", &output));
    watch(&mut job, 2 * SECOND);
    let unread = job.kill();
    // The very last line may be cut off by the kill.
    let clocks: Vec<u64> = unread.iter().filter_map(|l| l.parse().ok()).collect();
    let outcome = gpustall_trace::read(&partial_path(&output)).unwrap();
    let trace = outcome.trace;
    assert_eq!(trace.meta.state, State::Partial);
    let waits = slices(&trace, cat::DATA_WAIT);
    assert!(!waits.is_empty(), "data waits are there");
    let last_wait = waits.iter().map(|w| w.span.end.as_nanos()).max().unwrap();
    let recorded = trace.meta.start_mono.as_nanos() + last_wait;
    let lived = clocks.last().copied().unwrap_or(recorded);
    assert!(
        lived.saturating_sub(recorded) < SECOND,
        "the last wait in the file ended {} ms before the job did",
        lived.saturating_sub(recorded) / 1_000_000
    );
    assert!(waits.len() > 20, "{} waits", waits.len());
    assert!(slices(&trace, cat::STEP).len() > 20);
    assert!(slices(&trace, cat::DATA_GET).len() > 20);
    assert_well_formed(&trace);
    let report = gpustall_diagnose::diagnose(&trace);
    assert!(report.window_ns > SECOND, "{} ns", report.window_ns);
    assert!(report.breakdown["compute"] < 0.9, "{:?}", report.breakdown);
}

fn unfinished<'t>(trace: &'t Trace, cat: &str) -> Vec<&'t Slice> {
    let mut found = slices(trace, cat);
    found.retain(|slice| flag(trace, slice, arg::UNFINISHED));
    found
}

#[test]
fn a_job_that_hung_in_next_and_was_killed_shows_the_wait_and_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let partial = partial_path(&output);
    let mut job = Watched::start(&mut trainer(TRAINER, "hang", &output));
    // Three batches come; the fourth call of next() does not return.
    let hung = (0..4).map(|_| job.line().unwrap()).last().unwrap();
    let hung: u64 = hung.parse().unwrap();
    let long = Duration::from_secs(3).as_nanos() as u64;
    eventually("it hung for some seconds", || {
        let now = gpustall_trace::MonotonicClock::read().as_nanos();
        (now - hung > long).then_some(())
    });
    let killed = gpustall_trace::MonotonicClock::read().as_nanos();
    job.kill();

    let trace = read(&partial);
    let waits = unfinished(&trace, cat::DATA_WAIT);
    assert_eq!(waits.len(), 1, "the wait that never ended");
    assert_eq!(number(&trace, waits[0], arg::STEP), Some(3));
    let (shown, real) = (waits[0].span.len().get(), killed - hung);
    assert!(
        real.abs_diff(shown) < SECOND,
        "it shows {shown} ns of {real} ns"
    );
    let gets = unfinished(&trace, cat::DATA_GET);
    assert_eq!(gets.len(), 1, "and the read that it waited for");
    assert_eq!(track_name(&trace, gets[0]), "dataloader-0");
    assert_well_formed(&trace);

    let report = gpustall_diagnose::diagnose(&trace);
    assert!(
        report.unfinished.iter().any(|u| u.hang),
        "{:?}",
        report.unfinished
    );
    assert!(report.to_string().contains("dataloader-0"), "{report}");
}
