//! `gpustall run`: a job that knows nothing of gpustall.

mod counters;
mod job;
mod left;
mod parts;
mod python;
mod sidecar;
mod start;

use crate::args::RunArgs;
use crate::output::{complain, print};
use anyhow::{Context, bail};
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::{MonotonicClock, write_finished};
use parts::Parts;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use left::{is_parts, trace as trace_of_parts};
pub(crate) use start::start;

/// What `gpustall run` exits with where the job did not run because of us, as env and timeout do.
pub(crate) const FAILED: u8 = 125;

/// Runs the job, and then says what was seen of it. The exit code is the job's.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let program = args.command.first().map_or(OsStr::new("job"), |word| word);
    let name = job::name(&args.command);
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.trace.json.gz")));
    if output.is_dir() {
        bail!("{} is a directory; name a file with -o", output.display());
    }
    let parts = Parts::create(&output)?;
    let library = parts.library().inspect_err(|_| parts.remove())?;
    let hook = python::Hook::install(args, parts.folder());
    let usable = sidecar::usable(args);
    let start = MonotonicClock::read();
    let mut job = match job::Job::start(args, &parts, &library, &hook, usable.is_ok()) {
        Ok(job) => job,
        Err(error) => {
            parts.remove();
            return Ok(start::refused(program, &error));
        }
    };
    let left = left::Job {
        name: name.clone(),
        pid: job.pid(),
        start: start.as_nanos(),
    };
    left.leave(parts.folder());
    let mut beside = sidecar::start(usable, job.pid(), &parts);
    let counters = counters::start(&parts, job.pid(), start);
    job.go_on(|| beside.is_over());
    let ended = job.wait(&parts)?;
    counters.finish();
    let mut notes = Vec::new();
    notes.extend(beside.finish());
    if start::was_refused(parts.folder()) {
        // It said why itself. There is nothing to report on.
        parts.remove();
        return Ok(ExitCode::from(ended));
    }
    notes.extend(hook.absent(args));
    // Whatever happens from here on, the job's own end is what the caller gets to see.
    if let Err(error) = report(&parts, &name, job.pid(), start, notes, &output) {
        complain("error", &crate::output::describe(&error));
        complain(
            "note",
            &format!(
                "what was recorded is kept in {0}; `gpustall finish {0} -o TRACE` makes a trace of it",
                parts.folder().display()
            ),
        );
    } else {
        parts.remove();
    }
    Ok(ExitCode::from(ended))
}

fn report(
    parts: &Parts,
    name: &str,
    pid: u32,
    start: gpustall_trace::MonoTime,
    notes: Vec<String>,
    output: &Path,
) -> anyhow::Result<()> {
    let mut trace = parts.join(name, pid, (start, MonotonicClock::read()))?;
    trace.meta.notes.extend(notes);
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    write_finished(output, &trace).with_context(|| format!("cannot write {}", output.display()))?;
    // The trace is written: that nobody reads what is printed takes nothing away.
    if let Err(error) = print(&format!(
        "{report}\n\ntrace: {0} (show it: gpustall open {0})",
        output.display()
    )) {
        complain("note", &format!("the report could not be printed: {error}"));
    }
    Ok(())
}
