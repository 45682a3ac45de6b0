//! Who was late to a collective, and why.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::device::{Stream, top};
use common::ranks::{Job, late};

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
