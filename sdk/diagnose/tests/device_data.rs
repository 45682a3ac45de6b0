//! Data waits behind an idle device, of our loaders and of PyTorch's.

mod common;

use common::device::{charged, top};
use common::device_step::steps;
use common::{Builder, with_workers};
use gpustall_diagnose::diagnose;
use gpustall_trace::TrackId;

const SINGLE: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
const MULTI: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

/// Ten steps of 10 ms, of which a call of `loader` takes 6 and the device 3.
fn loader(names: &[&str]) -> gpustall_diagnose::Report {
    steps(10_000, |s| {
        for (i, name) in (0..).zip(names) {
            s.annotate(name, (100 + i, 6_100 - i));
        }
        s.launch((6_150, 6_160), (6_160, 9_500));
    })
}

#[test]
fn a_loader_of_pytorch_in_process_is_told_by_its_name() {
    let report = loader(&[SINGLE]);
    let finding = top(&report, "data");
    assert!((finding.share - 0.6).abs() < 0.01);
    assert_eq!(finding.evidence["in_process"], 1.0);
    assert_eq!(finding.loader.as_deref(), Some("DataLoader"));
    assert!(
        finding
            .remedy
            .contains("num_workers=2, persistent_workers=True")
    );
    assert!(
        report
            .verdict
            .contains("makes the batches itself in next()")
    );
    assert_eq!(report.loaders[0].in_process, Some(true));
    assert_eq!(finding.predicted_step_ns, Some(4_000_000));
}

#[test]
fn a_loader_of_pytorch_with_workers_asks_for_more_of_them() {
    let report = loader(&[MULTI]);
    let finding = top(&report, "data");
    assert_eq!(finding.evidence["in_process"], 0.0);
    assert!(finding.remedy.contains("raise num_workers"));
    assert!(report.verdict.contains("waits for workers"));
}

#[test]
fn the_users_annotation_around_the_loader_is_the_same_wait() {
    let report = loader(&["data_next", SINGLE]);
    assert_eq!(report.loaders.len(), 1);
    assert_eq!(report.loaders[0].batches, 10);
    assert_eq!(report.loaders[0].name, "DataLoader");
    assert_eq!(charged(&report, "data"), 10 * 6_000_000);
}

#[test]
fn a_wait_that_the_user_named_is_data_of_an_unknown_maker() {
    let report = loader(&["data_next"]);
    let finding = top(&report, "data");
    assert!(!finding.evidence.contains_key("in_process"));
    assert_eq!(finding.loader.as_deref(), Some("data_next"));
    assert_eq!(report.loaders[0].in_process, None);
}

#[test]
fn a_wait_under_a_busy_device_costs_nothing() {
    let report = steps(10_000, |s| {
        s.annotate(SINGLE, (100, 6_100));
        s.launch((6_150, 6_160), (6_200, 16_199));
    });
    assert_eq!(
        charged(&report, "data"),
        6_000_000,
        "only before the first kernel"
    );
}

#[test]
fn a_prefetchers_annotation_is_nobodys_wait() {
    let report = steps(10_000, |s| {
        let prefetcher = s.thread(101, "prefetcher");
        s.annotate_on(prefetcher, "load_batch", (0, 9_000));
        s.launch((0, 10), (10, 9_900));
    });
    assert!(report.loaders.is_empty());
    assert_eq!(charged(&report, "data"), 0);
}

#[test]
fn without_the_launch_the_link_to_the_thread_is_inferred() {
    let report = steps(10_000, |s| {
        s.annotate("data_next", (100, 6_100));
        s.kernel((6_160, 9_500));
    });
    let finding = top(&report, "data");
    assert_eq!(finding.chain[1].edge, gpustall_diagnose::Edge::Inferred);
}

/// Puts a device behind a trace of ours: busy in each step but for its first `idle` microseconds.
fn with_device(mut trace: gpustall_trace::Trace, steps: u64, idle: u64) -> gpustall_trace::Trace {
    let main = (0..).map(TrackId).find(|&track| {
        let name = trace.track(track).map(|track| track.name);
        name.is_some_and(|name| trace.text(name) == "main")
    });
    let main = main.expect("main is there");
    let end = trace.meta.end.as_nanos() / 1000;
    let mut b = Builder::new();
    std::mem::swap(&mut b.trace, &mut trace);
    let stream = b.stream(0, 7);
    for step in 0..steps {
        let at = 100_000 + step * 10_000;
        let run = (at + idle, at + 10_000);
        b.launch(main, stream, step + 1, (at + idle - 10, at + idle), run);
    }
    b.build(end)
}

#[test]
fn behind_a_device_the_chain_goes_on_to_the_worker_that_made_the_batch() {
    let report = diagnose(&with_device(with_workers(50, 7_000, 12_000), 50, 7_100));
    let finding = top(&report, "data");
    let who: Vec<(u32, &str)> = finding
        .chain
        .iter()
        .map(|link| (link.depth, link.who.as_str()))
        .collect();
    assert_eq!(who[0], (0, "GPU 0"));
    assert_eq!(who[1], (1, "main"));
    assert_eq!(who[2], (2, "dataloader-0 and dataloader-1"));
    assert_eq!(who[3].0, 3);
    assert!(finding.chain[3].what.starts_with("get"));
    assert!(
        report
            .verdict
            .contains("main waits for dataloader-0 and dataloader-1")
    );
    assert!(
        !finding.remedy.contains("DataLoader("),
        "in Burn's words: {}",
        finding.remedy
    );
    assert_eq!(report.evidence.level, "spans + device");
}

#[test]
fn in_process_with_proven_cpu_time_is_computing_behind_a_device_too() {
    let report = diagnose(&with_device(common::in_process(50, 7_000, 97), 50, 7_100));
    let finding = top(&report, "data.compute");
    assert!((finding.share - 0.7).abs() < 0.02);
}
