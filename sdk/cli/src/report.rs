//! `gpustall report`.

use crate::args::ReportArgs;
use crate::output::{complain, print};
use gpustall_diagnose::{REPORT_SCHEMA, Report, diagnose};
use gpustall_trace::{ReadError, Trace, read_any};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Reports each trace, and goes on when one cannot be read.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let several = args.traces.len() > 1;
    let mut code = ExitCode::SUCCESS;
    let mut list = Vec::new();
    for (i, path) in args.traces.iter().enumerate() {
        let report = match report(path, args.fresh) {
            Ok(report) => report,
            Err(error) => {
                complain("error", &error.to_string());
                code = ExitCode::FAILURE;
                continue;
            }
        };
        match (args.json, several) {
            (true, true) => {
                list.push(json!({ "trace": path.display().to_string(), "report": report }))
            }
            (true, false) => print(&serde_json::to_string_pretty(&report)?)?,
            (false, true) => {
                let gap = if i == 0 { "" } else { "\n" };
                print(&format!("{gap}==> {} <==\n{report}", path.display()))?;
            }
            (false, false) => print(&report.to_string())?,
        }
    }
    if args.json && several {
        print(&serde_json::to_string_pretty(&Value::Array(list))?)?;
    }
    Ok(code)
}

/// The report that the trace carries, if it has one and this build understands it; else a new
/// one.
fn report(path: &Path, fresh: bool) -> Result<Report, ReadError> {
    let outcome = read_any(path)?;
    if !fresh && let Some(report) = carried(&outcome.trace) {
        for warning in &outcome.warnings {
            complain("warning", &format!("{}: {warning}", path.display()));
        }
        return Ok(report);
    }
    let mut report = diagnose(&outcome.trace);
    report.notes.extend(
        outcome
            .warnings
            .iter()
            .map(|warning| format!("In the file, {warning}.")),
    );
    Ok(report)
}

fn carried(trace: &Trace) -> Option<Report> {
    let report = trace.report.as_ref()?;
    let schema = report.get("schema").and_then(Value::as_u64);
    if schema != Some(u64::from(REPORT_SCHEMA)) {
        return None;
    }
    serde_json::from_value(report.clone()).ok()
}
