//! What can go wrong with a session. None of it stops the training loop by itself.

use gpustall_trace::{ReadError, WriteError};
use std::fmt;
use std::path::PathBuf;

/// A session could not start, or could not write its trace.
///
/// `Debug` says the same as `Display`: it is what a program prints whose `main` returns the error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A session runs in this process already.
    #[error(
        "a gpustall session ({running}) runs in this process already; finish() it before the next one starts"
    )]
    AlreadyRunning {
        /// Name of the running session.
        running: String,
    },
    /// The trace file cannot be created.
    #[error("gpustall cannot start: {0}")]
    Output(#[source] WriteError),
    /// The writer thread could not be started.
    #[error(
        "gpustall cannot start its writer thread: {0}; lower the number of threads or raise `ulimit -u`"
    )]
    Thread(#[source] std::io::Error),
    /// The finished trace could not be written.
    #[error(
        "gpustall could not write the finished trace: {source}\n\
         what was recorded is in {}: open it in Perfetto, or make room and run `gpustall finish {}`",
        partial.display(), partial.display()
    )]
    Finish {
        /// The partial file, which is kept.
        partial: PathBuf,
        /// Why.
        source: WriteError,
    },
    /// Something moved or replaced the partial file while it was written.
    #[error(
        "gpustall's recording is not at {} any more: it was moved or replaced while it was written; \
         run `gpustall finish` on it where it is now",
        partial.display()
    )]
    Moved {
        /// Where the partial file was made.
        partial: PathBuf,
    },
    /// What was recorded could not be read back.
    #[error("gpustall could not read its own recording {}: {source}", partial.display())]
    ReadBack {
        /// The partial file, which is kept.
        partial: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// The writer thread panicked: a bug in gpustall.
    #[error(
        "gpustall's writer thread panicked, please report this bug; what was recorded before is in {}",
        partial.display()
    )]
    WriterPanicked {
        /// The partial file, which is kept.
        partial: PathBuf,
    },
}

impl fmt::Debug for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
