//! The traces that a command is given.

use anyhow::bail;
use gpustall_trace::{ReadOutcome, read_any};
use std::path::Path;

/// Reads a trace, ours or another program's.
///
/// # Errors
///
/// When it is a folder or cannot be read. Of the folder that a cut-off run left, it says what to do.
pub(crate) fn read_trace(path: &Path) -> anyhow::Result<ReadOutcome> {
    if crate::run::is_parts(path) {
        bail!(
            "{0} is the folder of a run that goes on or was cut off; once it is over, \
             `gpustall finish {0}` makes a trace of it",
            path.display()
        );
    }
    if path.is_dir() {
        bail!("{} is a folder; name a trace in it", path.display());
    }
    Ok(read_any(path)?)
}
