//! What the tests of foreign traces share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use gpustall_trace::{ReadError, ReadOutcome, Slice, Trace, read_any};
use std::path::{Path, PathBuf};

/// Reads a file with these bytes.
pub(crate) fn read_bytes(bytes: impl AsRef<[u8]>) -> Result<ReadOutcome, ReadError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.pt.trace.json");
    std::fs::write(&path, bytes).unwrap();
    read_any(&path)
}

/// Reads a file with these events, in both forms, and checks that they say the same.
pub(crate) fn read_events(events: &str) -> ReadOutcome {
    let array = read_bytes(format!("[{events}]")).unwrap();
    let object = read_bytes(format!("{{\"traceEvents\": [{events}]}}")).unwrap();
    assert_eq!(array.warnings, object.warnings);
    assert_eq!(array.trace.slices, object.trace.slices);
    object
}

/// The directory of the labelled traces.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kineto")
}

/// The slices of a category.
pub(crate) fn of<'t>(trace: &'t Trace, cat: &'t str) -> impl Iterator<Item = &'t Slice> {
    let of = move |slice: &&Slice| trace.text(slice.cat) == cat;
    trace.slices.iter().filter(of)
}

/// Process and track name of a slice.
pub(crate) fn place<'t>(trace: &'t Trace, slice: &Slice) -> (&'t str, &'t str) {
    let track = trace.track(slice.track).unwrap();
    let process = trace.processes.iter().find(|p| p.pid == track.pid).unwrap();
    (trace.text(process.name), trace.text(track.name))
}
