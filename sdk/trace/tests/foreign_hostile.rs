//! Foreign files that are damaged, are no traces, or mean harm: an error that says what was found,
//! or the events that can be had, with warnings. Never a panic, never memory without end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;

use flate2::{Compression, write::GzEncoder};
use foreign::{read_bytes, read_events};
use gpustall_trace::{ReadError, State, TRACE_SCHEMA, read_any};
use proptest::prelude::*;
use std::io::Write;

const EVENT: &str =
    r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"bytes":1}}"#;

#[test]
fn what_is_no_trace_is_refused_and_named() {
    for (bytes, reason) in [
        (&b""[..], "it is empty"),
        (b" \n", "it is empty"),
        (b"\x1f\x8bgarbage", "it is empty"),
        (b"3", "it is JSON without a list of events"),
        (b" -1.5e3\n", "it is JSON without a list of events"),
        (b"\"a\"", "it is JSON without a list of events"),
        (b"null", "it is JSON without a list of events"),
        (b"3, 4", "it is not JSON"),
        (b"hello", "it is not JSON"),
        (b"\x7fELF\x02", "it is not JSON"),
        (b"{hello}", "it is not JSON"),
        (b"{]", "it is not JSON"),
        (b"{", "cut off before its list"),
        (
            b"{\"schemaVersion\": 1, \"devicePro",
            "cut off before its list",
        ),
        (b"{}", "without a list of events"),
        (b"{\"a\": 1}", "without a list of events"),
        (b"{\"traceEvents\": 1}", "without a list of events"),
        (b"[]", "its list has no events"),
        (b"[1, 2, 3]", "its list has no events"),
        (b"[{\"a\": 1}, {\"b\": 2}]", "its list has no events"),
        (
            b"{\"traceEvents\": [1, null, {\"ph\": \"X\"}]}",
            "its list has no events",
        ),
    ] {
        let error = read_bytes(bytes).unwrap_err();
        assert!(matches!(error, ReadError::NotATrace { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}, not {reason}");
    }
    let missing = std::path::Path::new("/nowhere/at/all.json");
    assert!(matches!(read_any(missing), Err(ReadError::Io { .. })));
}

#[test]
fn a_file_of_a_newer_gpustall_asks_for_an_update() {
    let newer = TRACE_SCHEMA + 1;
    let text =
        format!(r#"[{{"ph":"M","name":"gpustall.meta","args":{{"schema":{newer},"meta":{{}}}}}}]"#);
    let error = read_bytes(text).unwrap_err();
    assert!(matches!(error, ReadError::Newer { .. }), "{error}");
}

#[test]
fn a_foreign_trace_that_names_gpustall_is_still_read() {
    for text in [
        format!(r#"{{"traceEvents":[{EVENT}],"otherData":{{"producer":"gpustall_not"}}}}"#),
        format!(r#"{{"otherData":{{"producer":7}},"traceEvents":[{EVENT}]}}"#),
        format!(r#"[{{"ph":"M","name":"gpustall.meta"}},{EVENT}]"#),
    ] {
        let outcome = read_bytes(&text).unwrap();
        assert_eq!(outcome.trace.slices.len(), 1, "{text}");
    }
}

#[test]
fn an_empty_list_in_an_object_is_a_trace_without_events() {
    let outcome = read_bytes(r#"{"schemaVersion":1,"traceEvents":[]}"#).unwrap();
    assert_eq!(outcome.warnings, [""; 0]);
    assert_eq!(
        (
            outcome.trace.event_count(),
            outcome.trace.meta.end.as_nanos()
        ),
        (0, 0)
    );
}

#[test]
fn impossible_events_are_left_out_and_counted() {
    let bad = [
        r#"{"ph":"X","name":"huge","ts":1e300,"dur":1}"#,
        r#"{"ph":"X","name":"huge","ts":99999999999999999999999,"dur":1}"#,
        r#"{"ph":"X","name":"huge","ts":1,"dur":1e30}"#,
        r#"{"ph":"X","name":"no number","ts":"soon","dur":1}"#,
        r#"{"ph":"X","name":"no number","ts":nan,"dur":1}"#,
        r#"{"ph":"X","name":"no number","ts":null,"dur":1}"#,
        r#"{"ph":"X","name":"no number","ts":[1],"dur":1}"#,
        r#"{"ph":"XX","name":"phase","ts":1,"dur":1}"#,
        r#"{"ph":7,"name":"phase","ts":1,"dur":1}"#,
        r#"{"name":"no phase","ts":1,"dur":1}"#,
        r#"{"ph":"M","name":"thread_name","args":{"name":null}}"#,
        r#"{"ph":"M","name":"thread_sort_index","args":[1]}"#,
        r#"{"ph" "X"}"#,
        r#"{"ph":"X",,"ts":1}"#,
        r#"{"ph":}"#,
        r#"{"ph":"X" "ts":1}"#,
        "{:}",
        "null",
        "[]",
        "\"text\"",
    ];
    let outcome = read_events(&format!("{},{EVENT}", bad.join(",")));
    let expected = format!("{} events could not be used and were left out", bad.len());
    assert_eq!(outcome.warnings, [expected]);
    assert_eq!(outcome.trace.slices.len(), 1);
}

#[test]
fn texts_that_are_no_utf_8_are_mended() {
    let mut text = b"[{\"ph\":\"i\",\"name\":\"\xff\xfe\",\"ts\":1},".to_vec();
    text.extend_from_slice(
        br#"{"ph":"i","name":"\ud800x","ts":1},{"ph":"i","name":"C:\dir","ts":1}]"#,
    );
    let outcome = read_bytes(text).unwrap();
    assert_eq!(
        outcome.warnings,
        ["3 texts are not valid; what could not be read in them was replaced"]
    );
    let names: Vec<_> = outcome
        .trace
        .instants
        .iter()
        .map(|i| outcome.trace.text(i.name))
        .collect();
    assert_eq!(names, ["\u{fffd}\u{fffd}", "\u{fffd}x", "C:\\dir"]);
}

#[test]
fn words_that_are_no_json_in_arguments_cost_only_the_argument() {
    let outcome = read_events(
        r#"{"ph":"X","cat":"gpu_memcpy","name":"c","pid":0,"tid":7,"ts":1,"dur":0,
        "args":{"bytes":64,"memory bandwidth (GB/s)":inf,"correlation":-nan(ind)}}"#,
    );
    assert_eq!(outcome.warnings, [""; 0]);
    let trace = outcome.trace;
    let keys: Vec<_> = trace.slices[0]
        .args
        .iter()
        .map(|&(k, _)| trace.text(k))
        .collect();
    assert_eq!(keys, ["device", "stream", "bytes"]);
}

#[test]
fn a_file_that_stops_being_json_gives_the_events_before_that() {
    for (tail, warning) in [
        ("", "the file is cut off; later events are missing"),
        (",", "the file is cut off; later events are missing"),
        (
            ",{\"ph\":\"X\",\"name\":\"b",
            "the file is cut off; later events are missing",
        ),
        (
            "}",
            "the file stops being JSON; events after that are missing",
        ),
        (
            ",:",
            "the file stops being JSON; events after that are missing",
        ),
        (
            "],\"a\" 1}",
            "the file stops being JSON; events after that are missing",
        ),
        ("],", "the file is cut off; later events are missing"),
    ] {
        let outcome = read_bytes(format!(r#"{{"traceEvents":[{EVENT}{tail}"#)).unwrap();
        assert_eq!(outcome.warnings, [warning], "{tail}");
        assert_eq!(outcome.trace.slices.len(), 1);
        assert_eq!(outcome.trace.meta.state, State::Partial);
    }
}

#[test]
fn commas_too_many_and_blanks_anywhere_are_no_fault() {
    let text = format!("\u{feff} {{ \"traceEvents\" : [ , {EVENT} ,, {EVENT} , ] , }} ");
    let outcome = read_bytes(text).unwrap();
    assert_eq!((outcome.warnings.len(), outcome.trace.slices.len()), (0, 2));
}

#[test]
fn deep_nesting_costs_no_stack() {
    let deep = format!("{}{}", "[{\"a\":".repeat(1_000_000), "}]".repeat(1_000_000));
    let text = format!(
        r#"{{"deep":{deep},"traceEvents":[{EVENT},
        {{"ph":"i","name":"b","ts":2,"args":{{"deep":{deep},"bytes":1}},"more":{deep}}},{deep}]}}"#
    );
    let outcome = read_bytes(text).unwrap();
    assert_eq!(outcome.trace.slices.len() + outcome.trace.instants.len(), 2);
    assert_eq!(
        outcome.warnings,
        ["1 events could not be used and were left out"]
    );
    let open = format!("[{EVENT},{}", "[".repeat(5_000_000));
    assert!(read_bytes(open).unwrap().warnings[0].contains("cut off"));
}

#[test]
fn an_event_without_end_does_not_take_memory_without_end() {
    // Some hundred kilobytes that become 250 megabytes.
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    write!(zip, "[{EVENT},{{\"ph\":\"X\",\"name\":\"").unwrap();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..250 {
        zip.write_all(&part).unwrap();
    }
    write!(zip, "\",\"ts\":1,\"dur\":1}},{EVENT}]").unwrap();
    let before = peak_rss_bytes();
    let outcome = read_bytes(zip.finish().unwrap()).unwrap();
    assert_eq!(outcome.trace.slices.len(), 2);
    assert_eq!(
        outcome.warnings,
        ["1 events could not be used and were left out"]
    );
    if let (Some(before), Some(after)) = (before, peak_rss_bytes()) {
        assert!(after - before < 120 << 20, "{} bytes more", after - before);
    }
}

/// Most memory that this process had so far, bytes; `None` where the system does not say.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_bytes_never_panic(
        gzip in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut text = format!(
            r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"H"}}],"traceEvents":[{EVENT},
            {{"ph":"s","id":1,"cat":"ac2g","name":"ac2g","pid":1,"tid":1,"ts":1}},{EVENT},
            {{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{{"name":"\u00e9"}}}},
            {{"ph":"C","name":"c","pid":1,"ts":1.5,"args":{{"value":-2e3}}}},
            {{"ph":"b","id2":{{"local":"0x1"}},"cat":"q","name":"c","pid":"Spans","ts":-1.5}},
            {{"ph":"B","name":"c","pid":1,"tid":"stream 7","ts":1.5}}],"traceName":"a.json"}}"#
        ).into_bytes();
        if gzip {
            let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
            zip.write_all(&text).unwrap();
            text = zip.finish().unwrap();
        }
        for (index, byte) in changes {
            let at = index.index(text.len());
            text[at] = byte;
        }
        if let Some(cut) = cut {
            text.truncate(cut.index(text.len()));
        }
        let _ = read_bytes(text);
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), first in 0..3usize) {
        bytes.insert(0, b"{[\x1f"[first]);
        let _ = read_bytes(bytes);
    }

    #[test]
    fn any_json_like_text_never_panics(text in r#"(\[|\{"traceEvents":\[)([{}\[\],:"\\0-9a-z. -]|"ph":"[XBECMsfbe]"|"ts":[0-9]|"args":\{){0,60}"#) {
        let _ = read_bytes(text);
    }
}
