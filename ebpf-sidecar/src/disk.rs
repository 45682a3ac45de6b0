//! Requests to block devices. Who waited for each is decided in `charge.rs`.

use crate::recording::OtherId;
use gpustall_trace::TraceTime;
use gpustall_wire::codes::request;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// The device writes out its cache.
    Flush,
    /// Data is given up.
    Discard,
}

impl RequestKind {
    /// The name that traces use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }

    /// By the kernel's number of the operation, see [`request`]. A write of nothing is how the block
    /// layer asks for a flush; the numbers of operations that move data to the device are odd.
    pub(crate) fn of_code(op: u32, bytes: u32) -> Self {
        match op {
            request::FLUSH => Self::Flush,
            request::WRITE if bytes == 0 => Self::Flush,
            request::DISCARD | request::SECURE_ERASE => Self::Discard,
            op if op & request::WRITE != 0 => Self::Write,
            _ => Self::Read,
        }
    }
}

/// A request to a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIo {
    /// Position in [`Recording::threads`](crate::Recording::threads) of the thread that waited for
    /// it, or that handed it in when nobody did.
    pub thread: u32,
    /// Who handed it in, when that was another thread; then the charge is inferred.
    pub submitter: Option<OtherId>,
    /// What it does.
    pub kind: RequestKind,
    /// Its length; 0 for a flush.
    pub bytes: u64,
    /// Name of the disk (`nvme0n1`).
    pub disk: Arc<str>,
    /// When it was handed to the block layer.
    pub start: TraceTime,
    /// When it was done; for an unfinished request, the end of the recording.
    pub done: TraceTime,
    /// Whether it was still in flight when the recording ended.
    pub unfinished: bool,
}

/// Names of disks, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Disks(BTreeMap<(u32, u32), Arc<str>>);

impl Disks {
    /// The name of a disk; its numbers where it has none (any more).
    pub(crate) fn name(&mut self, major: u32, minor: u32) -> Arc<str> {
        let name = || {
            let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
            let name = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
            name.unwrap_or_else(|| format!("{major}:{minor}")).into()
        };
        self.0.entry((major, minor)).or_insert_with(name).clone()
    }
}

/// Names of the disks that are made of requests; some (RAM disks, mappings) pass on what they get.
pub(crate) fn all() -> Vec<String> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| entry.path().join("mq").is_dir());
    let mut names: Vec<String> = disks
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whether the disk counts its requests: the kernel reports the end of a request only then.
pub(crate) fn counts_requests(disk: &str) -> bool {
    let setting = fs::read_to_string(format!("/sys/block/{disk}/queue/iostats"));
    setting.is_ok_and(|on| on.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_names() {
        let kind = RequestKind::of_code;
        assert_eq!(kind(0, 512), RequestKind::Read);
        assert_eq!(kind(1, 512), RequestKind::Write);
        assert_eq!(kind(1, 0), RequestKind::Flush);
        assert_eq!(kind(2, 0), RequestKind::Flush);
        assert_eq!(kind(3, 512), RequestKind::Discard);
        // Write zeroes; what a driver reads by a command of its own.
        assert_eq!(kind(9, 512), RequestKind::Write);
        assert_eq!(kind(34, 512), RequestKind::Read);
    }

    #[test]
    fn a_disk_that_is_not_there_is_called_by_its_numbers() {
        assert_eq!(&*Disks::default().name(4095, 7), "4095:7");
    }
}
