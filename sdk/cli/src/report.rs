//! `gpustall report`.

use crate::args::ReportArgs;
use crate::carried;
use crate::input::read_trace;
use crate::jobs::{self, groups};
use crate::output::{complain, describe, print};
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::{Part, Trace, merge_job};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// A report, and the traces that it is of.
struct Told {
    paths: Vec<String>,
    /// The ranks that several traces are of, in words.
    ranks: String,
    report: Report,
}

/// A trace of a rank, which waits for those of the others.
struct Held {
    /// Position of its place in the list of reports.
    at: usize,
    part: Part,
    warnings: Vec<String>,
}

/// Reports each trace, those of the ranks of one job together, and goes on when one cannot be read.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let several = args.traces.len() > 1;
    let mut told: Vec<Option<Told>> = Vec::new();
    let mut held: Vec<Held> = Vec::new();
    for path in &args.traces {
        let outcome = match read_trace(path) {
            Ok(outcome) => outcome,
            Err(error) => {
                complain("error", &describe(&error));
                code = ExitCode::FAILURE;
                continue;
            }
        };
        let warnings = outcome.warnings.iter().map(ToString::to_string).collect();
        let label = path.display().to_string();
        let trace = outcome.trace;
        let at = told.len();
        if several && !jobs::ranks(&trace).is_empty() {
            let part = Part { label, trace };
            held.push(Held { at, part, warnings });
            told.push(None);
        } else {
            told.push(Some(alone(path, &trace, &warnings, args.fresh)));
        }
    }
    for (at, report) in of_jobs(held, args.fresh) {
        if let Some(place) = told.get_mut(at) {
            *place = Some(report);
        }
    }
    let told: Vec<Told> = told.into_iter().flatten().collect();
    show(&told, args.json, several)?;
    Ok(code)
}

/// The reports on traces of ranks, each with its place: that of its first trace.
fn of_jobs(held: Vec<Held>, fresh: bool) -> Vec<(usize, Told)> {
    let traces: Vec<&Trace> = held.iter().map(|held| &held.part.trace).collect();
    let groups = groups(&traces);
    let mut held: Vec<Option<Held>> = held.into_iter().map(Some).collect();
    let mut told = Vec::new();
    for group in groups {
        let mut ranks: Vec<Held> = (group.iter())
            .filter_map(|&at| held.get_mut(at)?.take())
            .collect();
        let Some(at) = ranks.first().map(|first| first.at) else {
            continue;
        };
        if let [Held { part, warnings, .. }] = ranks.as_slice() {
            let report = alone(Path::new(&part.label), &part.trace, warnings, fresh);
            told.push((at, report));
            continue;
        }
        ranks.sort_by_key(|held| jobs::ranks(&held.part.trace).first().map(|of| of.rank));
        told.push((at, together(ranks)));
    }
    told
}

fn together(held: Vec<Held>) -> Told {
    let mut numbers: Vec<u32> = Vec::new();
    let mut size = 0;
    let mut notes = Vec::new();
    for Held { part, warnings, .. } in &held {
        let ranks = jobs::ranks(&part.trace);
        numbers.extend(ranks.iter().map(|of| of.rank));
        size = ranks.iter().map(|of| of.world_size).max().unwrap_or(size);
        let of_file = warnings.iter().map(|w| format!("In {}, {w}.", part.label));
        notes.extend(of_file);
    }
    numbers.sort_unstable();
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let paths = held.iter().map(|held| held.part.label.clone()).collect();
    let parts: Vec<Part> = held.into_iter().map(|held| held.part).collect();
    Told {
        paths,
        ranks: format!("ranks {} of {size}", numbers.join(", ")),
        report: of_parts(parts, notes),
    }
}

/// The report on traces that [`groups`] put together, all of which say when they were made.
fn of_parts(parts: Vec<Part>, mut notes: Vec<String>) -> Report {
    let names: Vec<&str> = parts
        .iter()
        .map(|part| part.trace.meta.name.as_str())
        .collect();
    let name = jobs::name(&names);
    let mut trace = match merge_job(parts) {
        Ok(trace) => trace,
        Err(error) => {
            notes.push(format!("The ranks could not be joined: {error}."));
            Trace::default()
        }
    };
    trace.meta.name = name;
    let mut report = diagnose(&trace);
    report.notes.extend(notes);
    report
}

/// The report that the trace carries, if it has one and it was made by the rules of this build; else a new
/// one.
fn alone(path: &Path, trace: &Trace, warnings: &[String], fresh: bool) -> Told {
    let label = path.display().to_string();
    let carried = match fresh {
        true => None,
        false => carried::current(trace, &label),
    };
    let report = match carried {
        Some(report) => {
            for warning in warnings {
                complain("warning", &format!("{label}: {warning}"));
            }
            report
        }
        None => {
            let mut report = diagnose(trace);
            let notes = warnings.iter().map(|of| format!("In the file, {of}."));
            report.notes.extend(notes);
            report
        }
    };
    Told {
        paths: vec![label],
        ranks: String::new(),
        report,
    }
}

fn show(told: &[Told], json: bool, several: bool) -> anyhow::Result<()> {
    if json && several {
        let one = |told: &Told| json!({ "trace": told.paths.first(), "traces": told.paths, "report": told.report });
        let list: Vec<Value> = told.iter().map(one).collect();
        return Ok(print(&serde_json::to_string_pretty(&list)?)?);
    }
    for (i, told) in told.iter().enumerate() {
        if json {
            print(&serde_json::to_string_pretty(&told.report)?)?;
        } else if several {
            let gap = if i == 0 { "" } else { "\n" };
            let ranks = match told.ranks.as_str() {
                "" => String::new(),
                ranks => format!(" ({ranks})"),
            };
            print(&format!(
                "{gap}==> {}{ranks} <==\n{}",
                told.paths.join(" "),
                told.report
            ))?;
        } else {
            print(&told.report.to_string())?;
        }
    }
    Ok(())
}
