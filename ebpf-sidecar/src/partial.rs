//! A recording as a file that grows while it runs, so that whatever ends the recorder leaves what was
//! recorded.
//!
//! The parts of the recording are made into events as they are for a client of [`serve`](crate::serve),
//! and written to the crash-safe file that sessions of the SDK write, which `gpustall finish` reads.

use crate::recording::Recording;
use crate::to_trace::Conversion;
use gpustall_protocol::{Decoder, Encoder, Frames};
use gpustall_trace::{
    EventRef, Meta, MonoTime, PartialWriter, Pid, ReadError, State, Trace, TraceTime, WriteError,
    read, vocab,
};
use std::path::{Path, PathBuf};

/// Events that are kept by default: what [`finish`](PartialRecording::finish) has in memory, at about
/// 300 bytes each.
pub const DEFAULT_MAX_EVENTS: u64 = 6_000_000;

/// Source of losses on this side.
const BEYOND_LIMIT: &str = "events beyond the limit of the recording";

/// A recording that is written as it grows.
pub struct PartialRecording {
    partial: PartialWriter,
    conversion: Conversion,
    encoder: Encoder,
    decoder: Decoder,
    frames: Frames,
    end: TraceTime,
    kept: u64,
    refused: u64,
    max_events: u64,
    /// Why the file does not take any more.
    error: Option<WriteError>,
}

/// Why a recording has no finished trace. What was recorded is in the partial file.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the recording back from {}: {source}", path.display())]
pub struct FinishError {
    path: PathBuf,
    source: ReadError,
}

impl PartialRecording {
    /// Creates the file, of a recording called `name`, of the process `pid`, whose time zero is `start`.
    /// No more than `max_events` are kept.
    ///
    /// # Errors
    /// When the file cannot be made, or another recording writes there.
    pub fn create(
        path: &Path,
        name: &str,
        pid: Pid,
        start: MonoTime,
        max_events: u64,
    ) -> Result<Self, WriteError> {
        let nothing = Recording {
            start,
            ..Recording::default()
        };
        let meta = Meta {
            state: State::Partial,
            ..nothing.meta(name, pid)
        };
        let mut partial = PartialWriter::create(path, &meta)?;
        if let Some(kept) = partial.kept() {
            let text = format!(
                "an earlier recording that was never finished is kept as {}",
                kept.display()
            );
            partial.push(&EventRef::Note { text: &text });
        }
        Ok(Self {
            partial,
            conversion: Conversion::default(),
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            frames: Frames::default(),
            end: TraceTime::ZERO,
            kept: 0,
            refused: 0,
            max_events,
            error: None,
        })
    }

    /// Adds the next part, and hands it to the operating system.
    pub fn add(&mut self, part: &Recording) {
        self.end = part.end;
        self.conversion.add(part);
        let introduced = std::mem::take(&mut self.conversion.introduced);
        self.encoder.trace(&mut self.conversion.trace, introduced);
        part.notes.iter().for_each(|note| self.encoder.note(note));
        if self.encoder.has_many_texts() {
            self.conversion.forget_strings();
            self.encoder.forget_texts();
        }
        self.write();
        if let Err(error) = self.partial.flush() {
            self.error.get_or_insert(error);
        }
    }

    fn write(&mut self) {
        let Self {
            partial,
            decoder,
            frames,
            kept,
            refused,
            max_events,
            ..
        } = self;
        let before = *refused;
        frames.push(&self.encoder.take());
        // These are our own frames: they are well-formed.
        while let Ok(Some(frame)) = frames.next_frame() {
            let outcome = decoder.frame(frame, |event| {
                let counts = counts(event);
                match counts && *kept >= *max_events {
                    true => *refused += 1,
                    false => {
                        *kept += u64::from(counts);
                        partial.push(event);
                    }
                }
            });
            debug_assert!(outcome.is_ok(), "{outcome:?}");
        }
        if *refused > before {
            let (at, total) = (self.end, *refused);
            let source = BEYOND_LIMIT;
            partial.push(&EventRef::Loss { source, at, total });
        }
    }

    /// Reads the whole recording back, as a finished trace. The file is still there.
    ///
    /// # Errors
    /// [`FinishError`] when the file cannot be read.
    pub fn finish(mut self) -> Result<(Trace, WrittenPartial), FinishError> {
        let path = self.partial.path().to_path_buf();
        let outcome = read(&path).map_err(|source| FinishError { path, source })?;
        let mut trace = outcome.trace;
        trace.meta.state = State::Finished;
        trace.meta.end = trace.meta.end.max(self.end);
        trace.meta.notes.extend(outcome.warnings);
        if let Some(error) = self.error.take() {
            let note = format!("the recording is incomplete: {error}");
            trace.meta.notes.push(note);
        }
        Ok((trace, WrittenPartial(self.partial)))
    }

    /// Deletes the file: there is nothing to keep.
    pub fn discard(self) {
        let _ = self.partial.remove();
    }
}

/// The file of a recording that was read back.
pub struct WrittenPartial(PartialWriter);

impl WrittenPartial {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Deletes it: the recording is in a finished file.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn remove(self) -> Result<(), WriteError> {
        self.0.remove()
    }
}

/// Whether the limit counts an event. Threads, their totals, losses and notes are few, and the others make
/// no sense without them.
fn counts(event: &EventRef<'_>) -> bool {
    match event {
        EventRef::Instant { cat, .. } => *cat != vocab::cat::THREAD_TOTALS,
        EventRef::Process { .. }
        | EventRef::Track { .. }
        | EventRef::Loss { .. }
        | EventRef::Note { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
#[path = "partial_tests.rs"]
mod tests;
