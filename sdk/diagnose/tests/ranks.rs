//! Several ranks in one trace: an account each, and who was late to a collective and why.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Builder;
use common::device::{Stream, charged, top};
use gpustall_diagnose::{Report, annotate, diagnose};
use gpustall_trace::{DistributedInfo, Interval, Member, Pid, TraceTime, TrackId, TrackKind};
use proptest::prelude::*;

/// A job in the making: one process, thread and device for each rank.
struct Job {
    b: Builder,
    ranks: Vec<(TrackId, Stream)>,
    id: u64,
}

impl Job {
    fn of(ranks: u32) -> Self {
        let mut b = Builder::new();
        let one = |rank: u32| {
            let pid = 1000 + rank;
            let thread = b.track(Pid(pid), pid, "train", TrackKind::Thread);
            (thread, b.stream(rank.into(), 7))
        };
        let ranks = (0..ranks).map(one).collect();
        Self { b, ranks, id: 0 }
    }

    fn kernel(&mut self, rank: usize, span: (u64, u64)) {
        let id = self.call(rank, span.0);
        self.b.kernel(self.ranks[rank].1, id, span);
    }

    fn collective(&mut self, rank: usize, span: (u64, u64)) {
        let id = self.call(rank, span.0);
        self.b.nccl(self.ranks[rank].1, id, span);
    }

    fn call(&mut self, rank: usize, start: u64) -> u64 {
        self.id += 1;
        let thread = self.ranks[rank].0;
        self.b
            .call(thread, "cudaLaunchKernel", self.id, (start - 2, start - 1));
        self.id
    }

    fn report(mut self, end: u64) -> Report {
        let ranks = self.ranks.len() as u32;
        let end_ns = TraceTime::from_nanos(end * self.b.unit);
        let member = |rank| Member {
            pid: Pid(1000 + rank),
            distributed: Some(DistributedInfo {
                rank,
                world_size: ranks,
            }),
            recorded: Interval::new(TraceTime::ZERO, end_ns),
            devices: vec![rank],
        };
        self.b.trace.meta.members = (0..ranks).map(member).collect();
        self.b.trace.meta.recorder = "kineto".into();
        let mut trace = self.b.build(end);
        let report = diagnose(&trace);
        adds_up(&report);
        annotate(&mut trace, &report);
        assert_eq!(diagnose(&trace), report, "what is drawn changes nothing");
        report
    }
}

/// Every account adds up to its window, and all of them to the whole.
fn adds_up(report: &Report) {
    for device in &report.devices {
        assert_eq!(
            device.charges_ns.values().sum::<u64>(),
            device.window_ns,
            "{report}"
        );
    }
    let windows: u64 = report.devices.iter().map(|device| device.window_ns).sum();
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    assert_eq!(windows, report.device_ns);
    let straggler = charged(report, "comm.straggler");
    assert_eq!(
        report.ranks.iter().map(|rank| rank.waits_ns).sum::<u64>(),
        straggler
    );
    assert_eq!(
        report
            .ranks
            .iter()
            .map(|rank| rank.waited_for_ns)
            .sum::<u64>(),
        straggler
    );
    for rank in &report.ranks {
        assert_eq!(rank.late_by_ns.values().sum::<u64>(), rank.waited_for_ns);
    }
}

/// Ten steps of 1000 units of two ranks: both compute for 400, and rank 1 does `before` for 300 first.
fn late(before: impl Fn(&mut Job, u64)) -> Report {
    let mut job = Job::of(2);
    for step in 0..10 {
        let at = 100 + step * 1_000;
        for rank in 0..2 {
            let thread = job.ranks[rank].0;
            job.b.profiler_step(thread, step, (at, at + 1_000));
        }
        before(&mut job, at);
        for (rank, from) in [(0, at), (1, at + 300)] {
            job.kernel(rank, (from + 3, from + 403));
            job.collective(rank, (from + 403, at + 800));
            job.kernel(rank, (at + 800, at + 1_000));
        }
    }
    job.report(10_100)
}

