//! A client that speaks the protocol by hand, for what a session never does.

use gpustall_protocol::{Decoded, Decoder, Frames, GOODBYE, Hello, Reply};
use gpustall_trace::{EventRef, MonotonicClock};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to the sidecar under test.
pub(crate) struct Client {
    pub(crate) socket: UnixStream,
    frames: Frames,
    decoder: Decoder,
}

/// What the sidecar answers to whom says hello for process `pid`: `None` for a welcome.
pub(crate) fn ask(socket: &Path, pid: u32) -> Option<String> {
    Client::greet(socket, &hello(pid)).err()
}

fn hello(pid: u32) -> Vec<u8> {
    let hello = Hello {
        pid,
        start_ns: MonotonicClock::read().as_nanos(),
        release: "test".to_owned(),
    };
    hello.encode()
}

impl Client {
    /// Connects as this process.
    pub(crate) fn connect(socket: &Path) -> Self {
        Self::greet(socket, &hello(std::process::id())).unwrap()
    }

    /// Connects and sends these bytes; fails with the reason of a refusal.
    pub(crate) fn greet(socket: &Path, greeting: &[u8]) -> Result<Self, String> {
        let mut socket = UnixStream::connect(socket).map_err(|e| e.to_string())?;
        socket.write_all(greeting).unwrap();
        let (mut received, mut bytes) = (Vec::new(), [0; 1024]);
        loop {
            let count = socket.read(&mut bytes).unwrap();
            if count == 0 {
                return Err("closed without an answer".to_owned());
            }
            received.extend_from_slice(&bytes[..count]);
            let Some((reply, length)) = Reply::parse(&received).unwrap() else {
                continue;
            };
            if let Some(why) = reply.refused {
                return Err(why);
            }
            let mut frames = Frames::default();
            frames.push(&received[length..]);
            let within = Some(Duration::from_millis(50));
            socket.set_read_timeout(within).unwrap();
            return Ok(Self {
                socket,
                frames,
                decoder: Decoder::default(),
            });
        }
    }

    /// Takes what has come; true at the end.
    pub(crate) fn take(&mut self, mut event: impl FnMut(&EventRef<'_>)) -> bool {
        let mut bytes = vec![0; 1 << 16];
        match self.socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(count) => self.frames.push(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        while let Some(frame) = self.frames.next_frame().unwrap() {
            if self.decoder.frame(frame, &mut event).unwrap() == Decoded::End {
                return true;
            }
        }
        false
    }

    /// Asks for the last events.
    pub(crate) fn goodbye(&mut self) {
        self.socket.write_all(&[GOODBYE]).unwrap();
    }
}
