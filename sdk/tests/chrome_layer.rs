//! The file of tracing-chrome's layer can be set beside a recording of the kernel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_trace::vocab::{arg, cat, state};
use gpustall_trace::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tracing_subscriber::prelude::*;

/// Records in a thread of its own: tracing-chrome keeps a thread's number for all layers together.
fn record(path: &Path, include_args: bool) -> (Vec<u32>, MonoTime, MonoTime) {
    std::thread::scope(|scope| {
        let recorded = scope.spawn(|| record_here(path, include_args));
        recorded.join().unwrap()
    })
}

/// Spans on two threads, and when they began and ended at the latest: `CLOCK_MONOTONIC`.
fn record_here(path: &Path, include_args: bool) -> (Vec<u32>, MonoTime, MonoTime) {
    let (layer, guard) =
        gpustall::chrome::layer_with(path, |builder| builder.include_args(include_args)).unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    let dispatch = tracing::Dispatch::new(subscriber);
    let begin = MonotonicClock::read();
    let work = || {
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info_span!("forward", batch = 4).in_scope(|| {
                tracing::info_span!("layer")
                    .in_scope(|| std::thread::sleep(Duration::from_millis(2)));
                tracing::info!("half way");
            });
        });
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    };
    let here = work();
    let there = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("worker".into());
        worker.spawn_scoped(scope, work).unwrap().join().unwrap()
    });
    let end = MonotonicClock::read();
    guard.flush();
    drop(guard);
    (vec![here, there], begin, end)
}

#[test]
fn threads_and_times_are_those_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    for include_args in [false, true] {
        let path = directory.path().join(format!("spans {include_args}.json"));
        let (tids, begin, end) = record(&path, include_args);
        let outcome = read_any(&path).unwrap();
        assert_eq!(outcome.source, Source::Chrome);
        assert_eq!(outcome.warnings, Vec::<String>::new());
        let trace = outcome.trace;
        assert_eq!(trace.meta.pid, Pid(std::process::id()));
        let threads: BTreeSet<u32> = trace.tracks.iter().map(|track| track.tid.0).collect();
        assert_eq!(threads, tids.iter().copied().collect());
        assert!(
            trace.tracks.iter().all(
                |track| track.kind == TrackKind::Thread && track.pid == Pid(std::process::id())
            )
        );
        // The spans lie where they were on the machine's clock, but for the time between two
        // readings of it.
        let slack = 1_000_000;
        let start = trace.meta.start_mono.as_nanos();
        assert!(begin.as_nanos() - slack <= start && start <= end.as_nanos());
        let last = trace
            .slices
            .iter()
            .map(|slice| slice.span.end.as_nanos())
            .max()
            .unwrap();
        assert!(start + last <= end.as_nanos() + slack);
        let names: Vec<&str> = trace
            .slices
            .iter()
            .map(|slice| trace.text(slice.name))
            .collect();
        assert_eq!(names.iter().filter(|name| **name == "forward").count(), 2);
        assert_eq!(trace.slices.len(), 4);
        // The anchors themselves are no events of the recording.
        assert_eq!(trace.instants.len(), 2);
        assert!(trace.meta.start_unix_ns > 0);
    }
}

#[test]
fn it_is_merged_with_what_the_kernel_saw_of_the_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spans.json");
    let (tids, begin, end) = record(&path, false);
    let spans = read_any(&path).unwrap().trace;
    // A recording of the kernel in which the worker slept all the time.
    let mut kernel = Trace::default();
    kernel.meta.start_mono = begin;
    kernel.meta.end = end.in_trace(begin);
    kernel.meta.pid = Pid(std::process::id());
    let (worker, lane) = (kernel.strings.intern("worker"), Tid(0xD000_0000));
    let pid = kernel.meta.pid;
    for (tid, kind) in [
        (Tid(tids[1]), TrackKind::Thread),
        (lane, TrackKind::Synthetic),
    ] {
        let (name, sort) = (worker, 0);
        kernel.tracks.push(Track {
            pid,
            tid,
            name,
            sort,
            kind,
        });
    }
    let mut text = |text: &str| kernel.strings.intern(text);
    let args = [
        (text(arg::THREAD), Value::U64(tids[1].into())),
        (text(arg::STATE), Value::Str(text(state::SLEEPING))),
    ];
    kernel.slices.push(Slice {
        track: TrackId(1),
        name: text("sleep"),
        cat: text(cat::OFF_CPU),
        span: Interval::new(TraceTime::ZERO, kernel.meta.end),
        args: args.into(),
    });
    let parts = [("spans", spans), ("kernel", kernel)];
    let parts = parts.map(|(label, trace)| Part {
        label: label.into(),
        trace,
    });
    let merged = merge(parts.into()).unwrap();
    let off = merged
        .slices
        .iter()
        .find(|slice| merged.text(slice.cat) == cat::OFF_CPU)
        .unwrap();
    let threads = merged
        .tracks
        .iter()
        .filter(|track| track.kind == TrackKind::Thread);
    assert_eq!(threads.count(), 2, "the worker is one thread");
    for slice in merged
        .slices
        .iter()
        .filter(|slice| merged.text(slice.cat) != cat::OFF_CPU)
    {
        let slack = Nanos::new(1_000_000);
        assert!(
            slice.span.end <= off.span.end + slack,
            "{slice:?} within {off:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_made_is_told() {
    let made = gpustall::chrome::layer::<tracing_subscriber::Registry>("/no/such/place.json");
    let error = made.map(drop).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot create the trace file /no/such/place.json")
    );
}
