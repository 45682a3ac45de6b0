//! A text that is read piece by piece: always one whole event of it in memory, never much more.

use crate::chrome::read::scan::State;
use crate::chrome::read::source::{after, is_damage};
use std::io::{self, BufRead, ErrorKind};

/// Longest event that is read, in bytes. Those of PyTorch have some hundred, with call stacks and
/// shapes some ten thousand.
pub(super) const EVENT_BYTES: usize = 16 << 20;
/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What reading on gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// More text.
    Read,
    /// The text has ended.
    End,
    /// The text before it was not consumed, and is [`EVENT_BYTES`] long.
    Full,
}

/// How a value that was passed over ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// With its last byte.
    Whole,
    /// With the text.
    Cut,
    /// There is no value.
    Missing,
}

/// A piece of a text that moves over it.
pub(super) struct Window {
    input: Box<dyn BufRead>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// The compressed data is cut off or damaged: what that means where the whole trace was read.
    pub(super) torn: Option<&'static str>,
}

impl Window {
    pub(super) fn new(input: Box<dyn BufRead>) -> Self {
        Self {
            input,
            bytes: vec![0; PIECE_BYTES],
            start: 0,
            end: 0,
            ended: false,
            torn: None,
        }
    }

    /// The text from here on that is in memory.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Moves over the next `length` bytes.
    pub(super) fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.end);
    }

    /// Brings more text into memory.
    pub(super) fn more(&mut self) -> io::Result<More> {
        if self.ended {
            return Ok(More::End);
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            if self.end >= EVENT_BYTES {
                return Ok(More::Full);
            }
            self.bytes.resize(self.end * 2, 0);
        }
        let before = self.end;
        // Filled to the brim: the text that is left over is looked at again each time.
        while self.end < self.bytes.len() {
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(length) => self.end += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_damage(&error) => {
                    (self.ended, self.torn) = (true, Some(after(&error)));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        match self.end > before {
            true => Ok(More::Read),
            false => Ok(More::End),
        }
    }

    /// The next byte that is not blank; it is not consumed. `None` at the end of the text.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let rest = self.rest();
            match rest.iter().position(|b| !b.is_ascii_whitespace()) {
                Some(at) => {
                    let byte = rest[at];
                    self.consume(at);
                    return Ok(Some(byte));
                }
                None => self.start = self.end,
            }
            if self.more()? == More::End {
                return Ok(None);
            }
        }
    }

    /// Passes over one value of any length, looking at brackets and strings only, and appends its
    /// first `keep_bytes` bytes to `keep`.
    pub(super) fn pass_value(
        &mut self,
        keep: &mut Vec<u8>,
        keep_bytes: usize,
    ) -> io::Result<Passed> {
        match self.peek()? {
            None => return Ok(Passed::Cut),
            Some(b',' | b':' | b']' | b'}') => return Ok(Passed::Missing),
            Some(_) => {}
        }
        let mut state = State::default();
        loop {
            let rest = self.rest();
            let end = state.run(rest);
            let length = end.unwrap_or(rest.len());
            let room = keep_bytes.saturating_sub(keep.len());
            keep.extend_from_slice(&rest[..length.min(room)]);
            self.consume(length);
            if end.is_some() {
                return Ok(Passed::Whole);
            }
            if self.more()? == More::End {
                return Ok(Passed::Cut);
            }
        }
    }
}
