//! Who had the CPU while a thread waited for one.

mod common;

use common::Builder;
use common::kernel::{Off, blocked, preempted};
use common::planted::{PLANT, STEPS, run};
use gpustall_diagnose::{Cause, Report};

/// The link that says who had the CPU.
fn holders(report: &Report) -> String {
    let finding = &report.findings[0];
    assert_eq!(finding.cause, Cause::DataContended, "{report}");
    let mut links = finding.chain.iter();
    let link = links.find(|link| link.what.starts_with("ready to run"));
    let link = link.expect("a link of the scheduler");
    assert_eq!(link.ns, STEPS * PLANT * 1000);
    link.evidence.clone()
}

/// Preempted by the first, and given back by the second one.
fn between<'a>(taker: (&'a str, u32), giver: (&'a str, u32)) -> Off<'a> {
    Off {
        giver: Some(giver),
        ..preempted(taker.0, taker.1)
    }
}

const SPINNER: (&str, u32) = ("spinner", 900);
const RCU: (&str, u32) = ("rcu_preempt", 17);

#[test]
fn a_thread_that_is_named_at_both_ends_had_it() {
    let report = run(2, |b, span| b.off(101, preempted("spinner", 900), span));
    assert_eq!(holders(&report), "CPU 0 held by spinner 100 %; preempted");
}

#[test]
fn a_kernel_thread_of_microseconds_does_not_get_half() {
    let mut step = 0;
    let report = run(2, |b, span| {
        step += 1;
        let off = match step % 4 {
            0 => between(RCU, SPINNER),
            1 => between(SPINNER, RCU),
            _ => preempted("spinner", 900),
        };
        b.off(101, off, span);
    });
    // Nothing is known of how long rcu_preempt runs, and of the spinner that it has 8 ms at a time.
    let text = "CPU 0 held by spinner 100 % (inferred for 50 %); preempted";
    assert_eq!(holders(&report), text);

    let mut step = 0;
    let report = run(2, |b, (from, to)| {
        step += 1;
        // It takes 20 us wherever it is seen alone.
        b.off(101, preempted(RCU.0, RCU.1), (from, from + 20));
        let off = match step % 2 {
            0 => between(RCU, SPINNER),
            _ => preempted("spinner", 900),
        };
        b.off(101, off, (from + 21, to + 1));
    });
    let text = "CPU 0 held by spinner 100 %, rcu_preempt 0.4 % (inferred for 50 %); preempted";
    assert_eq!(holders(&report), text);
}

#[test]
fn of_two_that_were_never_seen_alone_the_first_had_it() {
    let report = run(2, |b, span| {
        b.off(101, between(SPINNER, ("other", 901)), span)
    });
    let text = "CPU 0 held by spinner 100 % (inferred); preempted";
    assert_eq!(holders(&report), text);
}

#[test]
fn the_intervals_of_other_watched_threads_say_when_they_had_it() {
    // The worker waits all the time, first for a thread of its own process and then for a foreign one.
    let mut tracked = false;
    let report = run(2, |b: &mut Builder, (from, to)| {
        if !tracked {
            tracked = true;
            b.thread(700, "pool");
            b.watch(700, (0, 1_000_000), &[]);
        }
        b.off(101, between(("pool", 700), SPINNER), (from, to));
        // Until it comes back the next time it is off the CPU, which the spinner has.
        let off = Off {
            taker: Some(SPINNER),
            ..blocked("futex", "futex_wait_queue")
        };
        b.off_on(700, off, (from + 2_000, from + 19_000), (0, 1));
    });
    let text = "CPU 0 held by spinner 75 %, pool 25 %; preempted";
    assert_eq!(holders(&report), text);
}
