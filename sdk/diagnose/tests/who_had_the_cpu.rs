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

/// The link where the CPU is taken from the worker by these in turn: name, thread, process.
fn held_in_turn(by: &[(&str, u32, u32)]) -> Report {
    let mut step = 0;
    run(2, |b, span| {
        let (name, tid, pid) = by[step % by.len()];
        step += 1;
        b.off(101, preempted(name, tid).of_process(pid), span);
    })
}

#[test]
fn the_threads_of_other_programs_are_one_and_those_of_the_job_are_not() {
    let build = [
        ("rustc", 900, 900),
        ("opt cgu.0", 903, 900),
        // Of these the first thread is never named.
        ("ctrl-c", 912, 910),
        ("rustc", 913, 910),
        ("opt cgu.0", 922, 920),
    ];
    let report = held_in_turn(&build);
    let text = "CPU 0 held by rustc (5 threads) 100 %; preempted";
    assert_eq!(holders(&report), text, "{report}");
    let verdict = "these are held by another program, rustc (5 threads), for 100 % of that time";
    assert!(report.verdict.ends_with(verdict), "{report}");
    assert_eq!(
        report.findings[0].held_by,
        "another program, rustc (5 threads), for 100 % of that time"
    );
    assert!(
        report.findings[0].remedy.contains("rustc had the CPU"),
        "{report}"
    );

    // What ran as another program before is what it is now; another process of the name is the same.
    let mut step = 0;
    let report = run(2, |b, span| {
        step += 1;
        let (name, id) = match step {
            1..4 => ("cargo", 900),
            4..20 => ("rustc", 900),
            _ => ("rustc", 950),
        };
        b.off(101, preempted(name, id).of_process(id), span);
    });
    let text = "CPU 0 held by rustc (2 threads) 100 %; preempted";
    assert_eq!(holders(&report), text, "{report}");

    let pool = [
        ("pool-1", 701, common::PID.0),
        ("pool-2", 702, common::PID.0),
    ];
    let report = held_in_turn(&pool);
    let text = "CPU 0 held by pool-1 50 %, pool-2 50 %; preempted";
    assert_eq!(holders(&report), text, "{report}");
    let verdict = "held by other threads of the job, pool-1 and pool-2, for 100 % of that time";
    assert!(report.verdict.ends_with(verdict), "{report}");
    assert!(!report.findings[0].remedy.contains("stop it"), "{report}");

    let report = held_in_turn(&[
        ("kworker/0:1", 33, 2),
        ("ksoftirqd/0", 14, 2),
        ("spinner", 900, 900),
    ]);
    let text = "CPU 0 held by the kernel 68 %, spinner 32 %; preempted";
    assert_eq!(holders(&report), text, "{report}");
}

#[test]
fn who_has_no_name_is_told_in_words() {
    let report = held_in_turn(&[("", 900, 900), (" ", 910, 910)]);
    let text = "CPU 0 held by a program without a name (2 threads) 100 %; preempted";
    assert_eq!(holders(&report), text, "{report}");
    let verdict = "held by a program without a name (2 threads), for 100 % of that time";
    assert!(report.verdict.ends_with(verdict), "{report}");
    let report = held_in_turn(&[("", 701, common::PID.0)]);
    let text = "CPU 0 held by a thread without a name 100 %; preempted";
    assert_eq!(holders(&report), text, "{report}");
}

#[test]
fn a_verdict_names_two_kinds_where_none_has_the_cpus_for_most_of_the_time() {
    let pool = ("pool-1", 701, common::PID.0);
    let of = [
        ("one", 900, 900),
        pool,
        ("two", 910, 910),
        ("ksoftirqd/0", 14, 2),
        ("gpustall-sidecar", 930, 930),
    ];
    let report = held_in_turn(&of);
    let verdict = "held by other programs, one and two, for 40 % of that time, and by another thread \
                   of the job, pool-1, for 20 %";
    assert!(report.verdict.ends_with(verdict), "{report}");
}

#[test]
fn other_programs_are_summed_as_the_threads_of_the_job_are_and_the_larger_is_named_first() {
    // Two threads of the job have 40 % together, and three programs 60 %, none of them more than 20 %.
    let of = [
        ("pool-1", 701, common::PID.0),
        ("cargo", 900, 900),
        ("pool-2", 702, common::PID.0),
        ("make", 910, 910),
        ("stress", 920, 920),
    ];
    let report = held_in_turn(&of);
    let by = "other programs, cargo, make and 1 more, for 60 % of that time, and by other threads of the job, \
              pool-1 and pool-2, for 40 %";
    assert_eq!(report.findings[0].held_by, by, "{report}");

    let of = [
        ("stress", 920, 920),
        ("pool-1", 701, common::PID.0),
        ("make", 910, 910),
        ("stress", 921, 921),
        ("stress", 922, 922),
    ];
    let report = held_in_turn(&of);
    let by = "other programs, most of all stress (3 threads), for 80 % of that time";
    assert_eq!(report.findings[0].held_by, by, "{report}");
}

#[test]
fn a_thread_is_of_the_process_that_had_its_id_last_whoever_saw_it_there() {
    for worker_is_last in [false, true] {
        let mut step = 0;
        let report = run(2, |b, (from, to)| {
            step += 1;
            for (name, pid, at) in [("rustc", 900, from), ("cargo", 910, from + 20)] {
                b.off(101, preempted(name, pid).of_process(pid), (at, at + 10));
            }
            let (pid, of_worker) = match step {
                1..=15 => (900, !worker_is_last),
                25.. => (910, worker_is_last),
                _ => return,
            };
            let pool = preempted("pool", 903).of_process(pid);
            match of_worker {
                true => b.off(101, pool, (from + 40, to)),
                false => b.off(100, pool, (to + 3_000, to + 9_000)),
            }
        });
        let mut findings = report.findings.iter();
        let finding = findings.find(|of| of.cause == Cause::DataContended);
        let held_by = &finding.expect("it is one").held_by;
        assert!(
            held_by.starts_with("other programs, most of all cargo (2 threads)"),
            "{report}"
        );
    }
}
