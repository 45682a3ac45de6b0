//! A partial file that ends anywhere gives every event whose line is complete.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{
    EventRef, Interval, Meta, PartialWriter, Pid, ReadError, State, Tid, TraceTime, Value,
    ValueRef, read, vocab,
};
use proptest::prelude::*;
use sample::{any_trace, canonical, write_partial};
use std::fs;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_complete_line_is_kept_wherever_the_file_ends(trace in any_trace(), step in 1..60usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.json.partial");
        write_partial(&path, &trace);
        let bytes = fs::read(&path).unwrap();
        let cut = directory.path().join("cut.partial");
        let meta_line = 3 + bytes[2..].iter().position(|&b| b == b'\n').unwrap();
        let mut known = (0, Vec::new());
        for length in (0..bytes.len()).step_by(step) {
            fs::write(&cut, &bytes[..length]).unwrap();
            let outcome = read(&cut);
            if length < meta_line - 2 {
                let refused = matches!(outcome, Err(ReadError::NotOurs { .. }));
                prop_assert!(refused);
                continue;
            }
            let outcome = outcome.unwrap();
            // A line whose comma or newline alone is missing is complete.
            let whole = [b"".as_slice(), b"\n", b",\n"].iter().find_map(|rest| {
                bytes[..length + rest.len()].ends_with(b",\n").then_some(length + rest.len())
            });
            let whole = whole.unwrap_or_else(|| {
                1 + bytes[..length].iter().rposition(|&b| b == b'\n').unwrap()
            });
            if known.0 != whole {
                fs::write(&cut, &bytes[..whole]).unwrap();
                let expected = read(&cut).unwrap();
                prop_assert!(expected.warnings.is_empty());
                known = (whole, canonical(&expected.trace));
            }
            prop_assert_eq!(canonical(&outcome.trace), known.1.clone());
            prop_assert_eq!(outcome.warnings.len(), usize::from(whole < length));
        }
    }
}

#[test]
fn a_slice_that_was_open_at_the_end_is_returned_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    let mut writer = PartialWriter::create(&path, &Meta::default()).unwrap();
    let time = TraceTime::from_nanos;
    let args = [("step", ValueRef::U64(3))];
    let (pid, tid, cat) = (Pid(1), Tid(1), vocab::cat::PHASE);
    for at in [150, 250] {
        for (name, start) in [("forward", 100), ("whole step", 50)] {
            let (start, at) = (time(start), time(at));
            writer.push(&EventRef::Open {
                pid,
                tid,
                name,
                cat,
                start,
                at,
                args: &args,
            });
        }
    }
    let span = Interval::new(time(100), time(200));
    writer.push(&EventRef::Slice {
        pid,
        tid,
        name: "forward",
        cat,
        span,
        args: &args,
    });
    writer.flush().unwrap();

    let trace = read(&path).unwrap().trace;
    assert_eq!(trace.meta.state, State::Partial);
    assert_eq!(trace.meta.end, time(250));
    let [open, closed] = &trace.slices[..] else {
        panic!("two slices")
    };
    assert_eq!(trace.text(closed.name), "forward");
    assert_eq!(closed.span, span);
    assert_eq!(trace.arg(&closed.args, vocab::arg::UNFINISHED), None);
    assert_eq!(trace.text(open.name), "whole step");
    assert_eq!(
        (trace.text(open.cat), open.span),
        (cat, Interval::new(time(50), time(250)))
    );
    assert_eq!(trace.arg_u64(&open.args, "step"), Some(3));
    assert_eq!(
        trace.arg(&open.args, vocab::arg::UNFINISHED),
        Some(Value::Bool(true))
    );
    assert!(trace.instants.is_empty());
}

#[test]
fn a_damaged_line_costs_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    let mut writer = PartialWriter::create(&path, &Meta::default()).unwrap();
    for i in 0..3 {
        let at = TraceTime::from_nanos(i);
        writer.push(&EventRef::Counter {
            pid: Pid(1),
            name: "depth",
            at,
            value: 1.0,
        });
    }
    writer.push(&EventRef::Note {
        text: "the sidecar was not there",
    });
    writer.flush().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
    lines[3] = b"{\"ph\":\"C\",\"pid\":1,\"ts\":0.0\xff\x00{\"ph\":";
    for end in ["\n", "\r\n"] {
        fs::write(&path, lines.join(end.as_bytes())).unwrap();
        let outcome = read(&path).unwrap();
        assert_eq!(outcome.trace.counters.len(), 2);
        assert_eq!(outcome.trace.meta.notes, ["the sidecar was not there"]);
        assert_eq!(outcome.warnings, ["1 damaged line was left out"]);
    }
}

#[test]
fn a_partial_file_that_somebody_closed_or_compressed_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    drop(PartialWriter::create(&path, &Meta::default()).unwrap());
    let text = fs::read_to_string(&path).unwrap();
    let closed = format!("\u{feff}{}]\n", text.trim_end().trim_end_matches(','));
    fs::write(&path, &closed).unwrap();
    assert!(read(&path).unwrap().warnings.is_empty());

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, closed.as_bytes()).unwrap();
    fs::write(&path, gzip.finish().unwrap()).unwrap();
    assert!(read(&path).unwrap().warnings.is_empty());
}
