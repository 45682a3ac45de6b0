//! Jobs of several ranks in one trace, times in the builder's units.

use super::Builder;
use super::device::{Stream, charged};
use gpustall_diagnose::{Report, annotate, diagnose};
use gpustall_trace::{DistributedInfo, Interval, Member, Pid, TraceTime, TrackId, TrackKind};

/// A job in the making: one process, thread and device for each rank.
pub struct Job {
    pub b: Builder,
    pub ranks: Vec<(TrackId, Stream)>,
    id: u64,
}

impl Job {
    pub fn of(ranks: u32) -> Self {
        let mut b = Builder::new();
        let one = |rank: u32| {
            let pid = 1000 + rank;
            let thread = b.track(Pid(pid), pid, "train", TrackKind::Thread);
            (thread, b.stream(rank.into(), 7))
        };
        let ranks = (0..ranks).map(one).collect();
        Self { b, ranks, id: 0 }
    }

    pub fn kernel(&mut self, rank: usize, span: (u64, u64)) {
        let id = self.call(rank, span.0);
        self.b.kernel(self.ranks[rank].1, id, span);
    }

    pub fn collective(&mut self, rank: usize, span: (u64, u64)) {
        let id = self.call(rank, span.0);
        self.b.nccl(self.ranks[rank].1, id, span);
    }

    pub fn call(&mut self, rank: usize, start: u64) -> u64 {
        self.id += 1;
        let thread = self.ranks[rank].0;
        self.b
            .call(thread, "cudaLaunchKernel", self.id, (start - 2, start - 1));
        self.id
    }

    pub fn report(mut self, end: u64) -> Report {
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
pub fn late(before: impl Fn(&mut Job, u64)) -> Report {
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
