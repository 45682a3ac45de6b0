//! What each event of the probes adds to the recording.

use super::Book;
use crate::charge::IoWait;
use crate::event::Event;
use crate::people::name_of;
use crate::procfs;
use crate::recording::{self, CpuSample, Faults, OffCpuInterval, OtherId, Totals, Waker, Why};
use crate::runs::Stacks;
use gpustall_trace::{MonoTime, TraceTime};
use gpustall_wire::codes::{flag, waker};
use gpustall_wire::record::{Exit, Life, OffCpu, Other, Sample};

/// Sources of losses on this side: what comes after [`Options::max_intervals`](crate::Options).
const BEYOND_LIMIT: [&str; 2] = [
    "off-cpu intervals beyond the limit in memory",
    "cpu samples beyond the limit in memory",
];

impl Book {
    /// Adds one event of a thread of process `tgid`; returns when it was.
    pub(crate) fn add(&mut self, event: &Event, tgid: u32) -> MonoTime {
        match event {
            Event::OffCpu(off, stack) => self.off_cpu(off, stack, tgid),
            Event::Fork(life) => self.fork(life),
            Event::Exec(life) => {
                if life.other_tid != life.tid {
                    let ids = self.view.thread(life.tgid, life.tid);
                    self.threads.take_id(life.other_tid, life.tid, ids);
                }
                self.rename(life)
            }
            Event::Rename(life) => self.rename(life),
            Event::Exit(exit) => self.exit(exit),
            Event::Sample(sample) => self.sample(sample),
            Event::MemoryWork(work) => self.memory_work(work),
            Event::BlockIo(request) => self.block_io(request),
            Event::OomKill(kill) => self.oom_kill(kill),
            Event::CudaCall(call) => self.cuda_call(call),
        }
    }

    /// Position of the living thread `tid`; added, with its name from `/proc`, when its beginning was
    /// lost.
    pub(super) fn thread(&mut self, tid: u32, tgid: u32, at: TraceTime) -> u32 {
        self.threads.position(tid).unwrap_or_else(|| {
            let name = procfs::name(tgid, tid).unwrap_or_default();
            let ids = self.view.thread(tgid, tid);
            self.threads.add(tid, ids, at, name)
        })
    }

    fn off_cpu(&mut self, off: &OffCpu, stack: &[u64], tgid: u32) -> MonoTime {
        let at = MonoTime::from_nanos(off.in_ns);
        if !self.has_place(self.intervals.len(), BEYOND_LIMIT[0]) {
            return at;
        }
        let thread = self.thread(off.tid, tgid, self.time(off.out_ns));
        let mut out_ns = off.out_ns;
        let mut truncated = off.flags & flag::TRUNCATED != 0;
        if let Some(before) = self.before.get(&off.tid)
            && before.since_ns > out_ns
        {
            (out_ns, truncated) = (before.since_ns, true);
        }
        let inferred = off.flags & flag::INFERRED != 0;
        let whole = !truncated && !inferred;
        self.inferred += u64::from(inferred);
        let waker = self.waker(off.waker_kind, off.waker);
        let taker = whole.then(|| self.other(off.taker));
        let giver = (!inferred).then(|| self.other(off.giver));
        let wait = self.waits.of_addresses(stack);
        let (why, iowait) = (Why::of_class(off.class), off.flags & flag::IOWAIT != 0);
        let until_ns = match off.woken_ns {
            0 => off.in_ns,
            woken_ns => woken_ns,
        };
        let class = wait.and_then(|id| self.waits.class(id));
        if let Some(wait) = IoWait::of(why, class, iowait, (off.out_ns, until_ns)) {
            self.charges.wait(off.tid, wait);
        }
        self.intervals.push(OffCpuInterval {
            thread,
            out: self.time(out_ns),
            woken: (off.woken_ns != 0).then(|| self.time(off.woken_ns.max(out_ns))),
            back: self.time(off.in_ns),
            why,
            iowait,
            truncated,
            inferred,
            unfinished: false,
            cpu_out: whole.then_some(off.cpu_out),
            cpu_in: Some(off.cpu_in),
            waker,
            taker,
            giver,
            wait,
            faults: Faults {
                minor: off.minor_faults,
                major: off.major_faults,
            },
        });
        at
    }

    fn sample(&mut self, sample: &Sample) -> MonoTime {
        let at = self.time(sample.at_ns);
        if self.has_place(self.samples.len(), BEYOND_LIMIT[1]) {
            let part = |stack: &[u64], frames: u32| -> Vec<u64> {
                let filled = stack.iter().copied().take(frames as usize);
                filled.take_while(|&ip| ip != 0).collect()
            };
            let stacks = Stacks {
                pid: sample.tgid,
                kernel: part(&sample.kernel, sample.kernel_frames),
                user: part(&sample.user, sample.user_frames),
            };
            let thread = self.thread(sample.tid, sample.tgid, at);
            self.samples.push(CpuSample {
                thread,
                at,
                cpu: sample.cpu,
                run: self.runs.id(stacks),
            });
        }
        MonoTime::from_nanos(sample.at_ns)
    }

    pub(super) fn waker(&mut self, kind: u32, other: Other) -> Waker {
        match kind {
            waker::THREAD => Waker::Thread(self.other(other)),
            waker::TIMER => Waker::Timer,
            waker::DEVICE => Waker::Device,
            waker::KERNEL => Waker::Kernel,
            _ => Waker::None,
        }
    }

    /// The thread that a record names, as the reader may see it.
    pub(super) fn other(&mut self, other: Other) -> OtherId {
        let Self {
            others,
            threads,
            view,
            ..
        } = self;
        others.id(other, |other| {
            let name = name_of(&other.comm);
            if !threads.knows(other.tid) || other.tid == 0 {
                return view.other(other, name);
            }
            let (pid, tid) = view.thread(other.tgid, other.tid);
            recording::Other {
                tid,
                pid,
                name,
                has_ids: true,
            }
        })
    }

    fn fork(&mut self, life: &Life) -> MonoTime {
        let at = self.time(life.at_ns);
        if !self.threads.knows(life.tid) {
            let ids = self.view.thread(life.tgid, life.tid);
            self.threads.add(life.tid, ids, at, name_of(&life.comm));
        }
        let parent = self.threads.living(life.other_tid).map(|t| t.tid);
        if let Some(thread) = self.threads.living(life.tid) {
            thread.parent = parent;
        }
        MonoTime::from_nanos(life.at_ns)
    }

    fn rename(&mut self, life: &Life) -> MonoTime {
        if let Some(thread) = self.threads.living(life.tid) {
            thread.name = name_of(&life.comm);
        }
        MonoTime::from_nanos(life.at_ns)
    }

    pub(super) fn exit(&mut self, exit: &Exit) -> MonoTime {
        let (first, totals) = self.since_the_start(exit.tid, exit.totals);
        let last = self.time(exit.at_ns);
        let index = self.thread(exit.tid, exit.tgid, first);
        if let Some(thread) = self.threads.get_mut(index) {
            (thread.first, thread.last, thread.ended) = (first, last, true);
            thread.totals = Totals::new(totals, self.options.page_allocs);
        }
        self.settle_requests_of(exit.tid);
        self.threads.bury(exit.tid);
        self.before.remove(&exit.tid);
        MonoTime::from_nanos(exit.at_ns)
    }
}
