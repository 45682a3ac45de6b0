//! What is predicted of more workers that read from a disk, against disks that are played through.

mod common;
mod simulated_disk;

use common::V;
use common::kernel::blocked;
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::{arg, cat};
use simulated_disk::checks::{Predictions, count, job, words};
use simulated_disk::{Disk, Job};

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

fn report(job: Job) -> Report {
    diagnose(&job.run().trace)
}

#[test]
fn the_step_with_other_workers_is_as_predicted_or_within_the_bounds() {
    let mut predictions = Predictions::default();
    for (name, disk) in DISKS {
        // With little and with much that a worker does beside its reads.
        for (item, collate) in [(20, 300), (100, 2_000)] {
            let job = Job {
                item,
                collate,
                ..job(disk, 1)
            };
            let name = format!("{name}, {item} us");
            predictions.add(&name, job, &[1, 2, 4, 8], |trace| trace);
        }
    }
    predictions.assert_right(120);
}

#[test]
fn of_a_disk_at_its_limit_it_is_said_that_more_workers_do_not_help() {
    for (disk, workers, word) in [
        (OPERATIONS, 4, "at its limit"),
        (BYTES, 4, "at its limit"),
        (FLASH, 16, "at its limit"),
        (GROUP, 1, "hold"),
    ] {
        let text = words(&report(job(disk, workers)));
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
        let text = words(&report);
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
