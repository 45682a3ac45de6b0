//! What is predicted of more workers that wait for whoever is at the other end of a connection: it may be the limit,
//! as a disk may be.

mod common;
mod simulated_disk;

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, Value};
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

/// The job whose reads are requests to a server, and its mean step in nanoseconds.
fn run(server: Disk, workers: usize) -> (Report, f64) {
    with_items(server, workers, 20)
}

/// The same, where a worker computes for so many microseconds with each item.
fn with_items(server: Disk, workers: usize, item: u64) -> (Report, f64) {
    let job = Job {
        disk: server,
        workers,
        batches: 480,
        reads_a_batch: 24,
        item,
        collate: 300,
        rest: 100,
        seed: 7,
    };
    let ran = job.run();
    (diagnose(&over_sockets(ran.trace)), ran.step_ns)
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

fn words(report: &Report) -> String {
    let text = report.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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

#[test]
fn of_workers_that_asked_at_once_it_is_not_said_that_they_did_not_hold_each_other_up() {
    for workers in [2, 4, 6] {
        let (report, _) = with_items(STEADY, workers, 2_000);
        let finding = &report.findings[0];
        let assumed = &finding.worker_counts_assume;
        assert!(!assumed.contains("did not hold each other up"), "{report}");
        let more = finding
            .worker_counts
            .iter()
            .filter(|of| of.workers > workers as u64);
        if more.clone().any(|of| of.at_most_step_ns.is_some()) {
            let told = "goes on with more workers at once as it did up to";
            assert!(assumed.contains(told), "{report}");
        }
        assert!(more.count() > 0, "{report}");
    }
}
