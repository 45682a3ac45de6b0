//! What is written is what is read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{read, write_finished};
use proptest::prelude::*;
use sample::{any_trace, as_partial, canonical, write_partial};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_finished_file_reads_back_as_the_trace(mut trace in any_trace(), gzip in any::<bool>()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(if gzip { "t.json.gz" } else { "t.json" });
        let stats = write_finished(&path, &trace).unwrap();
        prop_assert_eq!(stats.bytes, path.metadata().unwrap().len());
        let outcome = read(&path).unwrap();
        prop_assert_eq!(&outcome.warnings, &Vec::<String>::new());
        trace.sort();
        prop_assert_eq!(canonical(&outcome.trace), canonical(&trace));
        let series = |t: &gpustall_trace::Trace| {
            let text = |s: &gpustall_trace::CounterSeries| (s.pid, t.text(s.name).to_owned());
            t.counter_series.iter().map(text).collect::<Vec<_>>()
        };
        prop_assert_eq!(series(&outcome.trace), series(&trace));
    }

    #[test]
    fn a_partial_file_reads_back_as_the_events_that_were_pushed(trace in any_trace()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.json.partial");
        let writer = write_partial(&path, &trace);
        prop_assert_eq!(writer.events_lost(), 0);
        let outcome = read(&path).unwrap();
        prop_assert_eq!(&outcome.warnings, &Vec::<String>::new());
        prop_assert_eq!(canonical(&outcome.trace), canonical(&as_partial(trace)));
    }

    #[test]
    fn both_forms_are_json(trace in any_trace()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.json");
        write_finished(&path, &trace).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert!(json["traceEvents"].is_array());
        // Perfetto refuses a file with nothing but blanks after a piece of 32 MiB.
        prop_assert_eq!(text.chars().last(), Some('}'));
        prop_assert_eq!(json["gpustall"].get("report"), trace.report.as_ref());

        let path = directory.path().join("t.json.partial");
        write_partial(&path, &trace);
        let text = std::fs::read_to_string(&path).unwrap();
        let closed = format!("{}]", text.strip_suffix(",\n").unwrap());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&closed).unwrap().is_array());
    }
}
