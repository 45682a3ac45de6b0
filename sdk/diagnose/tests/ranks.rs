//! Several ranks in one trace: an account and a row each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Builder;
use common::ranks::{Job, late};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::{DistributedInfo, Interval, Member, Pid, TraceTime, TrackKind};

#[test]
fn the_text_has_a_row_for_each_rank() {
    let report = late(|job, at| job.kernel(1, (at + 3, at + 303)));
    let text = report.to_string();
    for line in [
        "GPU 0 (rank 0)",
        "rank 0   GPU 0",
        "rank 1   GPU 1",
        "10 of 10",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn a_pause_of_one_rank_is_not_charged_to_its_device() {
    let mut job = Job::of(2);
    let pauses = job
        .b
        .track(Pid(Pid::SYNTHETIC + 5), 9, "pauses", TrackKind::Synthetic);
    job.b.slice(
        pauses,
        "pause",
        "paused",
        (1_100, 2_100),
        &[("process", common::V::N(1001))],
    );
    for step in 0..40 {
        for rank in 0..2 {
            let at = 100 + step * 100;
            job.kernel(rank, (at + 3, at + 100));
        }
    }
    let report = job.report(5_000);
    let windows: Vec<u64> = report
        .devices
        .iter()
        .map(|device| device.window_ns)
        .collect();
    assert_eq!(windows, [3_997_000, 2_997_000]);
}

/// Ranks without a device: each thread that trains stands for one.
#[test]
fn ranks_without_a_device_are_told_apart_by_name() {
    let mut b = Builder::new();
    let end_ns = TraceTime::from_nanos(300_000 * b.unit);
    for rank in 0..3u32 {
        let pid = 1000 + rank;
        let thread = b.track(Pid(pid), pid, "main", TrackKind::Thread);
        let maker = b.track(Pid(2000 + rank), 2000 + rank, "worker-0", TrackKind::Thread);
        for step in 0..20 {
            let at = 100_000 + step * 10_000;
            let batch = u64::from(rank) * 100 + step;
            // The last one waits for its data most of the time.
            let wait = if rank == 2 { 8_000 } else { 10 };
            b.step("train", 0, step + 1, pid, (at, at + 10_000));
            b.wait(
                thread,
                "train",
                (0, step + 1),
                Some((batch, 2000 + rank)),
                (at, at + wait),
            );
            b.stage(
                maker,
                gpustall_trace::vocab::cat::DATA_GET,
                batch,
                Some(5),
                (at, at + wait - 5),
            );
        }
        b.trace.meta.members.push(Member {
            pid: Pid(pid),
            distributed: Some(DistributedInfo {
                rank,
                world_size: 3,
            }),
            recorded: Interval::new(TraceTime::ZERO, end_ns),
            devices: Vec::new(),
        });
    }
    let report = diagnose(&b.build(300_000));
    let names: Vec<&str> = report.devices.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["main (rank 0)", "main (rank 1)", "main (rank 2)"]);
    let verdict = "main (rank 2) waits for worker-0 (rank 2), which spends it in get";
    assert!(report.verdict.ends_with(verdict), "{report}");
    // What the others' batches cost is no matter to the one that waits.
    let remedy = &report.findings[0].remedy;
    assert!(
        remedy.starts_with(".num_workers(4) instead of 1: a batch takes 8.00 ms"),
        "{report}"
    );
    let text = report.to_string();
    for line in [
        "on 3 threads main (ranks 0 to 2), evidence",
        "main (rank 2) compute 20.0 %, idle 80.0 %",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
