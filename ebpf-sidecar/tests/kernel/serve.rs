//! Sessions get their kernel events from a serving sidecar, whatever becomes of either.

use crate::harness::{Job, turn};
use crate::serve_harness::{Serving, eventually, notes, off_cpu};
use gpustall_trace::vocab::{arg, cat, state, totals};
use gpustall_trace::{Instant, State, Trace};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::process::Command;

/// The totals of a thread.
fn thread_totals(trace: &Trace, tid: u32) -> &Instant {
    let of = |instant: &&Instant| {
        trace.text(instant.cat) == cat::THREAD_TOTALS
            && trace.arg_u64(&instant.args, arg::THREAD) == Some(tid.into())
    };
    trace.instants.iter().find(of).unwrap()
}

#[test]
fn a_session_has_the_waits_of_its_threads_and_their_totals() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut session = serving.session("job");
    session.wait_for_naps(50);
    let trace = session.finish();
    assert_eq!(notes(&trace), [""; 0]);
    assert_eq!(trace.lost_by_source(), Default::default());

    // Each nap that the session recorded has its wait in the kernel, on the same clock.
    let naps = trace.slices.iter().filter(|s| trace.text(s.name) == "nap");
    let waits = off_cpu(&trace, session.napper);
    let (mut whole, mut found) = (0, 0);
    for nap in naps {
        whole += 1;
        found += u32::from(waits.iter().any(|wait| {
            nap.span.start <= wait.span.start
                && wait.span.start <= nap.span.end
                && trace.arg_str(&wait.args, arg::WAIT) == Some("sleep")
        }));
    }
    assert!(
        whole >= 50 && found * 10 >= whole * 9,
        "{found} of {whole} naps"
    );

    // Totals add up to the time that the thread was watched.
    for tid in [session.napper, session.spinner, session.pid] {
        let end = thread_totals(&trace, tid);
        let number = |key| trace.arg_u64(&end.args, key).unwrap();
        let parts = [
            totals::ON_CPU_NS,
            totals::PREEMPTED_NS,
            totals::WOKEN_NS,
            totals::SLEEPING_NS,
            totals::UNINTERRUPTIBLE_NS,
            totals::STOPPED_NS,
        ];
        let sum: u64 = parts.map(number).iter().sum();
        let wall = end.at.as_nanos() - number(totals::FIRST_NS);
        assert!(sum.abs_diff(wall) * 100 <= wall, "{sum} of {wall} ns");
    }
    // The thread has the name that the program gave it, once.
    let napper = trace.tracks.iter().filter(|t| t.tid.0 == session.napper);
    let names: Vec<_> = napper.map(|t| trace.text(t.name)).collect();
    assert_eq!(names, ["napper"]);
}

#[test]
fn a_session_that_follows_another_in_its_process_sees_only_its_own_time() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut first = crate::client::Client::connect(&serving.socket());
    let mut second = crate::client::Client::connect(&serving.socket());
    // Both have the same threads, each since its own start; and each has its own end.
    for client in [&mut first, &mut second] {
        client.goodbye();
        let (mut ends, mut ended) = (0, false);
        eventually("the end", || {
            ended |= client.take(|event| {
                if let gpustall_trace::EventRef::Instant { cat, at, args, .. } = event
                    && *cat == cat::THREAD_TOTALS
                {
                    ends += 1;
                    let sum: u64 = args
                        .iter()
                        .filter(|(key, _)| key.ends_with("_ns") && *key != totals::FIRST_NS)
                        .filter(|(key, _)| {
                            ![totals::IOWAIT_NS, totals::SHORT_NS, totals::LOST_NS].contains(key)
                        })
                        .map(|(_, value)| match value {
                            gpustall_trace::ValueRef::U64(value) => *value,
                            other => panic!("{other:?}"),
                        })
                        .sum();
                    // No more than the trace is long: nothing from before its start.
                    assert!(sum <= at.as_nanos() * 101 / 100, "{sum} in {at:?}");
                }
            });
            ended
        });
        assert!(ends >= 2, "{ends} threads");
    }
}

