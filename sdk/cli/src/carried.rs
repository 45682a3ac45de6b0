//! The report that a trace carries: what it says stands beside rules that may have changed since.

use crate::output::complain;
use gpustall_diagnose::{RULES, Report};
use gpustall_trace::Trace;
use serde_json::Value;

/// The report that `trace`, called `label`, carries, if the rules of this program made it. Of one that others
/// made, the user is told that the trace is diagnosed anew.
pub(crate) fn current(trace: &Trace, label: &str) -> Option<Report> {
    let carried = trace.report.as_ref()?;
    let rules = carried.get("rules").and_then(Value::as_str);
    if rules == Some(RULES) {
        return serde_json::from_value(carried.clone()).ok();
    }
    let made = match rules {
        Some(rules) if !rules.is_empty() => format!("by the rules {rules}"),
        _ => "by an earlier version".to_owned(),
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
