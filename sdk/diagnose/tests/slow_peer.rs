//! What is predicted of more workers that wait for whoever is at the other end of a connection: it may be the limit,
//! as a disk may be.

mod common;
mod simulated_disk;

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, Value};
use simulated_disk::checks::{Predictions, count, job, words};
use simulated_disk::{Disk, Job};

/// A server that answers everybody as fast as the network allows.
const FREE: Disk = Disk::Network {
    least: 2_000,
    most: 6_000,
};

/// The same, where each answer takes about as long.
const STEADY: Disk = Disk::Network {
    least: 2_000,
    most: 2_400,
};

/// One that answers no more than 2000 requests a second.
const LIMITED: Disk = Disk::Rate {
    latency: 300,
    every: 500,
    burst: 1,
};

/// One that answers one request at a time, as `http.server` does.
const ONE_BY_ONE: Disk = Disk::OneAtATime {
    least: 19_900,
    most: 20_300,
};

/// The job whose reads are requests to a server, and its mean step in nanoseconds.
fn run(server: Disk, workers: usize) -> (Report, f64) {
    report(job(server, workers))
}

fn report(job: Job) -> (Report, f64) {
    let ran = job.run();
    (diagnose(&over_sockets(ran.trace)), ran.step_ns)
}

/// A short run, whose workers compute for about a millisecond between two requests.
fn short(server: Disk, workers: usize) -> Job {
    Job {
        batches: 160,
        reads_a_batch: 4,
        item: 1_000,
        collate: 1_000,
        ..job(server, workers)
    }
}

fn over_sockets(mut trace: Trace) -> Trace {
    let file = trace.strings.find("file read").expect("there are reads");
    let socket = trace.strings.intern("socket");
    let requests = trace.strings.find(cat::BLOCK_IO);
    trace.slices.retain(|slice| Some(slice.cat) != requests);
    for slice in &mut trace.slices {
        for (_, value) in &mut slice.args {
            if *value == Value::Str(file) {
                *value = Value::Str(socket);
            }
        }
    }
    trace
}

#[test]
fn what_a_server_gives_to_more_workers_than_asked_it_is_not_known() {
    for server in [FREE, LIMITED] {
        let (report, now) = run(server, 1);
        let finding = &report.findings[0];
        assert_eq!(finding.cause.id(), "data.io", "{report}");
        let mut counts = finding.worker_counts.iter();
        let four = counts.find(|of| of.workers == 4).expect("it is predicted");
        let most = four.at_most_step_ns.expect("there are bounds") as f64;
        let least = four.predicted_step_ns as f64;
        assert!((most / now - 1.0).abs() < 0.1, "{report}");
        assert!((least / now - 0.25).abs() < 0.05, "{report}");
        let (_, then) = run(server, 4);
        assert!(
            then >= least * 0.94 && then <= most * 1.06,
            "{then}: {report}"
        );
        let told = "the first if the other end of the connection serves more workers at once as fast as one";
        assert!(words(&report).contains(told), "{report}");
        assert!(!report.to_string().contains("disk serves"), "{report}");
        let told = "more of them get more if the other end serves several at once";
        assert!(finding.remedy.contains(told), "{report}");
    }
}

#[test]
fn a_server_that_is_at_its_limit_is_not_asked_by_more_workers() {
    let (report, now) = run(LIMITED, 4);
    let text = words(&report);
    let told = "more workers do not help: the other end of the connection is at its limit";
    assert!(text.contains(told), "{report}");
    let mut counts = report.findings[0].worker_counts.iter();
    let eight = counts.find(|of| of.workers == 8);
    let (_, then) = run(LIMITED, 8);
    assert!(then > now * 0.9);
    let least = eight.map_or(now, |eight| eight.predicted_step_ns as f64);
    assert!(least > now * 0.9, "{report}");
}

/// Servers of all kinds; the last are as even as a timer is.
const SERVERS: [(&str, Disk); 9] = [
    ("free", FREE),
    ("steady", STEADY),
    ("limited", LIMITED),
    ("one by one", ONE_BY_ONE),
    (
        "one by one, unevenly",
        Disk::OneAtATime {
            least: 3_000,
            most: 9_000,
        },
    ),
    (
        "two threads",
        Disk::Channels {
            count: 2,
            least: 19_900,
            most: 20_300,
        },
    ),
    (
        "three threads, unevenly",
        Disk::Channels {
            count: 3,
            least: 3_000,
            most: 9_000,
        },
    ),
    (
        "whoever came meanwhile together",
        Disk::Together {
            least: 9_900,
            most: 10_300,
        },
    ),
    (
        "a thread each",
        Disk::Network {
            least: 19_900,
            most: 20_300,
        },
    ),
];

#[test]
fn whatever_serves_fewer_and_more_workers_take_a_step_within_the_bounds() {
    let mut predictions = Predictions::default();
    for (name, server) in SERVERS {
        let long = Job {
            batches: 240,
            ..job(server, 1)
        };
        for (length, job) in [("long", long), ("short", short(server, 1))] {
            let name = format!("{name}, {length}");
            predictions.add(&name, job, &[1, 2, 3, 4, 8], over_sockets);
        }
    }
    predictions.assert_right(200);
}

#[test]
fn of_a_short_run_fewer_workers_take_as_long_as_a_batch_does() {
    let free = |workers| Job {
        batches: 32,
        ..short(STEADY, workers)
    };
    let (report, _) = report(free(8));
    let (one, then) = (count(&report, 1), free(1).run().step_ns);
    let most = one.and_then(|one| one.at_most_step_ns);
    let most = most.expect("there are bounds") as f64;
    assert!(most >= then * 0.94, "{then}: {report}");
}

#[test]
fn who_answers_one_request_at_a_time_is_at_its_limit() {
    for workers in [3, 4, 8] {
        let (report, _) = report(short(ONE_BY_ONE, workers));
        let told = "more workers do not help: the other end of the connection is at its limit";
        assert!(words(&report).contains(told), "{report}");
    }
}

#[test]
fn who_answers_all_at_once_is_not_at_its_limit() {
    for (name, server) in SERVERS
        .into_iter()
        .filter(|of| matches!(of.1, Disk::Network { .. }))
    {
        for workers in [2, 4, 6] {
            for seed in 0..3 {
                let job = short(server, workers);
                let (report, _) = report(Job { seed, ..job });
                let text = words(&report);
                assert!(!text.contains("at its limit"), "{name}: {report}");
                assert!(
                    !text.contains("did not hold each other up"),
                    "{name}: {report}"
                );
                let told = "does not show in how long they waited";
                assert!(text.contains(told), "{name}: {report}");
            }
        }
    }
}
