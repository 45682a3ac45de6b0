//! A bounded buffer of whole lines in front of a file that may run full.

use std::io::{self, Write};

/// Where a stream writes to.
pub(super) trait Sink: Write {
    /// Cuts off what was written after the first `length` bytes.
    fn keep(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for std::fs::File {
    fn keep(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Collects the lines of whole events and hands them to the sink together.
#[derive(Debug)]
pub(super) struct Stream<S> {
    sink: S,
    buffer: Vec<u8>,
    /// End of each buffered event in `buffer`.
    ends: Vec<usize>,
    capacity: usize,
    /// Bytes of whole events in the sink.
    length: u64,
    written: u64,
    lost: u64,
    failure: Option<Failure>,
}

/// An error that is told again on every flush.
#[derive(Debug, Clone, Copy)]
struct Failure {
    os: Option<i32>,
    kind: io::ErrorKind,
}

impl Failure {
    fn error(self) -> io::Error {
        self.os
            .map_or_else(|| self.kind.into(), io::Error::from_raw_os_error)
    }
}

impl<S: Sink> Stream<S> {
    /// Where it writes to.
    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    /// A stream that flushes by itself when `capacity` bytes are waiting.
    pub(super) fn new(sink: S, capacity: usize) -> Self {
        Self {
            sink,
            buffer: Vec::new(),
            ends: Vec::new(),
            capacity,
            length: 0,
            written: 0,
            lost: 0,
            failure: None,
        }
    }

    /// Appends what is not an event, such as the opening bracket.
    pub(super) fn preamble(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        write(&mut self.buffer);
        self.flush()
    }

    /// Appends one event. After a failure it only counts.
    pub(super) fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.failure.is_some() {
            self.lost += 1;
            return;
        }
        encode(&mut self.buffer);
        self.ends.push(self.buffer.len());
        if self.buffer.len() >= self.capacity {
            // The failure is kept and told by the next flush.
            let _ = self.flush();
        }
    }

    /// Hands the buffer to the sink. After the first failure it does nothing and tells it again.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure.error());
        }
        let (done, error) = write_counted(&mut self.sink, &self.buffer);
        let Some(error) = error else {
            self.length += self.buffer.len() as u64;
            self.written += self.ends.len() as u64;
            self.buffer.clear();
            self.ends.clear();
            return Ok(());
        };
        let whole = self.ends.partition_point(|&end| end <= done);
        self.length += whole
            .checked_sub(1)
            .map_or(0, |last| self.ends[last] as u64);
        self.written += whole as u64;
        self.lost += (self.ends.len() - whole) as u64;
        // Readers also take a file that ends inside a line, so a failure here costs nothing.
        let _ = self.sink.keep(self.length);
        self.buffer = Vec::new();
        self.ends = Vec::new();
        self.failure = Some(Failure {
            os: error.raw_os_error(),
            kind: error.kind(),
        });
        Err(error)
    }

    /// Events in the sink.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Events that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the sink failed.
    pub(super) fn failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// Writes all of `bytes`; returns how many were taken, and the error that stopped it.
fn write_counted(sink: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while done < bytes.len() {
        match sink.write(&bytes[done..]) {
            Ok(0) => return (done, Some(io::ErrorKind::WriteZero.into())),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        data: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.data.len());
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.data.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Disk {
        fn keep(&mut self, length: u64) -> io::Result<()> {
            self.data.truncate(length as usize);
            Ok(())
        }
    }

    fn stream(room: usize) -> Stream<Disk> {
        let data = Vec::new();
        Stream::new(Disk { data, room }, 1 << 20)
    }

    #[test]
    fn a_full_disk_keeps_the_whole_events_and_counts_the_others() {
        for room in 0..60 {
            let mut stream = stream(room);
            for _ in 0..5 {
                stream.push(|out| out.extend_from_slice(b"0123456789"));
            }
            let result = stream.flush();
            assert_eq!(result.is_ok(), room >= 50);
            let whole = (room / 10).min(5);
            assert_eq!(stream.sink.data.len(), whole * 10);
            assert_eq!(
                (stream.written(), stream.lost()),
                (whole as u64, 5 - whole as u64)
            );
        }
    }

    #[test]
    fn after_a_failure_everything_is_counted_and_the_error_told_again() {
        let mut stream = stream(15);
        stream.push(|out| out.extend_from_slice(b"0123456789"));
        stream.push(|out| out.extend_from_slice(b"0123456789"));
        assert!(stream.flush().is_err());
        stream.push(|_| panic!("not encoded any more"));
        let again = stream.flush().expect_err("still full");
        assert_eq!(again.kind(), io::ErrorKind::StorageFull);
        assert_eq!((stream.written(), stream.lost()), (1, 2));
        assert!(stream.failed());
    }

    #[test]
    fn a_full_buffer_is_flushed_without_being_asked() {
        let mut stream = Stream::new(
            Disk {
                data: Vec::new(),
                room: 1000,
            },
            25,
        );
        for _ in 0..4 {
            stream.push(|out| out.extend_from_slice(b"0123456789"));
        }
        assert_eq!(stream.sink.data.len(), 30);
        assert_eq!(stream.buffer.len(), 10);
    }
}
