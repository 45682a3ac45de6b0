//! What workers wait for that may have a limit: a disk, or whoever is at the other end of a connection.

use crate::rules::BlockedOn;

/// Where the items of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Disk,
    Peer,
}

impl Source {
    /// What a thread is blocked on that waits for it.
    pub(crate) fn blocks_as(self) -> BlockedOn {
        match self {
            Self::Disk => BlockedOn::File,
            Self::Peer => BlockedOn::Peer,
        }
    }

    /// As it is called in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Disk => "the disk",
            Self::Peer => "the other end of the connection",
        }
    }

    /// Who asks it.
    pub(super) fn askers(self) -> &'static str {
        match self {
            Self::Disk => "readers",
            Self::Peer => "workers",
        }
    }
}
