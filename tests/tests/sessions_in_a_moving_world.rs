//! The program changes its directory, somebody moves the file, a thread ends in between.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall::{SessionError, instrument};
use gpustall_tests::{Numbers, alone, named, numbers_loader, record, slices};
use gpustall_trace::partial_path;
use gpustall_trace::vocab::cat;
use std::time::Duration;

#[test]
fn a_relative_output_stays_where_it_was_when_the_program_changes_its_directory() {
    let _alone = alone();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = std::env::current_dir().unwrap();
    std::env::set_current_dir(first.path()).unwrap();
    let session = gpustall::session("moving").output("run.trace.json").start();
    std::env::set_current_dir(second.path()).unwrap();
    drop(gpustall::span("work"));
    let summary = session.unwrap().finish();
    std::env::set_current_dir(home).unwrap();
    let summary = summary.unwrap();
    assert_eq!(summary.trace().unwrap().to_str(), Some("run.trace.json"));
    let trace = gpustall_trace::read(&first.path().join("run.trace.json")).unwrap();
    assert_eq!(named(&trace.trace, "work").len(), 1);
}

#[test]
fn a_partial_file_that_was_replaced_is_neither_read_nor_deleted() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let partial = partial_path(&output);
    let moved = directory.path().join("moved.partial");
    let session = gpustall::session("moved").output(&output).start().unwrap();
    drop(gpustall::span("work"));
    std::fs::rename(&partial, &moved).unwrap();
    std::fs::write(&partial, "somebody else's").unwrap();
    let error = session.finish().unwrap_err();
    assert!(matches!(&error, SessionError::Moved { partial: p } if *p == partial));
    assert!(error.to_string().contains("gpustall finish"), "{error}");
    assert_eq!(std::fs::read(&partial).unwrap(), b"somebody else's");
    let trace = gpustall_trace::read(&moved).unwrap().trace;
    assert_eq!(named(&trace, "work").len(), 1);
    assert!(gpustall::session("next").output(output).start().is_ok());
}

#[test]
fn a_read_that_a_pause_cuts_is_recorded_to_its_end() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let session = gpustall::session("paused").output(&output).start().unwrap();
    let loader = numbers_loader("train", Numbers::slow(400, Duration::from_millis(1)), 1);
    for (step, batch) in loader.iter().enumerate() {
        batch.unwrap();
        match step {
            20 => session.pause(),
            40 => session.resume(),
            _ => {}
        }
    }
    let report = session.finish().unwrap();
    let trace = gpustall_trace::read(&output).unwrap().trace;
    assert_eq!(report.report().unwrap().unfinished, []);
    let gets = slices(&trace, cat::DATA_GET);
    let longest = gets.iter().map(|get| get.span.len().get()).max().unwrap();
    let pause = slices(&trace, cat::PAUSE)[0].span.len().get();
    assert!(
        longest < pause,
        "a get of {longest} ns, a pause of {pause} ns"
    );
}

#[test]
fn a_batch_made_by_hand_does_not_make_its_thread_a_worker() {
    use burn_core::data::dataloader::batcher::Batcher;
    use burn_core::data::dataset::Dataset;
    let _alone = alone();
    let (trace, summary, ()) = record("by hand", || {
        let batcher = instrument::batcher(gpustall_tests::Collect::default());
        let _: instrument::Tagged<Vec<usize>> = batcher.batch(vec![1, 2], &Default::default());
        let data = instrument::dataset(Numbers::new(10));
        for index in 0..10 {
            data.get(index).unwrap();
        }
        numbers_loader("train", Numbers::new(80), 0)
            .iter()
            .for_each(drop);
    });
    assert_eq!(summary.report().unwrap().unfinished, []);
    assert_eq!(slices(&trace, cat::DATA_GET).len(), 20);
}

#[test]
fn threads_that_run_a_loop_of_one_name_have_steps_of_their_own() {
    let _alone = alone();
    let (_, summary, ()) = record("two loops", || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _step = instrument::step("train");
                        std::thread::sleep(Duration::from_millis(10));
                    }
                });
            }
        });
    });
    let report = summary.report().unwrap();
    assert_eq!(report.devices.len(), 2);
    let slept = Duration::from_millis(10).as_nanos() as u64;
    assert!(report.steps.p50_ns >= slept, "{report}");
}

#[test]
fn a_pipe_where_the_partial_file_goes_is_an_error_and_not_a_wait() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let made = std::process::Command::new("mkfifo")
        .arg(partial_path(&output))
        .status()
        .unwrap();
    assert!(made.success());
    let error = gpustall::session("pipe")
        .output(output)
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("output(...)"), "{error}");
}
