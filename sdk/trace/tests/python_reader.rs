//! The Python reader of `docs/` understands the block. Skipped where there is no `python3`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{State, TraceTime, Value, write_finished};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::Value as Json;
use std::process::Command;

#[test]
fn the_python_reader_of_the_documentation_sees_the_same_slices() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/read_trace.py");
    if !std::fs::exists(script).unwrap() || Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::deterministic();
    for name in ["a.json", "b.json.gz", "c.json", "d.json.gz"] {
        let mut trace = sample::any_trace().new_tree(&mut runner).unwrap().current();
        trace.meta.state = State::Finished;
        let path = directory.path().join(name);
        write_finished(&path, &trace).unwrap();
        let output = Command::new("python3")
            .arg(script)
            .arg(&path)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines = String::from_utf8(output.stdout).unwrap();
        // Python writes NaN and infinities, which are no JSON.
        let lines = lines.replace("NaN", "null").replace("-Infinity", "null");
        let rows: Vec<Json> = lines
            .replace("Infinity", "null")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let kind = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!(kind("instants"), trace.instants.len());
        assert_eq!(kind("counters"), trace.counters.len());
        assert_eq!(kind("async_slices"), trace.async_slices.len());
        assert_eq!(kind("losses"), trace.losses.len());
        let slices = rows.iter().filter(|row| row["kind"] == "slices");
        assert_eq!(slices.clone().count(), trace.slices.len());
        for (row, slice) in slices.zip(&trace.slices) {
            assert_eq!(row["start"].as_u64().unwrap(), slice.span.start.as_nanos());
            assert_eq!(row["dur"].as_u64().unwrap(), slice.span.len().get());
            for (arg, (_, value)) in row["args"].as_array().unwrap().iter().zip(&slice.args) {
                match *value {
                    Value::U64(v) => assert_eq!(arg[1].as_u64(), Some(v)),
                    Value::I64(v) => assert_eq!(arg[1].as_i64(), Some(v)),
                    Value::Bool(v) => assert_eq!(arg[1].as_bool(), Some(v)),
                    _ => {}
                }
            }
        }
        let flows = rows.iter().filter(|row| row["kind"] == "flows");
        for (row, flow) in flows.zip(&trace.flows) {
            assert_eq!(row["id"].as_u64(), Some(flow.id));
            let arrives = TraceTime::from_nanos(row["arrives"].as_u64().unwrap());
            assert_eq!(arrives, flow.to.at);
        }
    }
}
