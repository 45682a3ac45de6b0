//! The report that a trace carries: what it says stands beside rules that may have changed since.

use crate::output::{clean, complain};
use gpustall_diagnose::{RULES, Report};
use gpustall_trace::Trace;
use serde_json::Value;

/// Characters of what a file calls its rules that are told.
const MOST: usize = 40;

/// The report that `trace`, called `label`, carries, if the rules of this program made it. Of one that others
/// made, the user is told that the trace is diagnosed anew.
pub(crate) fn current(trace: &Trace, label: &str) -> Option<Report> {
    let carried = trace.report.as_ref()?;
    let rules = carried.get("rules").and_then(Value::as_str);
    if rules == Some(RULES) {
        let read = serde_json::from_value(carried.clone());
        return read
            .inspect_err(|_| {
                complain(
                    "note",
                    &format!(
                        "{label}: the report in it cannot be read, so the trace is diagnosed anew"
                    ),
                );
            })
            .ok();
    }
    let rules = rules.map(|rules| clean(rules, MOST)).unwrap_or_default();
    let made = match rules.as_str() {
        "" => "by an earlier version".to_owned(),
        rules => format!("by the rules {rules}"),
    };
    complain(
        "note",
        &format!(
            "{label}: the report in it was made {made}; this gpustall has the rules {RULES}, so the trace \
             is diagnosed anew"
        ),
    );
    None
}
