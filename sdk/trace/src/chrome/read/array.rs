//! The array form: a partial file, read line by line.

use super::rebuild::Rebuild;
use super::source::is_damage;
use std::io::{self, BufRead};

/// Longest line that is kept, in bytes.
const LINE_BYTES: usize = 64 << 20;

/// What a partial file had, beside its events.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Events that were used.
    pub(super) used: u64,
    /// Whole lines that were no event of ours.
    pub(super) damaged: u64,
    /// The last line is not complete.
    pub(super) cut: bool,
    /// The compressed data is cut off or damaged.
    pub(super) torn: bool,
    /// It is damaged, and not only cut off.
    pub(super) garbled: bool,
    /// The closing bracket is there.
    pub(super) closed: bool,
}

/// Reads the lines of `text` into `rebuild`.
pub(super) fn lines(text: &mut dyn BufRead, rebuild: &mut Rebuild) -> io::Result<Lines> {
    let mut found = Lines::default();
    let mut line = Vec::new();
    let mut first = true;
    loop {
        let whole = match next_line(text, &mut line) {
            Ok(Some(whole)) => whole,
            Ok(None) => return Ok(found),
            Err(error) if is_damage(&error) => {
                found.torn = true;
                found.garbled = error.kind() != io::ErrorKind::UnexpectedEof;
                return Ok(found);
            }
            Err(error) => return Err(error),
        };
        let mut json = line.trim_ascii();
        if std::mem::take(&mut first) {
            json = json.strip_prefix(b"[").unwrap_or(json).trim_ascii();
        }
        if let Some(rest) = json.strip_suffix(b"]") {
            found.closed = true;
            json = rest.trim_ascii_end();
        }
        json = json.strip_suffix(b",").unwrap_or(json);
        if json.is_empty() {
            continue;
        }
        match rebuild.add(json) {
            Ok(()) => found.used += 1,
            Err(_) if whole => found.damaged += 1,
            Err(_) => found.cut = true,
        }
        if rebuild.newer().is_some() {
            return Ok(found);
        }
    }
}

/// Reads a line into `line`, without its end; whether the end was there. What a line has beyond
/// [`LINE_BYTES`] is dropped. `None` at the end of the text.
fn next_line(text: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = match text.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if buffer.is_empty() {
            return Ok(any.then_some(false));
        }
        any = true;
        let end = buffer.iter().position(|&b| b == b'\n');
        let length = end.unwrap_or(buffer.len());
        let room = LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&buffer[..length.min(room)]);
        text.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(true));
        }
    }
}
