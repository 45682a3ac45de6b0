//! What the recorder keeps of memory, disks and the machine as a whole.

use super::Book;
use crate::charge::Charge;
use crate::disk::{BlockIo, RequestKind, counts_requests};
use crate::host::HostSample;
use crate::memory::{MemoryWork, MemoryWorkKind, OomKill};
use gpustall_trace::MonoTime;
use gpustall_wire::record;
use gpustall_wire::thread::ThreadState;

/// Most samples of the machine that are kept: those of more than five hours.
const MAX_HOST_SAMPLES: usize = 100_000;

/// Sources of losses on this side: what comes after [`Options::max_intervals`](crate::Options).
const MEMORY_BEYOND_LIMIT: &str = "memory work beyond the limit in memory";
const REQUESTS_BEYOND_LIMIT: &str = "disk requests beyond the limit in memory";

impl Book {
    pub(super) fn memory_work(&mut self, work: &record::MemoryWork) -> MonoTime {
        let (begin, end) = (self.time(work.begin_ns), self.time(work.end_ns));
        if let Some(kind) = MemoryWorkKind::of_code(work.work)
            && self.has_place(self.memory_work.len(), MEMORY_BEYOND_LIMIT)
        {
            let thread = self.thread(work.tid, work.tgid, begin);
            self.memory_work.push(MemoryWork {
                thread,
                kind,
                begin,
                end,
                pages: (kind != MemoryWorkKind::Compaction).then_some(work.pages),
                unfinished: false,
            });
        }
        MonoTime::from_nanos(work.end_ns)
    }

    /// What the kernel still did on a thread when the recording ended.
    pub(super) fn unfinished_memory_work(
        &mut self,
        thread: u32,
        state: &ThreadState,
        end: MonoTime,
    ) {
        for (code, &begin_ns) in state.memory_ns.iter().enumerate() {
            let kind = MemoryWorkKind::of_code(code as u32);
            if let Some(kind) = kind.filter(|_| begin_ns != 0) {
                self.memory_work.push(MemoryWork {
                    thread,
                    kind,
                    begin: self.time(begin_ns),
                    end: end.in_trace(self.start),
                    pages: None,
                    unfinished: true,
                });
            }
        }
    }

    pub(super) fn oom_kill(&mut self, kill: &record::OomKill) -> MonoTime {
        if let Some(thread) = self.threads.latest(kill.tid)
            && let Some(pid) = self.threads.get_mut(thread).map(|thread| thread.pid)
        {
            let wanted_by = self.other(kill.wanted_by);
            self.oom_kills.push(OomKill {
                thread,
                pid,
                at: self.time(kill.at_ns),
                wanted_by,
            });
        }
        MonoTime::from_nanos(kill.at_ns)
    }

    pub(super) fn block_io(&mut self, request: &record::BlockIo) -> MonoTime {
        let kept = self.charges.held() + self.block_io.len();
        if self.has_place(kept, REQUESTS_BEYOND_LIMIT) {
            self.charges.request(*request, false);
        }
        MonoTime::from_nanos(request.done_ns)
    }

    /// Keeps the requests that have been held for long enough.
    pub(crate) fn settle_requests(&mut self, now: MonoTime) {
        let charges = self.charges.settle(now.as_nanos());
        self.keep_requests(charges);
    }

    /// Keeps the requests that are charged to a thread that ends.
    pub(super) fn settle_requests_of(&mut self, tid: u32) {
        let charges = self.charges.settle_thread(tid);
        self.keep_requests(charges);
    }

    /// Keeps all requests, and those that are in flight when the recording ends.
    pub(crate) fn end_requests(&mut self, in_flight: Vec<record::BlockIo>, end: MonoTime) {
        for request in in_flight {
            let disk = self.disks.name(request.major, request.minor);
            if counts_requests(&disk) {
                let until = record::BlockIo {
                    done_ns: end.as_nanos(),
                    ..request
                };
                self.charges.request(until, true);
            }
        }
        let charges = self.charges.settle_all();
        self.keep_requests(charges);
        self.block_io.sort_by_key(|request| request.done);
    }

    fn keep_requests(&mut self, charges: Vec<Charge>) {
        for Charge {
            request,
            tid,
            unfinished,
        } in charges
        {
            let by = request.submitter;
            let own = self.threads.latest(tid);
            // A thread that the kernel made for a process (of io_uring) is not tracked: the first
            // thread of the process stands for it.
            let Some(thread) = own.or_else(|| self.threads.latest(by.tgid)) else {
                continue;
            };
            let another = own.is_none() || tid != by.tid;
            let submitter = another.then(|| self.other(by));
            self.block_io.push(BlockIo {
                thread,
                submitter,
                kind: RequestKind::of_code(request.op, request.bytes),
                bytes: request.bytes.into(),
                disk: self.disks.name(request.major, request.minor),
                start: self.time(request.start_ns),
                done: self.time(request.done_ns),
                unfinished,
            });
        }
    }

    /// Keeps a look at the machine as a whole that was taken at `at`.
    pub(crate) fn host_sample(&mut self, sample: HostSample, at: MonoTime) {
        if self.host_samples.len() < MAX_HOST_SAMPLES {
            let at = at.in_trace(self.start);
            self.host_samples.push(HostSample { at, ..sample });
        }
    }
}
