//! What waits to be sent to one client.

use std::io::{self, Write};

/// Bytes on their way to a client that may be slow.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.sent));
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends what the socket takes without waiting.
    ///
    /// # Errors
    /// When it takes nothing any more.
    pub(super) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.waiting() > 0 {
            match socket.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        *self = Self::default();
        Ok(())
    }
}
