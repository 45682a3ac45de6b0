//! Who waited for each request to a block device.
//!
//! The kernel says who handed a request in. Who waited for it follows from the stretches off CPU
//! while it was in flight: the thread that handed it in, if it waited for I/O meanwhile; else another
//! tracked thread whose wait for I/O lasted until the request was done. Requests of the kernel's own
//! threads for which no tracked thread waited are no part of the recording.
//!
//! A wait is reported when it is over, later than the requests that it was for. So requests are held
//! for a while before they are charged. Threads are known by their ids here, and times are
//! nanoseconds of `CLOCK_MONOTONIC`, as the probes report them.

use crate::disk::RequestKind;
use crate::recording::Why;
use crate::wait::WaitClass;
use gpustall_wire::codes::request_flag;
use gpustall_wire::record::BlockIo;
use std::collections::BTreeMap;

/// How much later than the wake-up of who waited a request may be reported done: the kernel wakes
/// first and counts then.
const REPORTED_LATE_NS: u64 = 200_000;
/// A thread that waited for a request of its own has told so by then.
const HOLD_NS: u64 = 1_000_000_000;
/// The kernel's threads may hand in many requests, one after another, for one wait.
const HOLD_OF_KERNEL_NS: u64 = 10_000_000_000;
/// Most requests that are held without anybody who waited for them; the oldest are dropped. A machine
/// that writes back for other programs makes many.
const MAX_UNCHARGED: usize = 10_000;

/// A stretch of time that a thread was blocked for I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoWait {
    from_ns: u64,
    to_ns: u64,
    reads: bool,
    writes: bool,
}

impl IoWait {
    /// A stretch off CPU of this kind; `None` when that was not for I/O.
    pub(crate) fn of(
        why: Why,
        class: Option<WaitClass>,
        iowait: bool,
        (from_ns, to_ns): (u64, u64),
    ) -> Option<Self> {
        if !matches!(why, Why::Sleeping | Why::Uninterruptible) {
            return None;
        }
        let (reads, writes) = match class {
            Some(WaitClass::Read | WaitClass::PageFault) => (true, false),
            Some(WaitClass::Write) => (false, true),
            _ if iowait => (true, true),
            _ => return None,
        };
        Some(Self {
            from_ns,
            to_ns,
            reads,
            writes,
        })
    }

    /// How long it was a wait for such a request, ns.
    fn overlap(&self, request: &BlockIo) -> u64 {
        let fits = match RequestKind::of_code(request.op, request.bytes) {
            RequestKind::Read => self.reads,
            _ => self.writes,
        };
        let end = self.to_ns.min(request.done_ns);
        match fits {
            true => end.saturating_sub(self.from_ns.max(request.start_ns)),
            false => 0,
        }
    }

    /// Whether it lasted until the request was done.
    fn outlasts(&self, request: &BlockIo) -> bool {
        self.to_ns + REPORTED_LATE_NS >= request.done_ns
    }
}

/// A request, and who waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    /// The request.
    pub(crate) request: BlockIo,
    /// Id of the thread that waited for it, or handed it in when nobody did.
    pub(crate) tid: u32,
    /// Whether it was still in flight at the end of the recording.
    pub(crate) unfinished: bool,
}

/// Holds requests until they can be charged, and the waits that they may have been for.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    requests: Vec<(BlockIo, bool)>,
    /// By thread, each in their order.
    waits: BTreeMap<u32, Vec<IoWait>>,
}

impl Charges {
    /// Requests that are held.
    pub(crate) fn held(&self) -> usize {
        self.requests.len()
    }

    /// A request is done, or `unfinished` at the end of the recording.
    pub(crate) fn request(&mut self, request: BlockIo, unfinished: bool) {
        self.requests.push((request, unfinished));
    }

    /// The thread `tid` waited for I/O. Its waits must come in their order.
    pub(crate) fn wait(&mut self, tid: u32, wait: IoWait) {
        self.waits.entry(tid).or_default().push(wait);
    }

    /// The requests that have been held for long enough at `now_ns`.
    pub(crate) fn settle(&mut self, now_ns: u64) -> Vec<Charge> {
        let uncharged = self.requests.iter().filter(|(r, _)| by_kernel(r)).count();
        let mut beyond = uncharged.saturating_sub(MAX_UNCHARGED);
        self.requests.retain(|(request, _)| {
            let drop = beyond > 0 && by_kernel(request) && who(&self.waits, request).is_none();
            beyond -= usize::from(drop);
            !drop
        });
        let due = |request: &BlockIo, found: Option<u32>| {
            let hold = match found {
                Some(_) => HOLD_NS,
                None => HOLD_OF_KERNEL_NS,
            };
            request.done_ns + hold <= now_ns
        };
        let charged = self.charge(due);
        self.waits.retain(|_, waits| {
            waits.retain(|wait| wait.to_ns + HOLD_OF_KERNEL_NS > now_ns);
            !waits.is_empty()
        });
        charged
    }

    /// The requests that are charged to `tid` as far as is known: the thread ends.
    pub(crate) fn settle_thread(&mut self, tid: u32) -> Vec<Charge> {
        // Most threads that end soon after they began have none.
        let own = |(request, _): &(BlockIo, bool)| request.submitter.tid == tid;
        if !self.waits.contains_key(&tid) && !self.requests.iter().any(own) {
            return Vec::new();
        }
        self.charge(|_, found| found == Some(tid))
    }

    /// All requests: the recording ends.
    pub(crate) fn settle_all(&mut self) -> Vec<Charge> {
        self.charge(|_, _| true)
    }

    /// Takes out the requests that are `due`, which is told who each is charged to.
    fn charge(&mut self, due: impl Fn(&BlockIo, Option<u32>) -> bool) -> Vec<Charge> {
        let mut charged = Vec::new();
        let waits = &self.waits;
        self.requests.retain(|&(request, unfinished)| {
            let tid = who(waits, &request);
            let due = due(&request, tid);
            if let Some(tid) = tid.filter(|_| due) {
                charged.push(Charge {
                    request,
                    tid,
                    unfinished,
                });
            }
            !due
        });
        charged
    }
}

/// Who waited for the request, or handed it in when nobody did. `None` for a request of a thread of
/// the kernel for which nobody waited.
fn who(waits: &BTreeMap<u32, Vec<IoWait>>, request: &BlockIo) -> Option<u32> {
    let own = (!by_kernel(request)).then_some(request.submitter.tid);
    let own_waits = own.and_then(|tid| waits.get(&tid));
    if own_waits.is_some_and(|waits| longest(waits, request, false) > 0) {
        return own;
    }
    let others = waits.iter().filter(|&(&tid, _)| Some(tid) != own);
    let others = others.map(|(&tid, waits)| (longest(waits, request, true), tid));
    match others.max() {
        Some((1.., tid)) => Some(tid),
        _ => own,
    }
}

fn by_kernel(request: &BlockIo) -> bool {
    request.flags & request_flag::KERNEL_THREAD != 0
}

/// The longest wait for the request in one piece, ns; only what lasted until it was done, if
/// `to_the_end`.
fn longest(waits: &[IoWait], request: &BlockIo, to_the_end: bool) -> u64 {
    let first = waits.partition_point(|wait| wait.to_ns < request.start_ns);
    let during = waits[first..].iter();
    let during = during.take_while(|wait| wait.from_ns < request.done_ns);
    let during = during.filter(|wait| !to_the_end || wait.outlasts(request));
    during.map(|wait| wait.overlap(request)).max().unwrap_or(0)
}

#[cfg(test)]
#[path = "charge_tests.rs"]
mod tests;
