//! `gpustall finish`.

use crate::args::FinishArgs;
use crate::output::{complain, print};
use anyhow::{Context, bail};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::{State, read, write_finished};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes the finished trace and says what it shows.
pub(crate) fn run(args: &FinishArgs) -> anyhow::Result<ExitCode> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.partial)?,
    };
    let outcome = read(&args.partial)?;
    let mut trace = outcome.trace;
    if trace.meta.state == State::Finished {
        bail!("{} is finished already", args.partial.display());
    }
    for warning in &outcome.warnings {
        complain("warning", &format!("{}: {warning}", args.partial.display()));
    }
    trace.meta.notes.extend(
        outcome
            .warnings
            .iter()
            .map(|warning| format!("In the file, {warning}.")),
    );
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    write_finished(&output, &trace)?;
    print(&format!("{report}\n\ntrace: {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Where the finished trace goes by default: `x.json.gz` for `x.json.partial`. It must not be
/// there yet.
fn beside(partial: &Path) -> anyhow::Result<PathBuf> {
    let is_partial = partial
        .extension()
        .is_some_and(|extension| extension == "partial");
    let mut name = if is_partial {
        partial.with_extension("")
    } else {
        partial.to_path_buf()
    }
    .into_os_string();
    name.push(".gz");
    let output = PathBuf::from(name);
    let exists = output
        .try_exists()
        .with_context(|| format!("cannot look for {}", output.display()))?;
    if !is_partial || exists {
        let why = if exists {
            "is there already"
        } else {
            "is no good name for it"
        };
        bail!(
            "{} {why}; say where the finished trace goes with -o",
            output.display()
        );
    }
    Ok(output)
}
