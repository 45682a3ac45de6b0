//! What is predicted of more workers that read from a disk, against disks that are played through.

mod common;
mod simulated_disk;

use common::V;
use common::kernel::blocked;
use gpustall_diagnose::{Report, WorkerCount, diagnose};
use gpustall_trace::vocab::{arg, cat};
use simulated_disk::{Disk, Job};

/// A predicted gain may be off by so much of the true one, as elsewhere.
const OFF: f64 = 0.2;

/// A gain below this share of the step is no test of a prediction; then the step may be off by
const LEAST_GAIN: f64 = 0.2;

/// this share of it. The same holds beyond a bound: no run is exactly like another.
const STEP_OFF: f64 = 0.06;

const SEEKS: Disk = Disk::OneAtATime {
    least: 3_000,
    most: 9_000,
};
const NEAREST: Disk = Disk::Nearest {
    least: 3_000,
    most: 9_000,
};
const FLASH: Disk = Disk::Channels {
    count: 8,
    least: 80,
    most: 120,
};
const FAR: Disk = Disk::Network {
    least: 2_000,
    most: 6_000,
};
const OPERATIONS: Disk = Disk::Rate {
    latency: 300,
    every: 500,
    burst: 1,
};
const BYTES: Disk = Disk::Rate {
    latency: 500,
    every: 250,
    burst: 16,
};
const GROUP: Disk = Disk::HeldBack {
    latency: 100,
    every: 1_000,
    burst: 8,
};

const DISKS: [(&str, Disk); 7] = [
    ("seeks", SEEKS),
    ("nearest first", NEAREST),
    ("flash", FLASH),
    ("network", FAR),
    ("operations a second", OPERATIONS),
    ("bytes a second", BYTES),
    ("control group", GROUP),
];

fn job(disk: Disk, workers: usize) -> Job {
    Job {
        disk,
        workers,
        batches: 480,
        reads_a_batch: 24,
        item: 20,
        collate: 300,
        rest: 100,
        seed: 7,
    }
}

fn report(job: Job) -> Report {
    diagnose(&job.run().trace)
}

fn count(report: &Report, workers: usize) -> Option<WorkerCount> {
    let of = |count: &&WorkerCount| count.workers == workers as u64;
    report
        .findings
        .first()?
        .worker_counts
        .iter()
        .find(of)
        .copied()
}

/// What is wrong with a prediction, if anything.
fn wrong(now: f64, predicted: WorkerCount, then: f64) -> Option<String> {
    let least = predicted.predicted_step_ns as f64;
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let told = format!(
        "step {}, predicted {}{}, done {}",
        ms(now),
        ms(least),
        predicted
            .at_most_step_ns
            .map_or(String::new(), |most| format!(" to {}", ms(most as f64))),
        ms(then)
    );
    let slack = STEP_OFF * now.min(then);
    let right = match predicted.at_most_step_ns {
        Some(most) => least - slack <= then && then <= most as f64 + slack,
        None if now - then < LEAST_GAIN * now => (least - then).abs() <= STEP_OFF * now,
        None => (least - then).abs() <= OFF * (now - then),
    };
    (!right).then_some(told)
}

#[test]
fn the_step_with_more_workers_is_as_predicted_or_within_the_bounds() {
    let (mut wrongs, mut numbers, mut bounds) = (Vec::new(), 0, 0);
    for (name, disk) in DISKS {
        for (item, collate) in [(20, 300), (100, 2_000)] {
            let with = |workers| Job {
                item,
                collate,
                ..job(disk, workers)
            };
            let counts = [1, 2, 4, 8];
            let runs = counts.map(|workers| (workers, with(workers).run()));
            for (have, run) in &runs {
                let report = diagnose(&run.trace);
                for (more, then) in runs.iter().filter(|(more, _)| more > have) {
                    let Some(predicted) = count(&report, *more) else {
                        continue;
                    };
                    match predicted.at_most_step_ns {
                        Some(_) => bounds += 1,
                        None => numbers += 1,
                    }
                    if let Some(told) = wrong(run.step_ns, predicted, then.step_ns) {
                        wrongs.push(format!(
                            "{name}, {item} us: {have} -> {more} workers: {told}"
                        ));
                    }
                }
            }
        }
    }
    println!("{numbers} numbers, {bounds} bounds");
    assert!(
        wrongs.is_empty(),
        "{}\n{numbers} numbers, {bounds} bounds",
        wrongs.join("\n")
    );
}

#[test]
fn of_a_disk_at_its_limit_it_is_said_that_more_workers_do_not_help() {
    for (disk, workers, word) in [
        (OPERATIONS, 4, "at its limit"),
        (BYTES, 4, "at its limit"),
        (FLASH, 16, "at its limit"),
        (GROUP, 1, "hold"),
    ] {
        let text = report(job(disk, workers)).to_string();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("more workers do not help"), "{text}");
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn one_reader_says_nothing_about_several_and_the_report_says_so() {
    for disk in [SEEKS, FLASH, FAR, OPERATIONS] {
        let report = report(job(disk, 1));
        let four = count(&report, 4).expect("four workers are predicted");
        let most = four.at_most_step_ns.expect("there are bounds") as f64;
        let now = report.findings[0].step_ns.expect("a step") as f64;
        assert!((most / now - 1.0).abs() < 0.1, "{report}");
        assert!(
            (four.predicted_step_ns as f64 / now - 0.25).abs() < 0.05,
            "{report}"
        );
        let text = report.to_string();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("never more than one at once"), "{text}");
    }
}

/// One worker, that reads in the order of the file: the kernel soon has three requests in flight ahead of
/// it, of which the disk is done with one every 300 us.
#[test]
fn requests_that_the_kernel_has_in_flight_ahead_of_one_reader_say_what_several_readers_get() {
    let mut b = common::Builder::new();
    let (main, worker) = (b.thread(100, "main"), b.thread(101, "dataloader-0"));
    let lanes = [2001, 2002, 2003, 2004].map(|tid| b.lane(tid));
    let mut at = 0;
    for step in 0..60 {
        let start = at;
        for read in 0..20 {
            let args = [
                (arg::THREAD, V::N(101)),
                (arg::BYTES, V::N(131_072)),
                (arg::DISK, V::S("vda")),
            ];
            let lane = lanes[(read % 4) as usize];
            let begun = (start + 120 * read).max((at + 300_u64).saturating_sub(900));
            b.slice(lane, cat::BLOCK_IO, "read", (begun, at + 300), &args);
            b.off(
                101,
                blocked("file read", "folio_wait_bit_common"),
                (at, at + 290),
            );
            at += 300;
        }
        b.stage(worker, cat::DATA_GET, step, None, (start, at));
        b.wait(main, "train", (0, step), Some((step, 101)), (start, at));
        b.off(100, blocked("futex", "futex_wait"), (start, at));
        b.step("train", 0, step, 100, (start, at + 50));
        at += 50;
    }
    for tid in [100, 101] {
        b.watch(tid, (0, at), &[]);
    }
    let report = diagnose(&b.build(at));
    let four = count(&report, 4).expect("four workers are predicted");
    let now = report.findings[0].step_ns.expect("a step") as f64;
    assert_eq!(four.at_most_step_ns, None, "{report}");
    assert!(four.predicted_step_ns as f64 > 0.9 * now, "{report}");
}
