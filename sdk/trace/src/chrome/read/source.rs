//! Opening a trace file, compressed or not.

use crate::ReadError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

const BUFFER_BYTES: usize = 1 << 18;

/// The text of a file, and what is known of it from its first bytes.
pub(in crate::chrome) struct Opened {
    pub(in crate::chrome) text: Box<dyn BufRead>,
    pub(in crate::chrome) form: Form,
}

/// What the first byte of the text promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chrome) enum Form {
    /// Nothing there.
    Empty,
    /// `{`: a finished file.
    Object,
    /// `[`: a partial file.
    Array,
    /// Not JSON.
    Other,
}

/// Opens `path`.
pub(in crate::chrome) fn open(path: &Path) -> Result<Opened, ReadError> {
    let io_error = |source| ReadError::Io {
        path: path.into(),
        source,
    };
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, File::open(path).map_err(io_error)?);
    let gzip = raw.fill_buf().map_err(io_error)?.starts_with(&[0x1f, 0x8b]);
    let mut text: Box<dyn BufRead> = if gzip {
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(raw),
        ))
    } else {
        Box::new(raw)
    };
    let form = match first_byte(&mut text) {
        Ok(None) => Form::Empty,
        Ok(Some(b'{')) => Form::Object,
        Ok(Some(b'[')) => Form::Array,
        Ok(Some(_)) => Form::Other,
        Err(error) if is_damage(&error) => Form::Empty,
        Err(error) => return Err(io_error(error)),
    };
    Ok(Opened { text, form })
}

/// Whether reading stopped because the compressed data is cut off or damaged, rather than
/// because the disk cannot be read.
pub(in crate::chrome) fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
    )
}

/// Most bytes after the end of a trace that are looked at for damage.
const MOST_AFTER: usize = 1 << 20;

/// What is wrong with the compressed data after the trace, one sentence. Only at its end it has the checksum of all
/// of it, so what that says may be anywhere.
pub(in crate::chrome) fn damage_after(text: &mut dyn BufRead) -> Option<String> {
    let mut left = MOST_AFTER;
    loop {
        match text.fill_buf() {
            Ok(buffer) => {
                let length = buffer.len().min(left);
                if length == 0 {
                    return None;
                }
                text.consume(length);
                left -= length;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if !is_damage(&error) => return None,
            Err(error) => return Some(after(&error).into()),
        }
    }
}

/// What an error says of a compressed file of which the whole trace was read, one sentence.
pub(in crate::chrome) fn after(error: &io::Error) -> &'static str {
    match error.to_string().contains("checksum") {
        true => {
            "the compressed file is damaged somewhere, as its checksum says: what was read of it may be wrong"
        }
        false => "the compressed file is damaged at its end, after the trace",
    }
}

/// Longest text that is read to see whether it is JSON, in bytes.
const JSON_BYTES: u64 = 1 << 20;

/// What a text is that is neither an object nor a list.
pub(in crate::chrome) fn other(text: &mut dyn BufRead) -> &'static str {
    let mut json = Vec::new();
    let read = text.take(JSON_BYTES).read_to_end(&mut json);
    let value = serde_json::from_slice::<serde::de::IgnoredAny>(&json);
    match read.is_ok() && value.is_ok() {
        true => "it is JSON without a list of events",
        false => "it is not JSON",
    }
}

/// The first byte that is neither blank nor part of a byte order mark; it is not consumed.
fn first_byte(text: &mut dyn BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = text.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let skip = |b: &u8| b.is_ascii_whitespace() || matches!(b, 0xef | 0xbb | 0xbf);
        match buffer.iter().position(|b| !skip(b)) {
            Some(at) => {
                let byte = buffer[at];
                text.consume(at);
                return Ok(Some(byte));
            }
            None => {
                let length = buffer.len();
                text.consume(length);
            }
        }
    }
}
