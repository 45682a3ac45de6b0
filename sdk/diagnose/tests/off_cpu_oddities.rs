//! What the scheduler's part of a trace says that cannot be so, or does not say.

mod common;

use common::kernel::{blocked, preempted};
use common::{Builder, V};
use gpustall_diagnose::diagnose;
use gpustall_trace::TrackId;
use gpustall_trace::vocab::{arg, cat, totals};

/// A step, a wait in it, and what is off CPU on the thread 100.
fn one_step(more: impl FnOnce(&mut Builder)) -> gpustall_diagnose::Report {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    b.thread(101, "dataloader-0");
    for step in 0..10 {
        b.step("train", 0, step, 100, (step * 100, step * 100 + 100));
    }
    b.wait(main, "train", (0, 1), Some((1, 101)), (100, 200));
    more(&mut b);
    let report = diagnose(&b.build(1000));
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    report
}

#[test]
fn of_overlapping_intervals_the_one_that_began_last_counts() {
    let report = one_step(|b| {
        b.off(100, blocked("futex", "futex_wait"), (500, 700));
        b.off(100, preempted("x", 9), (600, 650));
    });
    assert_eq!(report.charges_ns["host.preempted"], 50_000);
    assert_eq!(report.charges_ns["host.blocked"], 150_000);
}

#[test]
fn an_interval_that_says_nothing_is_a_wait_for_something() {
    let report = one_step(|b| {
        let lane = b.lane(100);
        let args = [(arg::THREAD, V::N(100))];
        b.slice(lane, cat::OFF_CPU, "?", (500, 600), &args);
        b.slice(lane, cat::OFF_CPU, "?", (700, 800), &[]);
    });
    // Of no thread, the second is nobody's.
    assert_eq!(report.charges_ns["host.blocked"], 100_000);
}

#[test]
fn a_wake_up_before_the_interval_began_makes_all_of_it_waiting_for_a_cpu() {
    let report = one_step(|b| {
        let wait = blocked("futex", "futex_wait").then_runnable(500, "x", 9);
        b.off(100, wait, (500, 600));
    });
    assert_eq!(report.charges_ns["host.preempted"], 100_000);
}

#[test]
fn threads_that_nobody_knows_change_nothing() {
    let plain = one_step(|_| {});
    let with = one_step(|b| {
        b.off(9_999, preempted("x", 9), (0, 1000));
        b.sample(9_999, "page fault", "f", 150);
    });
    assert_eq!(with.charges_ns, plain.charges_ns);
    assert_eq!(with.threads.len(), 1);
}

#[test]
fn an_id_that_two_threads_had_is_watched_while_either_lived() {
    let report = one_step(|b| {
        b.watch(101, (100, 130), &[]);
        b.watch(101, (160, 180), &[]);
        b.stage(TrackId(2), cat::DATA_GET, 1, None, (100, 200));
    });
    assert_eq!(report.charges_ns["data.compute"], 50_000);
    assert_eq!(report.charges_ns["data"], 50_000);
    assert_eq!(report.threads[0].usage.watched_ns, 50_000);
}

#[test]
fn totals_alone_tell_that_a_thread_ran() {
    let report = one_step(|b| {
        b.watch(100, (0, 1000), &[(totals::ON_CPU_NS, 5)]);
        b.watch(101, (0, 1000), &[]);
        b.stage(TrackId(2), cat::DATA_GET, 1, None, (100, 200));
    });
    assert_eq!(report.charges_ns["data.compute"], 100_000);
    assert_eq!(report.threads[0].usage.on_cpu_ns, 5);
}
