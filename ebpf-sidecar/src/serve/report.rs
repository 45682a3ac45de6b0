//! What a server tells of itself.

use crate::error::SetupError;
use std::io;
use std::path::PathBuf;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The probes could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another sidecar serves there.
    #[error("a sidecar serves at {0} already: stop it, or choose another path with --socket")]
    Serves(PathBuf),
    /// There is something else at the path.
    #[error("{0} is there and is no socket: remove it, or choose another path with --socket")]
    NoSocket(PathBuf),
    /// The socket could not be made.
    #[error("cannot {what} the socket {path}: {source}")]
    Socket {
        /// What failed.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Privileges could not be given up.
    #[error("cannot give up the privileges that are no longer needed: {0}")]
    Privileges(io::Error),
}

/// How much a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Clients that are served.
    pub clients: usize,
    /// Threads of theirs that live.
    pub threads: usize,
    /// Events sent since the start.
    pub events: u64,
    /// Events lost since the start, over all clients that are still there.
    pub lost: u64,
}

/// What a server tells of its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A client is served from now on.
    Served {
        /// Its process.
        pid: u32,
        /// Its user.
        user: u32,
    },
    /// A client was refused.
    Refused {
        /// Its process.
        pid: u32,
        /// Its user.
        user: u32,
        /// What it was told.
        why: String,
    },
    /// A client is gone.
    Left {
        /// Its process.
        pid: u32,
    },
}
