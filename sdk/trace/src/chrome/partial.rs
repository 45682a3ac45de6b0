//! The crash-safe file that grows while a job runs.

use super::claim::{self, Claim};
use super::encode;
use super::forked::NotInChildren;
use super::introduce;
use super::stream::Stream;
use crate::{EventRef, Meta, Pid, WriteError};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes of events that wait in memory at most; a full buffer is written without being asked.
pub const PARTIAL_BUFFER_BYTES: usize = 4 << 20;

/// Appends events to a file in the array form of Chrome JSON, one event a line.
///
/// Whatever ends the process, the file holds every event that was flushed, opens in Perfetto and
/// is read by [`read`](crate::read). When the file cannot be written any more (a full disk), it
/// is left ending on a whole event; from then on events are only counted.
///
/// ```
/// use gpustall_trace::{EventRef, Meta, PartialWriter, Pid, partial_path, read};
/// # let directory = tempfile::tempdir()?;
/// # let finished = directory.path().join("mlp.trace.json.gz");
/// let path = partial_path(&finished);
/// let mut writer = PartialWriter::create(&path, &Meta::default())?;
/// writer.push(&EventRef::Process { pid: Pid(7), name: "trainer", sort: 0 });
/// writer.flush()?;
/// assert_eq!(read(&path)?.trace.processes.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PartialWriter {
    path: PathBuf,
    kept: Option<PathBuf>,
    owner: Pid,
    /// Before the file: dropped before it is closed.
    _not_in_children: NotInChildren,
    stream: Stream<File>,
}

impl PartialWriter {
    /// Creates the file at `path` and writes the recording's `meta` as its first event.
    ///
    /// The path belongs to this writer until it is dropped, or its process ends; a forked child has no
    /// part in it. A recording that lies there and was
    /// never finished is moved aside, see [`kept`](Self::kept).
    ///
    /// # Errors
    ///
    /// [`WriteError::Busy`] when another recording writes there, [`WriteError::NoDirectory`] and
    /// [`WriteError::Create`] when the file cannot be made, [`WriteError::Write`] when it does
    /// not take the first event.
    pub fn create(path: &Path, meta: &Meta) -> Result<Self, WriteError> {
        let Claim { file, kept } = claim::claim(path)?;
        let mut writer = Self {
            path: path.into(),
            kept,
            owner: meta.pid,
            _not_in_children: NotInChildren::new(&file),
            stream: Stream::new(file, PARTIAL_BUFFER_BYTES),
        };
        let written = writer.stream.preamble(|out| {
            out.extend_from_slice(b"[\n");
            introduce::meta(out, meta);
        });
        written.map_err(|source| writer.write_error(source))?;
        Ok(writer)
    }

    /// Encodes one event into the buffer. It reaches the file with the next
    /// [`flush`](Self::flush), or before when [`PARTIAL_BUFFER_BYTES`] are waiting. After a
    /// failed write the event is only counted.
    pub fn push(&mut self, event: &EventRef<'_>) {
        self.stream
            .push(|out| encode::event(out, event, self.owner));
    }

    /// Writes the buffered events to the file.
    ///
    /// # Errors
    ///
    /// [`WriteError::Write`] when the file does not take them; the same again on every later
    /// call.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let flushed = self.stream.flush();
        flushed.map_err(|source| self.write_error(source))
    }

    /// Drops the buffered events and deletes the file: its recording is in a finished file now.
    ///
    /// # Errors
    ///
    /// [`WriteError::Write`] when the file cannot be deleted.
    pub fn remove(self) -> Result<(), WriteError> {
        if !self.is_in_place() {
            return Ok(());
        }
        // The lock is held until the file is gone.
        std::fs::remove_file(&self.path).map_err(|source| self.write_error(source))
    }

    /// Whether the path still leads to the file: nothing moved or replaced it.
    pub fn is_in_place(&self) -> bool {
        claim::names(&self.path, self.stream.sink())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a recording that never finished, and lay at this path, was moved to.
    pub fn kept(&self) -> Option<&Path> {
        self.kept.as_deref()
    }

    /// Events that are in the file.
    pub fn events_written(&self) -> u64 {
        self.stream.written()
    }

    /// Events that were pushed and could not be written.
    pub fn events_lost(&self) -> u64 {
        self.stream.lost()
    }

    /// Whether a write failed; the file takes nothing any more.
    pub fn failed(&self) -> bool {
        self.stream.failed()
    }

    fn write_error(&self, source: std::io::Error) -> WriteError {
        WriteError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// Where the partial file of the trace `finished` lies: beside it, never compressed.
///
/// ```
/// use gpustall_trace::partial_path;
/// use std::path::Path;
/// let path = partial_path(Path::new("runs/x.trace.json.gz"));
/// assert_eq!(path, Path::new("runs/x.trace.json.partial"));
/// ```
pub fn partial_path(finished: &Path) -> PathBuf {
    let plain = match finished.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("gz") => finished.with_extension(""),
        _ => finished.to_path_buf(),
    };
    let mut name = plain.into_os_string();
    name.push(".partial");
    name.into()
}
