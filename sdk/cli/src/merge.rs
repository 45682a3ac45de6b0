//! `gpustall merge`.

use crate::args::MergeArgs;
use crate::finish::{same, unwritten};
use crate::input::read_trace;
use crate::jobs;
use crate::order;
use crate::output::{complain, print};
use crate::place::{refuse_folder, refuse_taken};
use crate::run::NOT_RECORDED;
use anyhow::bail;
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{MergeError, Part, Trace, merge, merge_job, write_finished};
use std::process::ExitCode;

/// Writes the merged trace and says what it shows.
pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let output = &args.output;
    if args.traces.iter().any(|trace| same(trace, output)) {
        bail!(
            "{} is one of the traces itself; say another place for the merged one with -o",
            output.display()
        );
    }
    refuse_folder(output)?;
    refuse_taken(output, args.force)?;
    for (i, second) in args.traces.iter().enumerate() {
        if let Some(first) = args.traces[..i].iter().find(|first| same(first, second)) {
            let (first, second) = (first.display().to_string(), second.display().to_string());
            return Err(MergeError::Same { first, second }.into());
        }
    }
    let mut parts = Vec::new();
    for path in &args.traces {
        let label = path.display().to_string();
        let mut outcome = read_trace(path)?;
        for warning in outcome.warnings {
            complain("warning", &format!("{label}: {warning}"));
            let note = format!("In {label}, {warning}.");
            outcome.trace.meta.notes.push(note);
        }
        let trace = outcome.trace;
        parts.push(Part { label, trace });
    }
    order::diagnosed_first(&mut parts);
    let traces = parts.iter().map(|part| &part.trace);
    let of_ranks: Vec<&Trace> = traces
        .filter(|trace| !jobs::ranks(trace).is_empty())
        .collect();
    let ranks = of_ranks.len() > 1 && jobs::groups(&of_ranks).len() == 1;
    let mut trace = match ranks {
        true => merge_job(parts)?,
        false => merge(parts)?,
    };
    if trace.strings.find(cat::OFF_CPU).is_some() {
        // It stands in another one of them.
        trace
            .meta
            .notes
            .retain(|note| !note.starts_with(NOT_RECORDED));
    }
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    write_finished(output, &trace).map_err(unwritten)?;
    print(&format!("{report}\n\ntrace: {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}
