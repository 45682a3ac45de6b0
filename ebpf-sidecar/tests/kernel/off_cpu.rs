//! Intervals say what was planted.

use crate::harness::{DEADLINE, Job, drain_for, intervals, record, share, thread, turn, woken_by};
use gpustall_sidecar::{OffCpuInterval, Options, OtherId, Recording, WaitClass, Waker, Why};
use gpustall_trace::Nanos;
use std::time::{Duration, Instant};

#[test]
fn two_spinners_on_one_cpu_are_preempted_by_each_other() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("spinners");
    let tids = job.threads("spinner");
    assert_eq!(tids.len(), 2);
    // Other work of the machine may stand between the two: look until they met often enough.
    let begun = Instant::now();
    let mut handed_over = 0;
    while handed_over < 10 {
        assert!(begun.elapsed() < DEADLINE, "only {handed_over} times");
        let mut recorder = record(job.pid(), &Options::default());
        drain_for(&mut recorder, Duration::from_millis(1500));
        let recording = recorder.finish();
        handed_over += take_turns(&recording, tids[0], tids[1]);
        handed_over += take_turns(&recording, tids[1], tids[0]);
    }
}

/// Checks what is recorded of spinner `me`; returns how often `peer` took the CPU from it.
fn take_turns(recording: &Recording, me: u32, peer: u32) -> usize {
    let mut whole = intervals(recording, me);
    whole.retain(|i| !i.truncated && !i.unfinished && !i.inferred);
    assert!(whole.len() >= 10, "only {} intervals", whole.len());
    assert!(share(&whole, |i| i.why == Why::Preempted) > 0.99);
    assert!(share(&whole, |i| i.cpu_out == Some(0) && i.cpu_in == Some(0)) == 1.0);
    let totals = thread(recording, me).totals;
    let window = totals.measured();
    assert!(totals.blocked().share_of(window) < 0.01);
    assert!((0.02..0.7).contains(&totals.on_cpu.share_of(window)));
    assert!(totals.preempted.share_of(window) > 0.25);

    // Where one took the CPU from the other, the other got it in the same nanosecond.
    let is = |id: Option<OtherId>, tid| id.is_some_and(|id| recording.other(id).tid.0 == tid);
    let taken: Vec<_> = whole.iter().filter(|i| is(i.taker, peer)).collect();
    let back = intervals(recording, peer);
    let matched = |out| back.iter().any(|i| i.back == out && is(i.giver, me));
    assert!(taken.is_empty() || share(&taken, |i| matched(i.out)) > 0.9);
    taken.len()
}

#[test]
fn threads_that_take_turns_wait_on_a_futex_and_wake_each_other() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("ping-pong");
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_millis(800));
    let recording = recorder.finish();
    let tids = job.threads("pong");
    for (me, peer) in [(tids[0], tids[1]), (tids[1], tids[0])] {
        let mut waits = intervals(&recording, me);
        waits.retain(|i| i.why == Why::Sleeping && !i.unfinished && !i.inferred);
        assert!(waits.len() >= 50, "only {} waits", waits.len());
        let class = |i: &&_| wait_class(&recording, i);
        assert!(share(&waits, |i| class(i) == Some(WaitClass::Futex)) > 0.95);
        assert!(share(&waits, |i| woken_by(&recording, i) == Some(peer)) > 0.9);
        assert!(share(&waits, |i| i.woken.is_some()) > 0.95);
    }
}

#[test]
fn a_sleeping_thread_is_woken_by_a_timer() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("sleeper");
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_millis(1000));
    let recording = recorder.finish();
    let tid = job.threads("sleeper")[0];
    let mut sleeps = intervals(&recording, tid);
    sleeps.retain(|i| i.why == Why::Sleeping && !i.truncated && !i.unfinished && !i.inferred);
    assert!(sleeps.len() >= 20, "only {} sleeps", sleeps.len());
    let class = |i: &&_| wait_class(&recording, i);
    assert!(share(&sleeps, |i| class(i) == Some(WaitClass::Sleep)) > 0.95);
    assert!(share(&sleeps, |i| i.waker == Waker::Timer) > 0.9);
    let slept = |i: &&OffCpuInterval| i.woken.unwrap_or(i.back).since(i.out);
    assert!(share(&sleeps, |i| slept(i) > Nanos::new(4_900_000)) > 0.95);
}

#[test]
fn a_thread_that_hangs_all_the_time_is_one_interval_with_its_reason() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("stuck");
    let mut recorder = record(job.pid(), &Options::default());
    drain_for(&mut recorder, Duration::from_millis(300));
    let recording = recorder.finish();
    let tid = job.threads("stuck")[0];
    let [hang] = intervals(&recording, tid)[..] else {
        panic!("not one interval");
    };
    assert!(hang.truncated && hang.unfinished && hang.why == Why::Sleeping);
    assert_eq!(wait_class(&recording, hang), Some(WaitClass::Futex));
    let record = thread(&recording, tid);
    assert_eq!(record.totals.sleeping, record.last.since(record.first));
}

fn wait_class(recording: &Recording, interval: &OffCpuInterval) -> Option<WaitClass> {
    interval.wait.map(|id| recording.wait(id).class)
}
