//! `gpustall finish`.

use crate::args::FinishArgs;
use crate::output::{complain, print};
use crate::place::{refuse_folder, refuse_taken};
use anyhow::{Context, anyhow, bail};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::{State, Trace, WriteError, read, write_finished};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes the finished trace and says what it shows.
pub(crate) fn run(args: &FinishArgs) -> anyhow::Result<ExitCode> {
    fs::metadata(&args.partial)
        .with_context(|| format!("cannot read {}", args.partial.display()))?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => beside(&args.partial)?,
    };
    if same(&args.partial, &output) {
        bail!(
            "{} is the partial trace itself; say another place for the finished one with -o",
            output.display()
        );
    }
    refuse_folder(&output)?;
    refuse_taken(&output, args.force)?;
    if args.partial.is_dir() {
        let mut trace = crate::run::trace_of_parts(&args.partial)?;
        return written(&mut trace, &output);
    }
    let outcome = read(&args.partial)?;
    let mut trace = outcome.trace;
    refuse_finished(&args.partial, &trace)?;
    for warning in &outcome.warnings {
        complain("warning", &format!("{}: {warning}", args.partial.display()));
    }
    trace.meta.notes.extend(
        outcome
            .warnings
            .iter()
            .map(|warning| format!("In the file, {warning}.")),
    );
    written(&mut trace, &output)
}

fn refuse_finished(path: &Path, trace: &Trace) -> anyhow::Result<()> {
    if trace.meta.state == State::Finished {
        bail!(
            "{0} is finished already: `gpustall report {0}` and `gpustall open {0}` take it",
            path.display()
        );
    }
    Ok(())
}

fn written(trace: &mut Trace, output: &Path) -> anyhow::Result<ExitCode> {
    let report = diagnose(trace);
    annotate(trace, &report);
    write_finished(output, trace).map_err(unwritten)?;
    print(&format!("{report}\n\ntrace: {}", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether both are one file, whatever the ways to it.
pub(crate) fn same(partial: &Path, output: &Path) -> bool {
    match (partial.canonicalize(), output.canonicalize()) {
        (Ok(partial), Ok(output)) => partial == output,
        // A file that is not there is not the other one.
        _ => false,
    }
}

/// Why the finished trace was not written, in the words of this command.
pub(crate) fn unwritten(error: WriteError) -> anyhow::Error {
    let elsewhere = "choose another place with -o";
    match error {
        WriteError::Create { path, source } => {
            anyhow!(
                "cannot create the trace file {}: {source}; {elsewhere}",
                path.display()
            )
        }
        WriteError::NoDirectory { path, directory } => anyhow!(
            "cannot create the trace file {}: there is no directory {}; make it, or {elsewhere}",
            path.display(),
            directory.display()
        ),
        WriteError::Busy { path } => anyhow!(
            "a recording writes to {}; wait until it ends, or {elsewhere}",
            path.display()
        ),
        WriteError::Write { path, source } => anyhow!(
            "cannot write the trace file {}: {source}; what it was made from is kept",
            path.display()
        ),
        other => other.into(),
    }
}

/// Where the finished trace goes by default: `x.json.gz` for `x.json.partial`.
fn beside(partial: &Path) -> anyhow::Result<PathBuf> {
    let is = |kind: &str| partial.extension().is_some_and(|of| of == kind);
    let parts = partial.is_dir() && is("parts");
    let is_partial = is("partial") || parts;
    let mut name = if parts {
        // `x.trace.parts` is what is left of `x.trace.json.gz`.
        partial.with_extension("json")
    } else if is_partial {
        partial.with_extension("")
    } else {
        partial.to_path_buf()
    }
    .into_os_string();
    name.push(".gz");
    let output = PathBuf::from(name);
    if !is_partial && !partial.is_dir() {
        refuse_finished(partial, &read(partial)?.trace)?;
    }
    if !is_partial {
        bail!(
            "{} is no good name for it; say where the finished trace goes with -o",
            output.display()
        );
    }
    Ok(output)
}
