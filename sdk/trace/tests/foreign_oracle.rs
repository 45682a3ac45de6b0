//! Random traces such as PyTorch writes are read as a simple reader reads them, which keeps the
//! whole file as `serde_json::Value` and knows nothing of the crate's code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
mod oracle;

use oracle::{event, lines, oracle};
use proptest::prelude::*;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn random_traces_are_read_as_the_simple_reader_reads_them(
        events in prop::collection::vec(event(), 1..40), pretty in any::<bool>(),
    ) {
        let file = json!({"schemaVersion": 1, "traceEvents": events, "traceName": "t"});
        let text = match pretty {
            true => serde_json::to_string_pretty(&file).unwrap(),
            false => file.to_string(),
        };
        let again: Value = serde_json::from_str(&text).unwrap();
        let outcome = foreign::read_bytes(&text);
        // Only counters without a number, and kinds that are passed over.
        if let Ok(outcome) = outcome {
            prop_assert_eq!(lines(&outcome.trace), oracle(again["traceEvents"].as_array().unwrap()));
            prop_assert!(outcome.trace.meta.end >= outcome.trace.slices.iter().map(|s| s.span.end).max().unwrap_or_default());
        } else {
            prop_assert!(events.iter().all(|e| e["ph"] == "C"));
        }
    }
}