#[test]
fn a_rank_that_waited_for_data_before_it_computed_is_late_because_of_the_data() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let report = late(|job, at| {
        let thread = job.ranks[1].0;
        job.b.annotate(thread, loader, (at, at + 300));
    });
    // While rank 0 waits, rank 1 computes: what it lost was lost before.
    let device = |at: usize| report.devices[at].charges_ns.clone();
    assert_eq!(device(0).get("comm.straggler"), Some(&3_000_000));
    assert_eq!(device(0).get("comm.exposed"), Some(&970_000));
    assert_eq!(device(1).get("comm.straggler"), None);
    let [first, second] = report.ranks.as_slice() else {
        panic!("two ranks: {report}");
    };
    assert_eq!(
        (first.rank, first.last_in, first.waited_for_ns),
        (Some(0), 0, 0)
    );
    assert_eq!(
        (second.rank, second.last_in, second.collectives),
        (Some(1), 10, 10)
    );
    assert_eq!(first.waits_ns, 3_000_000);
    assert_eq!(first.steps.count, 9);
    let data = second
        .late_by_ns
        .iter()
        .filter(|(cause, _)| cause.starts_with("data"));
    assert!(data.map(|(_, ns)| ns).sum::<u64>() > 2_900_000, "{report}");

    let of = |cause: &str| {
        report
            .findings
            .iter()
            .find(|of| of.cause.id() == cause)
            .unwrap()
    };
    let straggler = of("comm.straggler");
    let said: Vec<String> = straggler
        .chain
        .iter()
        .map(|link| format!("{} {}", link.who, link.what))
        .collect();
    assert_eq!(said[0], "GPU 0 (rank 0) communicated and did not compute");
    assert_eq!(said[1], "GPU 1 (rank 1) had not begun the collective");
    assert!(
        said[2].starts_with("since it lost time to `data"),
        "{said:?}"
    );
    assert!(
        straggler
            .remedy
            .contains("GPU 1 (rank 1) is late: mend its `data"),
        "{report}"
    );
    assert_eq!(straggler.step_ns, Some(1_000_000));
    let predicted = straggler.predicted_step_ns.unwrap();
    assert!((690_000..=710_000).contains(&predicted), "{predicted}");
}

#[test]
fn a_rank_that_computes_longer_is_late_because_of_that() {
    let report = late(|job, at| job.kernel(1, (at + 3, at + 303)));
    let finding = top(&report, "comm.straggler");
    assert_eq!(
        finding.chain[2].what,
        "computed longer than those that waited"
    );
    assert!(finding.remedy.contains("equally much to do"), "{report}");
    assert_eq!(report.ranks[1].late_by_ns.get("compute"), Some(&3_000_000));
    assert!(
        report
            .verdict
            .contains("GPU 1 (rank 1) had not begun the collective"),
        "{report}"
    );
}

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

/// A collective as each rank sees it: how long before the last one it begins, and after the first end
/// it ends; kernels of each rank before it.
type Drawn = Vec<(Vec<(u64, u64, u64)>, u64)>;

fn drawn(ranks: usize) -> impl Strategy<Value = Drawn> {
    let one = (0_u64..40, 0_u64..3, 0_u64..30);
    let all = prop::collection::vec(one, ranks);
    prop::collection::vec((all, 1_u64..20), 1..12)
}

