//! Finding the values in a JSON text without parsing or keeping them.

use std::io::{self, BufRead};

/// Longest single value that is kept, in bytes. Chunks and events are far shorter; a report may
/// have some megabytes.
pub(super) const VALUE_BYTES: usize = 256 << 20;

/// Why scanning stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file could not be read on.
    Io(io::Error),
    /// The text ended inside a value.
    End,
    /// The text is not JSON there.
    Syntax,
    /// One value is longer than [`VALUE_BYTES`].
    TooLong,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// Walks over a JSON text.
pub(super) struct Scanner<'r> {
    input: &'r mut dyn BufRead,
}

impl<'r> Scanner<'r> {
    pub(super) fn new(input: &'r mut dyn BufRead) -> Self {
        Self { input }
    }

    /// The next byte that is not blank; it is not consumed.
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Stop::End);
            }
            let length = buffer.len();
            match buffer.iter().position(|b| !b.is_ascii_whitespace()) {
                Some(at) => {
                    let byte = buffer[at];
                    self.input.consume(at);
                    return Ok(byte);
                }
                None => self.input.consume(length),
            }
        }
    }

    /// Consumes `byte`, blanks before it too.
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek()? != byte {
            return Err(Stop::Syntax);
        }
        self.input.consume(1);
        Ok(())
    }

    /// Consumes `close` or a comma; whether another element follows.
    fn more(&mut self, first: &mut bool, close: u8) -> Result<bool, Stop> {
        let byte = self.peek()?;
        if byte == close {
            self.input.consume(1);
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// Walks over an object; `entry` consumes the value of each key.
    pub(super) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, &str) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'{')?;
        let (mut first, mut raw) = (true, Vec::new());
        while self.more(&mut first, b'}')? {
            raw.clear();
            if self.peek()? != b'"' {
                return Err(Stop::Syntax);
            }
            self.value(Some(&mut raw))?;
            let key: String = serde_json::from_slice(&raw).map_err(|_| Stop::Syntax)?;
            self.expect(b':')?;
            entry(self, &key)?;
        }
        Ok(())
    }

    /// Walks over an array; `element` consumes each element.
    pub(super) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'[')?;
        let mut first = true;
        while self.more(&mut first, b']')? {
            element(self)?;
        }
        Ok(())
    }

    /// Consumes one value, appending its text to `keep`. Only brackets and strings are looked at.
    pub(super) fn value(&mut self, mut keep: Option<&mut Vec<u8>>) -> Result<(), Stop> {
        if matches!(self.peek()?, b',' | b':' | b']' | b'}') {
            return Err(Stop::Syntax);
        }
        let mut state = State::default();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Stop::End);
            }
            let end = state.run(buffer);
            let length = end.unwrap_or(buffer.len());
            if let Some(keep) = keep.as_deref_mut() {
                if keep.len() + length > VALUE_BYTES {
                    return Err(Stop::TooLong);
                }
                keep.extend_from_slice(&buffer[..length]);
            }
            self.input.consume(length);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// Where in a value a scanner is.
#[derive(Default)]
pub(in crate::chrome) struct State {
    depth: u64,
    string: bool,
    escaped: bool,
    /// A number or a word has begun at depth 0.
    scalar: bool,
}

impl State {
    /// Goes over `buffer`; the position after the value if it ends in there.
    pub(in crate::chrome) fn run(&mut self, buffer: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < buffer.len() {
            let byte = buffer[at];
            at += 1;
            if self.string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.string = false;
                        if self.depth == 0 {
                            return Some(at);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
                _ if self.depth > 0 => {}
                b',' | b']' | b'}' | b':' => return Some(at - 1),
                b if b.is_ascii_whitespace() && self.scalar => return Some(at - 1),
                _ => self.scalar = true,
            }
        }
        None
    }
}