#[test]
fn a_sidecar_that_is_killed_costs_a_session_no_more_than_what_follows() {
    let Some(_turn) = turn() else { return };
    let mut serving = Serving::start(&[]);
    let mut session = serving.session("job");
    session.wait_for_naps(20);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let trace = session.finish();
    assert_eq!(trace.meta.state, State::Finished);
    let [note] = notes(&trace)[..] else {
        panic!("{:?}", trace.meta.notes);
    };
    assert!(note.contains("ended while the job ran"), "{note}");
    assert!(off_cpu(&trace, session.napper).len() >= 20);

    // What it left behind is in nobody's way.
    assert!(serving.socket().exists());
    serving.start_again();
    let next = serving.session("next");
    next.wait_for_naps(5);
}

#[test]
fn a_job_that_is_killed_leaves_kernel_events_and_is_no_longer_tracked() {
    let Some(_turn) = turn() else { return };
    let mut serving = Serving::start(&[]);
    let mut session = serving.session("job");
    session.wait_for_naps(20);
    session.job.kill();
    let trace = session.partial();
    assert_eq!(trace.meta.state, State::Partial);
    assert!(off_cpu(&trace, session.napper).len() >= 20);
    serving.expect("has left");
    let serving = serving;
    // Without a job it sleeps: once everything is cleared away, nothing wakes it.
    let slept = || serving.status("voluntary_ctxt_switches");
    eventually("sleep without a job", || {
        let before = slept();
        std::thread::sleep(std::time::Duration::from_millis(500));
        before == slept()
    });
}

#[test]
fn a_sidecar_that_is_told_to_end_sends_the_last_events_and_removes_its_socket() {
    let Some(_turn) = turn() else { return };
    let mut serving = Serving::start(&[]);
    let mut session = serving.session("job");
    session.wait_for_naps(5);
    let pid = Pid::from_child(&serving.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(serving.child.wait().unwrap().success());
    assert!(!serving.socket().exists());
    eventually("a note in the partial file", || {
        !notes(&session.partial()).is_empty()
    });
    let trace = session.finish();
    let [note] = notes(&trace)[..] else {
        panic!("{:?}", trace.meta.notes);
    };
    assert!(note.contains("ended while the job ran"), "{note}");
    thread_totals(&trace, session.napper);
}

#[test]
fn a_second_sidecar_at_the_same_socket_is_refused() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let second = Command::new(env!("CARGO_BIN_EXE_gpustall-sidecar"))
        .args(["serve", "--socket"])
        .arg(serving.socket())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        said.contains("serves at") && said.contains("--socket"),
        "{said}"
    );
    serving.session("job").wait_for_naps(5);
}

#[test]
fn privileges_that_are_not_needed_any_more_are_given_up() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let kept = 1 << 2 | 1 << 19 | 1_u64 << 40;
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"] {
        let has = u64::from_str_radix(&serving.status(set), 16).unwrap();
        assert_eq!(has & !kept, 0, "{set} {has:x}");
    }
    assert_eq!(serving.status("NoNewPrivs"), "1");
    // They suffice for a job that comes later.
    let mut session = serving.session("job");
    session.wait_for_naps(20);
    let trace = session.finish();
    let samples = trace.instants.iter();
    let samples = samples.filter(|i| trace.text(i.cat) == cat::CPU_SAMPLE);
    assert!(samples.count() > 0);
}

#[test]
fn what_a_job_forks_is_seen_and_what_runs_beside_it_is_not() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut one = serving.session("one");
    let mut other = serving.session("other");
    let mut beside = Job::start("sleeper");
    one.wait_for_naps(20);
    other.wait_for_naps(20);
    beside.kill();
    let foreign = [other.pid, one.pid].map(|pid| [pid, beside.pid()]);
    for (own, foreign) in [&mut one, &mut other].into_iter().zip(foreign) {
        let trace = own.finish();
        let pids: BTreeSet<u32> = trace.tracks.iter().map(|t| t.pid.0).collect();
        assert!(pids.contains(&own.pid));
        assert!(own.children.iter().all(|child| pids.contains(child)));
        assert!(foreign.iter().all(|pid| !pids.contains(pid)));
        // The one sleeps to the end; the other began to sleep while it was watched.
        for child in own.children {
            let sleeps = off_cpu(&trace, child).into_iter();
            let mut states = sleeps.filter_map(|s| trace.arg_str(&s.args, arg::STATE));
            assert!(states.any(|state| state == state::SLEEPING), "{child}");
        }
    }
}