/// Charges of one device, per unit of time, from what a straggler is.
fn split(ops: &[Vec<(u64, u64)>], kernels: &[(u64, u64)], rank: usize, end: u64) -> (u64, u64) {
    let holds = |span: (u64, u64), t: u64| span.0 <= t && t < span.1;
    let (mut straggler, mut exposed) = (0, 0);
    for t in 0..end {
        if kernels.iter().any(|&span| holds(span, t)) {
            continue;
        }
        let runs = ops.iter().find(|of| holds(of[rank], t));
        match runs.map(|of| of.iter().any(|other| other.0 > t)) {
            Some(true) => straggler += 1,
            Some(false) => exposed += 1,
            None => {}
        }
    }
    (straggler, exposed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_unit_of_communication_is_split_as_the_table_says(
        (ranks, drawn, missed) in (2_usize..5).prop_flat_map(|ranks| {
            (Just(ranks), drawn(ranks), 0_usize..3)
        }),
    ) {
        let mut job = Job::of(ranks as u32);
        let mut collectives: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut kernels: Vec<Vec<(u64, u64)>> = vec![Vec::new(); ranks];
        let mut at = 10;
        for (of, together) in &drawn {
            // The last one begins here, at the latest.
            let last = at + 50;
            let begins = |&(before, _, _): &(u64, u64, u64)| last - before;
            let spans: Vec<(u64, u64)> = of
                .iter()
                .map(|of| (begins(of), last + together + of.1))
                .collect();
            let free = at;
            at = spans.iter().map(|span| span.1).max().unwrap() + 6;
            for (rank, (&(_, _, length), span)) in of.iter().zip(&spans).enumerate() {
                let kernel = (free, (free + length).min(span.0));
                if kernel.0 < kernel.1 {
                    kernels[rank].push(kernel);
                }
            }
            collectives.push(spans);
        }
        for own in &mut kernels {
            own.push((at, at + 10));
        }
        // The recording of the last rank may begin later.
        let missed = missed.min(collectives.len() - 1);
        for (rank, own) in kernels.iter().enumerate() {
            own.iter().for_each(|&span| job.kernel(rank, span));
            let skip = if rank + 1 == ranks { missed } else { 0 };
            collectives.iter().skip(skip).for_each(|of| job.collective(rank, of[rank]));
        }
        let report = job.report(at + 20);
        for (rank, own) in kernels.iter().enumerate() {
            let mut known: Vec<Vec<(u64, u64)>> = collectives.clone();
            if rank + 1 == ranks {
                known.drain(..missed);
            }
            for (n, of) in known.iter_mut().enumerate() {
                if rank + 1 < ranks && n < missed {
                    of[ranks - 1] = (0, 0);
                }
            }
            let (straggler, exposed) = split(&known, own, rank, at + 20);
            let charges = &report.devices[rank].charges_ns;
            let of = |cause: &str| charges.get(cause).copied().unwrap_or(0);
            prop_assert_eq!(of("comm.straggler"), straggler * 1_000, "rank {}", rank);
            prop_assert_eq!(of("comm.exposed"), exposed * 1_000, "rank {}", rank);
        }
    }
}

#[test]
fn a_rank_that_computes_on_while_it_waits_is_not_late_for_it_at_the_next_collective() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let mut job = Job::of(2);
    let streams: Vec<Stream> = (0..2).map(|rank| job.b.stream(rank, 20)).collect();
    for step in 0..10 {
        let at = 100 + step * 1_000;
        for rank in 0..2 {
            let thread = job.ranks[rank].0;
            job.b.profiler_step(thread, step, (at, at + 1_000));
        }
        let thread = job.ranks[1].0;
        job.b.annotate(thread, loader, (at, at + 400));
        // Both compute for 100 and reduce, while they compute another 100 and reduce again.
        for (rank, from) in [(0, at), (1, at + 400)] {
            job.kernel(rank, (from + 3, from + 100));
            let id = job.call(rank, from + 96);
            job.b.nccl(streams[rank], id, (from + 100, at + 510));
            job.kernel(rank, (from + 100, from + 200));
            job.collective(rank, ((from + 200).max(at + 510), at + 620));
            let thread = job.ranks[rank].0;
            job.b
                .call(thread, "cudaStreamWaitEvent", 0, (at + 614, at + 616));
            job.kernel(rank, (at + 620, at + 1_000));
        }
    }
    let report = job.report(10_100);
    let late = &report.ranks[1];
    assert!(late.waited_for_ns > 0, "{report}");
    let data = late
        .late_by_ns
        .iter()
        .filter(|(cause, _)| cause.starts_with("data"));
    let data: u64 = data.map(|(_, ns)| ns).sum();
    assert!(data * 100 >= late.waited_for_ns * 95, "{report}");
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
