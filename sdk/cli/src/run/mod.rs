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
use crate::place::{keep_earlier, refuse_folder, refuse_taken};
use anyhow::Context;
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::{MonoTime, MonotonicClock, write_finished};
use parts::Parts;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use left::{is_parts, trace as trace_of_parts};
pub(crate) use sidecar::NOT_RECORDED;
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
    refuse_folder(&output)?;
    if args.output.is_some() {
        refuse_taken(&output, args.force)?;
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
    let known = left::Job {
        name,
        pid: job.pid(),
        start: start.as_nanos(),
    };
    known.leave(parts.folder());
    let mut beside = sidecar::start(usable, job.pid(), &parts);
    let counters = counters::start(&parts, job.pid(), start);
    job.go_on(|| beside.is_over());
    let ended = Ended {
        code: job.wait(&parts)?,
        at: MonotonicClock::read(),
    };
    counters.finish();
    let mut notes = Vec::new();
    notes.extend(beside.finish());
    if start::was_refused(parts.folder()) {
        // It said why itself. There is nothing to report on.
        parts.remove();
        return Ok(ExitCode::from(ended.code));
    }
    notes.extend(hook.absent(args));
    // Whatever happens from here on, the job's own end is what the caller gets to see.
    if let Err(error) = report(&parts, &known, (ended, notes), &output, args.force) {
        complain("error", &crate::output::describe(&error));
        complain("note", &what_is_left(parts.folder(), &known));
    } else {
        parts.remove();
    }
    Ok(ExitCode::from(ended.code))
}

/// The end of the job.
#[derive(Clone, Copy)]
struct Ended {
    code: u8,
    at: MonoTime,
}

/// What there still is of a recording of which no trace was made, and what to do with it.
fn what_is_left(parts: &Path, job: &left::Job) -> String {
    if !parts.is_dir() {
        return format!(
            "the job removed {}, and with it what was recorded",
            parts.display()
        );
    }
    if !is_parts(parts) {
        // The job removed that file.
        job.leave(parts);
    }
    format!(
        "what was recorded is kept in {0}; `gpustall finish {0} -o TRACE` makes a trace of it",
        parts.display()
    )
}

/// Writes the trace, and says what it shows.
fn report(
    parts: &Parts,
    job: &left::Job,
    (ended, notes): (Ended, Vec<String>),
    output: &Path,
    force: bool,
) -> anyhow::Result<()> {
    let start = MonoTime::from_nanos(job.start);
    let mut trace = parts.join(&job.name, (job.pid, Some(ended.code)), (start, ended.at))?;
    // What was recorded until the recorders ended too is no time of the job.
    let end = ended.at.in_trace(trace.meta.start_mono);
    trace.meta.end = trace.meta.end.min(end);
    trace.meta.notes.extend(notes);
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    // Of a run before, or written by the job meanwhile.
    let kept = match force {
        true => None,
        false => keep_earlier(output).with_context(|| {
            format!("cannot give the earlier {} another name", output.display())
        })?,
    };
    let written = write_finished(output, &trace);
    let text = format!(
        "{report}\n\ntrace: {0} (show it: gpustall open {0})",
        output.display()
    );
    // The trace is written: that nobody reads what is printed takes nothing away.
    if written.is_ok()
        && let Err(error) = print(&text)
    {
        complain("note", &format!("the report could not be printed: {error}"));
    }
    if let Some(kept) = kept {
        let (earlier, kept) = (output.display(), kept.display());
        complain("note", &format!("the earlier {earlier} is now {kept}"));
    }
    written.with_context(|| format!("cannot write {}", output.display()))?;
    Ok(())
}
