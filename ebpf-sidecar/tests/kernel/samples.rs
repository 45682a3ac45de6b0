//! Samples of running threads say what was planted.

use crate::harness::{Job, drain_for, record, share, thread, turn};
use gpustall_sidecar::{Options, Recording, Run, RunClass};
use std::time::Duration;

/// What the thread ran, once for each sample.
fn runs(recording: &Recording, tid: u32) -> Vec<&Run> {
    let of = |thread: u32| recording.threads[thread as usize].tid.0 == tid;
    let samples = recording.samples.iter().filter(|s| of(s.thread));
    samples.map(|s| recording.run(s.run)).collect()
}

#[test]
fn samples_name_the_function_that_burns_and_the_page_faults() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("burners");
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_secs(3));
    let recording = recorder.finish();
    assert_eq!(recording.lost_by_source(), Default::default());
    let (burner, faulter) = (job.threads("burner")[0], job.threads("faulter")[0]);

    let burnt = runs(&recording, burner);
    assert!(burnt.len() >= 50, "only {} samples", burnt.len());
    let named = |run: &&Run| run.function.contains("gpustall_test_burn");
    assert!(share(&burnt, named) > 0.9, "{:?}", burnt.first());
    assert!(share(&burnt, |run| run.class == RunClass::User) > 0.9);
    assert!(
        share(&burnt, |run| run.kernel.is_empty()
            || run.class != RunClass::User)
            == 1.0
    );

    let faulted = runs(&recording, faulter);
    assert!(share(&faulted, |run| run.class == RunClass::PageFault) > 0.3);

    // As many as the time on CPU, which was measured on another way, lets expect.
    for (tid, samples) in [(burner, burnt.len()), (faulter, faulted.len())] {
        let on_cpu = thread(&recording, tid).totals.on_cpu.as_secs_f64();
        let expected = on_cpu * f64::from(Options::DEFAULT_SAMPLE_HZ);
        let ratio = samples as f64 / expected;
        assert!(
            (0.7..1.3).contains(&ratio),
            "{samples} samples in {on_cpu} s"
        );
    }
}

#[test]
fn samples_tell_what_the_kernel_copies_for_a_thread() {
    let Some(_turn) = turn() else { return };
    let file = crate::disk::file(1 << 20);
    let job = Job::start_on("copies", &[(crate::kernel_work::PATH, file.path())]);
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_secs(2));
    let recording = recorder.finish();
    let copied = runs(&recording, job.threads("copier")[0]);
    assert!(copied.len() >= 50, "only {} samples", copied.len());
    let copy = |run: &&Run| run.class == RunClass::Copy;
    assert!(share(&copied, copy) > 0.5, "{:?}", copied.first());
}

#[test]
fn a_rate_of_zero_takes_no_samples() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("burners");
    let options = Options {
        sample_hz: 0,
        ..Options::default()
    };
    let mut recorder = record(job.pid(), &options);
    drain_for(&mut recorder, Duration::from_millis(300));
    let recording = recorder.finish();
    assert!(recording.samples.is_empty());
    let burner = thread(&recording, job.threads("burner")[0]);
    assert!(burner.totals.measured().get() > 0);
}
