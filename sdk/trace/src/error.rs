//! What can go wrong with a trace file, and what to do about it.

use std::path::PathBuf;

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file could not be created.
    #[error(
        "cannot create the trace file {}: {source}; choose a writable path with output(...)",
        path.display()
    )]
    Create {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The directory of the file is not there.
    #[error(
        "cannot create the trace file {}: there is no directory {}; make it, or choose another \
         path with output(...)",
        path.display(),
        directory.display()
    )]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// The missing directory.
        directory: PathBuf,
    },
    /// Another recording, in this process or another, writes to the file.
    #[error(
        "another recording writes to {}; wait until it ends, or choose another path with \
         output(...)",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written to its end.
    #[error(
        "cannot write the trace file {}: {source}; what was recorded before is kept",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// A trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not JSON, or is another program's.
    #[error("{} is not a gpustall trace: {reason}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The file is no trace of any kind that gpustall reads.
    #[error(
        "{} is not a trace that gpustall reads: {reason}; give it a file that gpustall, PyTorch's \
         profiler or another writer of Chrome JSON made",
        path.display()
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The file was written by a newer gpustall.
    #[error(
        "{} has trace schema {found}, this gpustall reads up to {supported}; update gpustall",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: u32,
        /// Newest schema that this build reads.
        supported: u32,
    },
}
