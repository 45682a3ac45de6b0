//! Frames: a length of four bytes (little-endian), and that many bytes of events.

use crate::error::ProtocolError;

/// Most bytes of one frame.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

const LENGTH: usize = 4;

/// Cuts a stream of bytes, as they arrive, into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// How many of them were handed out.
    used: usize,
}

impl Frames {
    /// Appends what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` until more arrives.
    ///
    /// # Errors
    /// When it announces more than [`MAX_FRAME_BYTES`]: nothing is ever kept for it.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, ProtocolError> {
        let rest = &self.bytes[self.used..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > MAX_FRAME_BYTES {
            return Err(ProtocolError::TooLong {
                what: "a frame",
                bytes,
                limit: MAX_FRAME_BYTES,
            });
        }
        if rest.len() < bytes {
            return Ok(None);
        }
        let start = self.used + LENGTH;
        self.used = start + bytes;
        Ok(self.bytes.get(start..self.used))
    }
}

/// Appends frames to a buffer.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
    /// Where the frame begins that is being filled.
    begun: Option<usize>,
}

/// A frame is closed when it has this many bytes, so that readers get on with it.
const ENOUGH: usize = 32 << 10;

impl FrameWriter {
    /// Appends what `write` appends: the bytes of whole events.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begun = *self.begun.get_or_insert_with(|| {
            self.bytes.extend_from_slice(&[0; LENGTH]);
            self.bytes.len() - LENGTH
        });
        write(&mut self.bytes);
        if self.bytes.len() - begun >= ENOUGH {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(begun) = self.begun.take() {
            let length = (self.bytes.len() - begun - LENGTH) as u32;
            self.bytes[begun..begun + LENGTH].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// All frames since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.close();
        std::mem::take(&mut self.bytes)
    }
}
