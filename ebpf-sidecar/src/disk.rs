//! Requests to block devices, and who waited for each.
//!
//! The kernel says who handed a request in. Who waited for it follows from the stretches off CPU
//! while it was in flight: the thread that handed it in, if it waited for I/O meanwhile; else another
//! tracked thread whose wait for I/O lasted until the request was done. Requests of the kernel's own
//! threads for which no tracked thread waited are no part of the recording.

use crate::recording::{OffCpuInterval, OtherId, WaitId, Why};
use crate::wait::{Wait, WaitClass};
use gpustall_trace::{Interval, Nanos, TraceTime};
use gpustall_wire::codes::request;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// How much later than the wake-up of who waited a request may be reported done: the kernel wakes
/// first and counts then.
const REPORTED_LATE: Nanos = Nanos::new(200_000);

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

/// A request that has not been charged.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The tracked thread that handed it in; `None` for a thread of the kernel.
    pub(crate) thread: Option<u32>,
    /// Who handed it in.
    pub(crate) submitter: OtherId,
    /// Whether `thread` stands for another thread of its process, which is not tracked itself.
    pub(crate) stands_in: bool,
    pub(crate) kind: RequestKind,
    pub(crate) bytes: u64,
    pub(crate) disk: Arc<str>,
    pub(crate) span: Interval,
    pub(crate) unfinished: bool,
}

/// A stretch of time that a thread was blocked for I/O.
#[derive(Debug, Clone, Copy)]
struct IoWait {
    span: Interval,
    reads: bool,
    writes: bool,
}

impl IoWait {
    fn of(interval: &OffCpuInterval, waits: &[Wait]) -> Option<Self> {
        if !matches!(interval.why, Why::Sleeping | Why::Uninterruptible) {
            return None;
        }
        let class = |WaitId(n): WaitId| waits.get(n as usize).map(|wait| wait.class);
        let (reads, writes) = match interval.wait.and_then(class) {
            Some(WaitClass::Read | WaitClass::PageFault) => (true, false),
            Some(WaitClass::Write) => (false, true),
            _ if interval.iowait => (true, true),
            _ => return None,
        };
        let span = Interval::new(interval.out, interval.woken.unwrap_or(interval.back));
        Some(Self {
            span,
            reads,
            writes,
        })
    }

    /// How long it was a wait for such a request.
    fn overlap(&self, request: &Request) -> Nanos {
        let fits = match request.kind {
            RequestKind::Read => self.reads,
            _ => self.writes,
        };
        match fits {
            true => self.span.intersection(request.span).len(),
            false => Nanos::ZERO,
        }
    }

    /// Whether it lasted until the request was done.
    fn outlasts(&self, request: &Request) -> bool {
        self.span.end + REPORTED_LATE >= request.span.end
    }
}

/// The waits of one thread, in their order.
type Waits = BTreeMap<u32, Vec<IoWait>>;

/// Charges each request to who waited for it. `intervals` are those of the whole time in which the
/// requests were in flight, and of each thread in their order.
pub(crate) fn charge(
    requests: &[Request],
    intervals: &[OffCpuInterval],
    waits: &[Wait],
) -> Vec<BlockIo> {
    let mut by_thread = Waits::new();
    for interval in intervals {
        if let Some(wait) = IoWait::of(interval, waits) {
            by_thread.entry(interval.thread).or_default().push(wait);
        }
    }
    let charged = |request: &Request| {
        let own = request.thread.filter(|_| !request.stands_in);
        let waited = own.filter(|&thread| longest(&by_thread, thread, request, false).is_some());
        let (thread, submitter) = match waited {
            Some(thread) => (thread, None),
            None => {
                let others = by_thread.keys().filter(|&&thread| Some(thread) != own);
                let others = others.filter_map(|&thread| {
                    Some((longest(&by_thread, thread, request, true)?, thread))
                });
                match (others.max(), own.or(request.thread)) {
                    (Some((_, thread)), _) => (thread, Some(request.submitter)),
                    (None, Some(thread)) => {
                        (thread, request.stands_in.then_some(request.submitter))
                    }
                    (None, None) => return None,
                }
            }
        };
        Some(BlockIo {
            thread,
            submitter,
            kind: request.kind,
            bytes: request.bytes,
            disk: request.disk.clone(),
            start: request.span.start,
            done: request.span.end,
            unfinished: request.unfinished,
        })
    };
    requests.iter().filter_map(charged).collect()
}

/// The longest that `thread` waited for the request in one piece; only where that lasted until it
/// was done, if `to_the_end`. `None` when it did not.
fn longest(waits: &Waits, thread: u32, request: &Request, to_the_end: bool) -> Option<Nanos> {
    let waits = waits.get(&thread)?;
    let first = waits.partition_point(|wait| wait.span.end < request.span.start);
    let during = waits[first..].iter();
    let during = during.take_while(|wait| wait.span.start < request.span.end);
    during
        .filter(|wait| !to_the_end || wait.outlasts(request))
        .map(|wait| wait.overlap(request))
        .filter(|&overlap| overlap > Nanos::ZERO)
        .max()
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
#[path = "disk_tests.rs"]
mod tests;
