//! Many threads, many processes.

use crate::harness::{Job, drain_for, drain_until, record, turn};
use crate::totals::assert_adds_up;
use gpustall_sidecar::Options;
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn each_of_two_hundred_threads_has_its_whole_time() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("many");
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_millis(1000));
    let recording = recorder.finish();
    assert_adds_up(&recording);
    assert_eq!(recording.lost_by_source(), Default::default());
    let many = recording.threads.iter().filter(|t| t.name == "one-of-many");
    let many: Vec<_> = many.collect();
    assert_eq!(many.len(), 200);
    for thread in many {
        let wall = thread.last.since(thread.first);
        assert!(wall.share_of(recording.end.since(Default::default())) > 0.5);
        assert!(thread.totals.waits >= 10, "{:?}", thread.totals);
    }
}

#[test]
fn each_of_two_thousand_short_processes_is_recorded() {
    let Some(_turn) = turn() else { return };
    let mut job = Job::start("storm");
    let mut recorder = record(job.pid(), &Options::default());
    let living = recorder.progress().threads;
    job.go();
    let done = std::thread::spawn(move || {
        job.expect("done");
        job
    });
    drain_until(&mut recorder, |_| done.is_finished());
    let _job = done.join().unwrap();
    recorder.drain();
    assert_eq!(recorder.progress().threads, living);
    let recording = recorder.finish();
    assert_adds_up(&recording);
    assert_eq!(recording.lost_by_source(), Default::default());
    let short = recording.threads.iter().filter(|t| t.name == "true");
    let short: Vec<_> = short.collect();
    assert_eq!(short.len(), 2000);
    assert!(short.iter().all(|t| t.ended && t.totals.on_cpu.get() > 0));
    let ids: HashSet<_> = short.iter().map(|t| (t.tid, t.first)).collect();
    assert_eq!(ids.len(), 2000);
}
