//! What does not fit is counted, and its time stays in the totals.

use crate::harness::{Job, record, turn};
use crate::totals::assert_adds_up;
use gpustall_sidecar::{Options, TrackError};
use gpustall_trace::Nanos;
use std::time::Duration;

#[test]
fn intervals_that_do_not_fit_into_the_ring_are_counted_one_by_one() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("fast ping-pong");
    let recorder = record(
        job.pid(),
        &Options {
            threshold: Nanos::ZERO,
            ring_bytes: 16 << 10,
            ..Options::default()
        },
    );
    // Nobody drains.
    std::thread::sleep(Duration::from_millis(500));
    let recording = recorder.finish();
    assert_adds_up(&recording);
    let lost = recording.lost_by_source()["off-cpu intervals"];
    assert!(lost > 1000, "only {lost} lost");
    let of = |count: fn(&gpustall_sidecar::Totals) -> u64| -> u64 {
        recording.threads.iter().map(|t| count(&t.totals)).sum()
    };
    assert_eq!(of(|t| t.lost_count), lost);
    assert_eq!(of(|t| t.short_count), 0);
    let kept = recording.intervals.len() as u64;
    assert_eq!(of(|t| t.preemptions + t.waits), kept + lost);
}

#[test]
fn intervals_beyond_the_limit_in_memory_are_counted() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("fast ping-pong");
    let mut recorder = record(
        job.pid(),
        &Options {
            threshold: Nanos::ZERO,
            max_intervals: 100,
            ..Options::default()
        },
    );
    crate::harness::drain_until(&mut recorder, |r| r.progress().lost > 100);
    let recording = recorder.finish();
    let whole = recording.intervals.iter().filter(|i| !i.unfinished);
    assert_eq!(whole.count(), 100);
    let source = "off-cpu intervals beyond the limit in memory";
    assert!(recording.lost_by_source()[source] > 100);
}

#[test]
fn more_threads_than_there_is_room_for_are_refused_with_the_option_to_change() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("many");
    let options = Options {
        max_threads: 50,
        ..Options::default()
    };
    let mut recorder = gpustall_sidecar::Recorder::start(&options).unwrap();
    let error = recorder.track_process(job.pid()).unwrap_err();
    assert!(matches!(error, TrackError::Full(50)), "{error}");
    assert!(error.to_string().contains("--max-threads"));
    let error = recorder.track_process(u32::MAX).unwrap_err();
    assert!(matches!(error, TrackError::NoProcess(_)));
}
