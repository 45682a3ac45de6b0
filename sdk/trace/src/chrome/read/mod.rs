//! Reading our own files.

mod array;
mod introduced;
mod line;
mod object;
mod rebuild;
pub(super) mod scan;
pub(super) mod source;

use crate::schema::TRACE_SCHEMA;
use crate::{ReadError, State, Trace};
use rebuild::Rebuild;
use source::{Form, damage_after, open, other};
use std::path::Path;

/// A trace that was read, and what the reader had to leave out.
#[derive(Debug, Clone)]
pub struct ReadOutcome {
    /// The trace.
    pub trace: Trace,
    /// Which program wrote the file.
    pub source: Source,
    /// What was damaged or missing, each one sentence.
    pub warnings: Vec<String>,
}

/// Which program wrote a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// gpustall itself.
    Gpustall,
    /// PyTorch's profiler, whose library is Kineto.
    Kineto,
    /// Another program that writes Chrome traces, such as the crate tracing-chrome.
    Chrome,
}

/// Reads a finished or partial file of ours, compressed or not; the contents decide, not the
/// name.
///
/// Of a damaged file it returns what can be had, and says in the warnings what is missing.
///
/// # Errors
///
/// [`ReadError`] when the file cannot be read, is not ours, or was written by a newer gpustall.
/// [`read_any`](crate::read_any) takes the files of other programs too.
pub fn read(path: &Path) -> Result<ReadOutcome, ReadError> {
    let mut source = open(path)?;
    match source.form {
        Form::Empty => Err(not_ours(path, "it is empty; the recording was not started")),
        Form::Other => Err(not_ours(path, other(&mut *source.text))),
        Form::Array => array(path, source),
        Form::Object => object(path, source),
    }
}

fn array(path: &Path, mut source: source::Opened) -> Result<ReadOutcome, ReadError> {
    let mut rebuild = Rebuild::default();
    let mut found =
        array::lines(&mut *source.text, &mut rebuild).map_err(|source| ReadError::Io {
            path: path.into(),
            source,
        })?;
    if rebuild.schema.is_none() && found.damaged > 0 {
        // Another program may have laid it out anew.
        rebuild = Rebuild::default();
        let (unusable, whole) = object::events(&mut *open(path)?.text, &mut rebuild);
        (found.damaged, found.cut) = (unusable, !whole);
    }
    check_schema(path, rebuild.schema.unwrap_or(0))?;
    if rebuild.schema.is_none() {
        let reason = "it is a list of events without the event that gpustall puts first";
        return Err(not_ours(path, reason));
    }
    let mut warnings = Vec::new();
    if found.torn {
        let how = if found.garbled { "damaged" } else { "cut off" };
        warnings.push(format!(
            "the compressed file is {how}; events after that are missing"
        ));
    }
    if found.cut {
        warnings.push("the last line is cut off and was left out".into());
    }
    if found.damaged > 0 {
        warnings.push(left_out(found.damaged, "line"));
    }
    Ok(outcome(rebuild.finish(false), warnings))
}

fn object(path: &Path, mut source: source::Opened) -> Result<ReadOutcome, ReadError> {
    let found = object::block(&mut *source.text);
    check_schema(path, found.schema)?;
    let mut warnings = Vec::new();
    if found.report_lost {
        warnings.push("the report in the file cannot be read; diagnose the trace again".into());
    }
    if found.unknown_chunks > 0 {
        let n = found.unknown_chunks;
        warnings.push(format!(
            "{n} parts that a newer gpustall wrote were left out"
        ));
    }
    if let Some(mut trace) = found.trace {
        warnings.extend(found.damage.map(|d| format!("after the trace, {d}")));
        warnings.extend(damage_after(&mut *source.text));
        trace.sort();
        return Ok(outcome(trace, warnings));
    }
    let damage = found.damage.unwrap_or_default();
    if !found.ours {
        let reason = match found.events {
            true => format!("it is a Chrome trace of another program ({damage})"),
            false => format!("it is JSON without a list of events ({damage})"),
        };
        return Err(not_ours(path, &reason));
    }
    let mut rebuild = Rebuild::default();
    let (unusable, complete) = object::events(&mut *open(path)?.text, &mut rebuild);
    check_schema(path, rebuild.schema.unwrap_or(0))?;
    warnings.push(format!(
        "the lossless block is damaged ({damage}); the trace was put together from the events \
         for viewers, without its report"
    ));
    if !complete {
        warnings.push("its list cannot be read to the end; later events are missing".into());
    }
    if unusable > 0 {
        warnings.push(left_out(unusable, "event"));
    }
    let mut trace = rebuild.finish(complete);
    if !complete {
        trace.meta.state = State::Partial;
    }
    Ok(outcome(trace, warnings))
}

fn outcome(trace: Trace, warnings: Vec<String>) -> ReadOutcome {
    ReadOutcome {
        trace,
        source: Source::Gpustall,
        warnings,
    }
}

/// So many damaged ones of a kind.
fn left_out(count: u64, kind: &str) -> String {
    match count {
        1 => format!("1 damaged {kind} was left out"),
        n => format!("{n} damaged {kind}s were left out"),
    }
}

fn check_schema(path: &Path, found: u32) -> Result<(), ReadError> {
    if found <= TRACE_SCHEMA {
        return Ok(());
    }
    Err(ReadError::Newer {
        path: path.into(),
        found,
        supported: TRACE_SCHEMA,
    })
}

fn not_ours(path: &Path, reason: &str) -> ReadError {
    ReadError::NotOurs {
        path: path.into(),
        reason: reason.into(),
    }
}
