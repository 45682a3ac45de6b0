//! Opening a trace file, compressed or not.

use crate::ReadError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
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
