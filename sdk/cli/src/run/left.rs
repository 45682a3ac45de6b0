//! Parts of a run that did not come to be one trace: the command was killed, or could not write it.

use super::parts::Parts;
use super::python;
use anyhow::Context;
use gpustall_trace::{MonoTime, MonotonicClock, Nanos, Trace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// What the file is called that says which job the parts are of.
const FILE: &str = "job.json";

/// The job, as the command knew it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) pid: u32,
    /// When it began, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) start: u64,
}

impl Job {
    /// Leaves it with the parts. Without it they can only be read one by one.
    pub(super) fn leave(&self, parts: &Path) {
        let text = serde_json::to_string(self).unwrap_or_default();
        let _ = fs::write(parts.join(FILE), text);
    }
}

/// Whether `path` is a folder of parts.
pub(crate) fn is_parts(path: &Path) -> bool {
    path.join(FILE).is_file()
}

/// One trace of the parts in `folder`.
///
/// # Errors
///
/// When the folder is not of `gpustall run`, or cannot be read.
pub(crate) fn trace(folder: &Path) -> anyhow::Result<Trace> {
    let path = folder.join(FILE);
    let of_run = || {
        format!(
            "{} is no folder of parts that `gpustall run` left: cannot read {}",
            folder.display(),
            path.display()
        )
    };
    let text = fs::read_to_string(&path).with_context(of_run)?;
    let job: Job = serde_json::from_str(&text).with_context(of_run)?;
    let start = MonoTime::from_nanos(job.start);
    Parts::left(folder).join(&job.name, (job.pid, None), (start, last_recorded(folder)))
}

/// When something was recorded there last, which is about when the recording ended.
fn last_recorded(folder: &Path) -> MonoTime {
    let written = last_written(folder);
    python::latest(folder).map_or(written, |marked| marked.max(written))
}

/// When a file there was written last.
fn last_written(folder: &Path) -> MonoTime {
    let now = MonotonicClock::read();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let changed = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let ago = changed
        .max()
        .and_then(|last| SystemTime::now().duration_since(last).ok());
    let ago = ago.map_or(Nanos::ZERO, |ago| Nanos::new(ago.as_nanos() as u64));
    MonoTime::from_nanos(now.as_nanos().saturating_sub(ago.get()))
}
