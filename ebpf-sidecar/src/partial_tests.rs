use super::*;
use crate::to_trace::tests::{recording, texts};

fn create(path: &Path, max_events: u64) -> PartialRecording {
    let start = recording().start;
    PartialRecording::create(path, "job", Pid(7), start, max_events).expect("created")
}

/// The recording in two parts.
fn parts() -> [Recording; 2] {
    let whole = recording();
    let mut first = whole.clone();
    first.finished = false;
    first.threads.iter_mut().for_each(|t| t.ended = false);
    first.intervals.truncate(1);
    first.losses.clear();
    first.notes.clear();
    first.end = TraceTime::from_nanos(68_000);
    let mut second = whole;
    second.intervals.remove(0);
    second.samples.clear();
    [first, second]
}

#[test]
fn what_was_added_is_in_the_file_whatever_becomes_of_the_recorder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.json.partial");
    let mut partial = create(&path, 100);
    let [first, _] = parts();
    partial.add(&first);
    // Not dropped, as when the process is killed.
    std::mem::forget(partial);
    let trace = read(&path).expect("readable").trace;
    assert_eq!(trace.meta.state, State::Partial);
    assert_eq!((trace.slices.len(), trace.instants.len()), (1, 1));
    assert_eq!(trace.meta.pid, Pid(7));
}

#[test]
fn the_trace_of_the_parts_is_that_of_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.json.partial");
    let mut partial = create(&path, 100);
    parts().iter().for_each(|part| partial.add(part));
    let (trace, file) = partial.finish().expect("read back");
    let whole = recording().to_trace("job", Pid(7));
    let sorted = |trace| {
        let mut texts = texts(trace);
        texts.sort();
        texts
    };
    assert_eq!(sorted(&trace), sorted(&whole));
    assert_eq!(trace.lost_by_source(), whole.lost_by_source());
    assert_eq!(trace.meta.notes, whole.meta.notes);
    assert_eq!(trace.meta.end, whole.meta.end);
    assert_eq!(trace.meta.state, State::Finished);
    assert!(path.exists(), "until the finished file is written");
    file.remove().expect("removed");
    assert!(!path.exists());
}

#[test]
fn what_is_beyond_the_limit_is_counted_and_totals_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.json.partial");
    let mut partial = create(&path, 2);
    parts().iter().for_each(|part| partial.add(part));
    let (trace, _) = partial.finish().expect("read back");
    let lost = trace.lost_by_source();
    let beyond = lost.get(BEYOND_LIMIT).copied().unwrap_or_default();
    assert!(beyond >= 1, "{lost:?}");
    let totals = |i: &&gpustall_trace::Instant| trace.text(i.cat) == vocab::cat::THREAD_TOTALS;
    assert_eq!(trace.instants.iter().filter(totals).count(), 2);
}
