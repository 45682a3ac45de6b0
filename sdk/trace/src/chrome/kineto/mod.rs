//! Reading the traces of other programs: PyTorch's profiler (Kineto), today's and up to 2021, and
//! whatever else writes Chrome JSON.
//!
//! The text is read in pieces of a megabyte; each event is parsed where it stands and only what
//! the diagnosis uses is kept. What is kept, and how it is named, is in `docs/trace-format.md`.

mod anchors;
mod category;
mod collect;
mod counters;
mod cursor;
mod event;
mod finish;
mod flows;
mod halves;
mod header;
mod kept;
mod lanes;
mod list;
mod metadata;
mod number;
mod processes;
mod text;
mod window;

pub use collect::FOREIGN_ROWS;

use super::read::source::{Form, open, other};
use super::read::{ReadOutcome, read};
use crate::ReadError;
use collect::Collector;
use header::Header;
use list::{Ending, Reader};
use std::path::Path;
use window::Window;

/// Reads a trace of any kind: ours as [`read`] does, PyTorch's, or another program's Chrome JSON,
/// compressed or not. The contents decide, not the name; [`ReadOutcome::source`] says what it is.
///
/// Of a damaged file it returns what can be had, and says in the warnings what is missing. A
/// foreign trace starts at its earliest event, and holds at most [`FOREIGN_ROWS`] events and
/// arguments.
///
/// # Errors
///
/// [`ReadError`] when the file cannot be read, is no trace, or was written by a newer gpustall.
pub fn read_any(path: &Path) -> Result<ReadOutcome, ReadError> {
    match foreign(path, true)? {
        Some(outcome) => Ok(outcome),
        None => match read(path) {
            // It only looks like ours.
            Err(ReadError::NotOurs { path: of, reason }) => {
                foreign(path, false)?.ok_or(ReadError::NotATrace { path: of, reason })
            }
            other => other,
        },
    }
}

/// Reads a trace of another program; `None` if the file is ours and `watch` says to look for that.
fn foreign(path: &Path, watch: bool) -> Result<Option<ReadOutcome>, ReadError> {
    let mut opened = open(path)?;
    let no_trace = |reason: &str| {
        Err(ReadError::NotATrace {
            path: path.into(),
            reason: reason.into(),
        })
    };
    let array = match opened.form {
        Form::Empty => return no_trace("it is empty"),
        Form::Other => return no_trace(other(&mut *opened.text)),
        Form::Array => true,
        Form::Object => false,
    };
    let mut reader = Reader {
        window: Window::new(opened.text),
        collector: Collector::default(),
        header: Header::default(),
        lists: 0,
        watch,
    };
    let ending = if array {
        reader.list()
    } else {
        reader.object()
    };
    let ending = ending.map_err(|source| ReadError::Io {
        path: path.into(),
        source,
    })?;
    let Reader {
        window,
        collector,
        header,
        lists,
        ..
    } = reader;
    let found = &collector.found;
    if ending == Ending::Ours {
        return Ok(None);
    }
    if lists == 0 {
        return no_trace(match ending {
            Ending::Cut => "it is cut off before its list of events",
            Ending::Garbled => "it is not JSON",
            _ => "it is JSON without a list of events",
        });
    }
    if found.used == 0 && (array || found.unusable > 0) {
        return no_trace("its list has no events");
    }
    let (unusable, without_length) = (found.unusable, found.without_length);
    let mended = collector.texts.mended;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let whole = ending == Ending::Whole;
    let finished = finish::finish(collector, header, &file, whole);

    let mut warnings: Vec<String> = Vec::new();
    match ending {
        Ending::Cut if window.torn.is_some() => warnings.push(
            "the compressed file is cut off or damaged; events after that are missing".into(),
        ),
        Ending::Cut => warnings.push("the file is cut off; later events are missing".into()),
        Ending::Garbled => {
            warnings.push("the file stops being JSON; events after that are missing".into());
        }
        Ending::Full => warnings.push(format!(
            "it has more than {FOREIGN_ROWS} events and arguments, or absurdly much text; the rest \
             was not read"
        )),
        Ending::Whole | Ending::Ours => warnings.extend(window.torn.map(str::to_owned)),
    }
    for (count, what) in [
        (unusable, "events could not be used and were left out"),
        (
            without_length,
            "slices have no length; they count as zero long",
        ),
        (
            finished.without_begin,
            "ends of slices have no begin and were left out",
        ),
        (
            mended,
            "texts are not valid; what could not be read in them was replaced",
        ),
    ] {
        if count > 0 {
            warnings.push(format!("{count} {what}"));
        }
    }
    Ok(Some(ReadOutcome {
        trace: finished.trace,
        source: finished.source,
        warnings,
    }))
}
