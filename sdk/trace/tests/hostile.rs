//! Files that are not what they seem: an error that says what to do, or a part with warnings.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{ReadError, ReadOutcome, State, TRACE_SCHEMA, read, write_finished};
use proptest::prelude::*;
use sample::{any_trace, canonical, write_partial};
use std::fs;

fn read_bytes(bytes: impl AsRef<[u8]>) -> Result<ReadOutcome, ReadError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    fs::write(&path, bytes).unwrap();
    read(&path)
}

const META: &str = r#"{"ph":"M","name":"gpustall.meta","args":{"schema":1,"meta":{}}}"#;

#[test]
fn what_is_not_ours_is_refused_and_named() {
    let kineto = r#"{"schemaVersion":1,"traceEvents":[{"ph":"X","ts":1,"dur":1,"name":"a"}]}"#;
    for (bytes, reason) in [
        (&b""[..], "empty"),
        (b" \n\t", "empty"),
        (b"hello", "not JSON"),
        (b"\x7fELF\x02", "not JSON"),
        (b"\x1f\x8bgarbage", "empty"),
        (kineto.as_bytes(), "another program"),
        (b"{\"a\":1}", "without a list of events"),
        (b"{", "without a list of events"),
        (b"{]", "without a list of events"),
        (b"[]", "without the event that gpustall puts first"),
        (
            b"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"pid\":1,\"tid\":1,\"name\":\"a\"}]",
            "without",
        ),
        (b"[1,2,3]", "without"),
    ] {
        let error = read_bytes(bytes).unwrap_err();
        assert!(matches!(error, ReadError::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_directory_or_a_missing_file_is_an_io_error() {
    let directory = tempfile::tempdir().unwrap();
    for path in [
        directory.path().to_path_buf(),
        directory.path().join("missing"),
    ] {
        assert!(matches!(read(&path), Err(ReadError::Io { .. })));
    }
}

#[test]
fn a_newer_schema_asks_for_an_update() {
    let newer = TRACE_SCHEMA + 1;
    for text in [
        format!("[\n{}", META.replace(":1,", &format!(":{newer},"))),
        format!(r#"{{"otherData":{{"producer":"gpustall","schema":{newer}}},"traceEvents":[]}}"#),
        format!(r#"{{"traceEvents":[],"gpustall":{{"schema":{newer},"chunks":[{{"a":1}}]}}}}"#),
    ] {
        let error = read_bytes(&text).unwrap_err();
        assert!(
            matches!(error, ReadError::Newer { found, .. } if found == newer),
            "{error}"
        );
        assert!(error.to_string().contains("update gpustall"));
    }
}

#[test]
fn events_with_impossible_parts_are_left_out_and_counted() {
    let bad = [
        r#"{"ph":"X","pid":1,"tid":1,"ts":-5.000,"dur":1.000,"name":"negative"}"#,
        r#"{"ph":"X","pid":1,"tid":1,"ts":1e300,"dur":1.000,"name":"huge"}"#,
        r#"{"ph":"X","pid":1,"tid":1,"ts":99999999999999999999,"dur":0,"name":"huge"}"#,
        r#"{"ph":"X","pid":-1,"tid":1,"ts":1.000,"dur":1.000,"name":"pid"}"#,
        r#"{"ph":"X","pid":1,"tid":99999999999,"ts":1.000,"dur":1.000,"name":"tid"}"#,
        r#"{"ph":"X","pid":1,"tid":1,"ts":1.000,"name":"no length"}"#,
        r#"{"ph":"f","pid":1,"tid":1,"ts":1.000,"id":1,"name":"no start"}"#,
        r#"{"ph":"e","pid":1,"ts":1.000,"id2":{"local":"0x1"},"name":"no start"}"#,
        r#"{"ph":"C","pid":1,"ts":1.000,"name":"no value","args":{"value":null}}"#,
        r#"{"ph":"?","pid":1,"ts":1.000}"#,
        r#"{"ph":"X","name":"\ud800"}"#,
        "null",
    ];
    let good = r#"{"ph":"X","pid":1,"tid":1,"ts":18446744073709551.615,"dur":9.000,"name":"end"}"#;
    let text = format!("[\n{META},\n{},\n{good},\n", bad.join(",\n"));
    let outcome = read_bytes(text).unwrap();
    assert_eq!(
        outcome.warnings,
        [format!("{} damaged lines were left out", bad.len())]
    );
    assert_eq!(outcome.trace.slices.len(), 1);
    assert_eq!(outcome.trace.slices[0].span.end.as_nanos(), u64::MAX);
}

#[test]
fn a_checksum_that_does_not_fit_says_that_the_damage_may_be_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.gz");
    gpustall_trace::write_finished(&path, &gpustall_trace::Trace::default()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(read(&path).unwrap().warnings, Vec::<String>::new());
    let checksum = whole.len() - 8;
    let mut flipped = whole.clone();
    flipped[checksum] ^= 4;
    let anywhere = "the compressed file is damaged somewhere, as its checksum says: what was read of it may be wrong";
    let after = "the compressed file is damaged at its end, after the trace";
    for (bytes, told) in [
        (&flipped[..], anywhere),
        (&whole[..whole.len() - 3], after),
        (&[&whole[..], b"junk"].concat(), after),
    ] {
        assert_eq!(read_bytes(bytes).unwrap().warnings, [told]);
    }
}

#[test]
fn deep_nesting_costs_the_value_and_not_the_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let text = format!(
        r#"[{META},
        {{"ph":"i","pid":1,"tid":1,"ts":1.000,"name":"a","args":{{"deep":{deep},"b":1}}}},
        {{"ph":"i","pid":1,"tid":1,"ts":2.000,"name":"b","more":{deep}}}]"#
    );
    let outcome = read_bytes(text).unwrap();
    assert_eq!(outcome.trace.instants.len() + outcome.warnings.len(), 2);

    let text = block(r#"{"kind":"a"},{"kind":"a"},{"kind":"a"}"#);
    let text = text.replace(
        r#","chunk_count""#,
        &format!(r#","report":{deep},"chunk_count""#),
    );
    let outcome = read_bytes(text).unwrap();
    assert_eq!(outcome.trace.report, None);
    assert!(outcome.warnings[0].contains("report in the file cannot be read"));
}

/// Our block with these chunks and nothing for viewers.
fn block(chunks: &str) -> String {
    let count = 3;
    format!(
        r#"{{"otherData":{{"producer":"gpustall","schema":1}},"traceEvents":[{META}],
        "gpustall":{{"schema":1,"meta":{{}},"chunks":[{chunks}],"chunk_count":{count}}}}}"#
    )
}

#[test]
fn a_damaged_block_falls_back_to_the_events() {
    let strings = r#"{"kind":"strings","text":["a"]}"#;
    let tracks = r#"{"kind":"tracks","pid":[1],"tid":[1],"name":[0],"sort":[0],"synthetic":[0]}"#;
    let good = r#"{"kind":"slices","track":[0],"name":[0],"cat":[0],"start":[5],"dur":[1],
        "shape":[0],"shapes":[[]],"args":[]}"#;
    let whole = read_bytes(block(&format!("{strings},{tracks},{good}"))).unwrap();
    assert!(whole.warnings.is_empty(), "{:?}", whole.warnings);
    assert_eq!(whole.trace.slices.len(), 1);
    for (from, to) in [
        (r#""track":[0]"#, r#""track":[7]"#),
        (r#""track":[0]"#, r#""track":[4294967296]"#),
        (r#""name":[0],"cat""#, r#""name":[9],"cat""#),
        (r#""start":[5]"#, r#""start":[5,6]"#),
        (r#""start":[5]"#, r#""start":5"#),
        (r#""dur":[1]"#, r#""dur":[-1]"#),
        (r#""shape":[0]"#, r#""shape":[1]"#),
        (r#""shapes":[[]]"#, r#""shapes":[[0,0,0,0]]"#),
        (r#""args":[]"#, r#""args":[1]"#),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        let outcome = read_bytes(block(&format!("{strings},{tracks},{bad}"))).unwrap();
        assert!(
            outcome.warnings[0].contains("block is damaged"),
            "{:?}",
            outcome.warnings
        );
        assert!(outcome.trace.slices.is_empty());
    }
    let missing = read_bytes(block(&format!("{strings},{tracks}"))).unwrap();
    assert!(
        missing.warnings[0].contains("chunks of it are missing"),
        "{:?}",
        missing.warnings
    );
}

#[test]
fn parts_that_a_newer_version_added_are_left_out_with_a_warning() {
    let chunks = r#"{"kind":"strings","text":["a"],"more":[1]},
        {"kind":"stacks","frames":[[1,2],[3]]},{"kind":"losses"}"#;
    let outcome = read_bytes(block(chunks)).unwrap();
    assert_eq!(
        outcome.warnings,
        ["1 parts that a newer gpustall wrote were left out"]
    );
}

#[test]
fn a_text_without_an_end_does_not_take_memory_without_end() {
    let text = format!("[\n{META},\n{{\"name\":\"{}", "x".repeat(100 << 20));
    let outcome = read_bytes(text).unwrap();
    assert_eq!(
        outcome.warnings,
        ["the last line is cut off and was left out"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_finished_file_that_is_cut_gives_the_events_up_to_there(
        trace in any_trace(), gzip in any::<bool>(), share in 0.0..1.0f64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(if gzip { "t.json.gz" } else { "t.json" });
        write_finished(&path, &trace).unwrap();
        let bytes = fs::read(&path).unwrap();
        let length = (bytes.len() as f64 * share) as usize;
        fs::write(&path, &bytes[..length]).unwrap();
        match read(&path) {
            Ok(outcome) => {
                // Only the closing bracket may be missing without a loss.
                prop_assert!(!outcome.warnings.is_empty());
                prop_assert!(outcome.trace.event_count() <= trace.event_count());
            }
            Err(ReadError::NotOurs { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn without_its_block_a_file_is_put_together_from_the_events(mut trace in any_trace()) {
        trace.flows.clear();
        trace.report = None;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.json");
        write_finished(&path, &trace).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let at = text.rfind(",\n\"gpustall\":").unwrap();
        fs::write(&path, format!("{}}}", &text[..at])).unwrap();
        let outcome = read(&path).unwrap();
        prop_assert_eq!(outcome.warnings.len(), 1);
        prop_assert_eq!(outcome.trace.meta.state, State::Finished);
        trace.sort();
        prop_assert_eq!(canonical(&outcome.trace), canonical(&trace));
    }

    #[test]
    fn changed_bytes_never_panic(
        trace in any_trace(),
        form in 0..3usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(["t.json", "t.json.gz", "t.json.partial"][form]);
        if form == 2 {
            drop(write_partial(&path, &trace));
        } else {
            write_finished(&path, &trace).unwrap();
        }
        let mut bytes = fs::read(&path).unwrap();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        let _ = read(&path);
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), first in 0..3usize) {
        bytes.insert(0, b"{[\x1f"[first]);
        let _ = read_bytes(bytes);
    }
}

#[test]
fn a_file_that_another_program_laid_out_anew_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let trace = sample::skeleton(vec!["note".into()], [1, 2, 3], 4);
    write_finished(&path, &trace).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for text in [
        serde_json::to_string_pretty(&json).unwrap(),
        json.to_string(),
    ] {
        let outcome = read_bytes(text).unwrap();
        assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
        assert_eq!(canonical(&outcome.trace), canonical(&trace));
    }
    let list = serde_json::to_string_pretty(&json["traceEvents"]).unwrap();
    let outcome = read_bytes(list).unwrap();
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    assert_eq!(outcome.trace.tracks.len(), trace.tracks.len());
}
