//! A file that appears under its name only when it is complete.

use super::claim::create_error;
use crate::WriteError;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Level of compression: half the time of the usual level for a twentieth more bytes.
const LEVEL: u32 = 4;

/// A file that is being written beside its final place.
pub(super) struct Output {
    path: PathBuf,
    /// `None` when the path is no regular file (a pipe, a device): that is written directly.
    temporary: Option<PathBuf>,
    writer: Writer,
}

enum Writer {
    Plain(Counted),
    Gzip(GzEncoder<Counted>),
}

impl Output {
    /// Starts a file that will be at `path`, compressed if that ends in `.gz`.
    pub(super) fn create(path: &Path) -> Result<Self, WriteError> {
        let gzip = path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("gz"));
        // Through a symbolic link the file behind it is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let special = fs::metadata(&path).is_ok_and(|m| !m.is_file() && !m.is_dir());
        let temporary = (!special).then(|| temporary_path(&path));
        let file = match &temporary {
            Some(temporary) => File::create(temporary),
            None => File::options().write(true).open(&path),
        };
        let file = file.map_err(|error| create_error(&path, error))?;
        let file = Counted {
            file: BufWriter::with_capacity(1 << 16, file),
            bytes: 0,
        };
        let writer = if gzip {
            Writer::Gzip(GzEncoder::new(file, Compression::new(LEVEL)))
        } else {
            Writer::Plain(file)
        };
        Ok(Self {
            path,
            temporary,
            writer,
        })
    }

    /// Lets `fill` write the contents, then puts the file in its place; returns its size in
    /// bytes. On an error nothing is left behind and a file that was at the path stays.
    pub(super) fn complete(
        mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, WriteError> {
        let filled = match &mut self.writer {
            Writer::Plain(file) => fill(file),
            Writer::Gzip(gzip) => fill(gzip),
        };
        let result = filled.and_then(|()| {
            let mut file = match self.writer {
                Writer::Plain(file) => file,
                Writer::Gzip(gzip) => gzip.finish()?,
            };
            file.flush()?;
            if let Some(temporary) = &self.temporary {
                fs::rename(temporary, &self.path)?;
            }
            Ok(file.bytes)
        });
        result.map_err(|source| {
            if let Some(temporary) = &self.temporary {
                // The first error is the one to tell.
                let _ = fs::remove_file(temporary);
            }
            WriteError::Write {
                path: self.path,
                source,
            }
        })
    }
}

/// A name beside `path` that no other writer uses.
fn temporary_path(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{n}.tmp", std::process::id()));
    name.into()
}

/// A file that counts what it takes.
struct Counted {
    file: BufWriter<File>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
