//! What the scheduler says of a thread in a unit of time.

use super::holds;
use super::host::{Run, Thread};
use super::{Span, host::UNIT};
use crate::common::PID;
use crate::common::kernel::Off;
use gpustall_trace::vocab::state;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum On {
    Lock,
    OwnThreads,
    File,
    Memory,
    Peer,
    Driver,
    Else,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Blocked(On),
    WaitsForCpu,
    Runs,
    Unwatched,
}

impl Run {
    pub fn state(&self, tid: u32, t: u64) -> State {
        let Some(thread) = self.thread(tid) else {
            return State::Unwatched;
        };
        let Some(&(off, span)) = thread.off_at(t) else {
            return match thread.watched(t) {
                true => State::Runs,
                false => State::Unwatched,
            };
        };
        match holds(blocked_part(&off, span), t) {
            true => State::Blocked(self.blocked_on(tid, &off, span)),
            false => State::WaitsForCpu,
        }
    }

    fn blocked_on(&self, tid: u32, off: &Off<'_>, span: Span) -> On {
        let (class, function) = off.wait.unwrap_or_default();
        match class {
            "futex" if self.works_for(tid, off, span) => On::OwnThreads,
            "futex" => On::Lock,
            "reclaim" | "mmap lock" => On::Memory,
            "page fault"
                if function == "do_swap_page" || function.starts_with("migration_entry_wait") =>
            {
                On::Memory
            }
            "file read" | "write" | "page fault" => On::File,
            "sleep" | "process" | "signal" | "other" | "" if off.iowait => On::File,
            "socket" | "pipe" | "poll" => On::Peer,
            "gpu driver" => On::Driver,
            _ => On::Else,
        }
    }

    /// Whether who woke the thread did its work meanwhile.
    fn works_for(&self, tid: u32, off: &Off<'_>, span: Span) -> bool {
        let Some((_, waker, pid)) = off.waker else {
            return false;
        };
        if pid != PID.0 || self.stages.iter().any(|stage| stage.tid == waker) {
            return false;
        }
        let part = blocked_part(off, span);
        let ran = (part.0..part.1).filter(|&t| self.runs(waker, t)).count() as u64;
        ran * 2 >= part.1 - part.0 && !self.always_runs(waker, tid)
    }

    fn always_runs(&self, waker: u32, waiter: u32) -> bool {
        let ended = self.thread(waiter).into_iter().flat_map(|t| &t.offs);
        let ended: Vec<Span> = ended
            .filter(|(off, _)| off.wait.is_some_and(|wait| wait.0 == "futex"))
            .filter(|(off, _)| off.waker.is_some_and(|w| (w.1, w.2) == (waker, PID.0)))
            .map(|(off, span)| blocked_part(off, *span))
            .collect();
        let (mut ran, mut known) = (0, 0);
        let thread = self.thread(waker).expect("it has run");
        for t in (0..self.end).filter(|&t| !ended.iter().any(|&span| holds(span, t))) {
            ran += u64::from(self.runs(waker, t));
            known += u64::from(thread.watched(t) || thread.off_at(t).is_some());
        }
        ran > 0 && ran * 10 >= known * 9
    }

    pub fn runs(&self, tid: u32, t: u64) -> bool {
        self.thread(tid)
            .is_some_and(|thread| thread.off_at(t).is_none() && thread.watched(t))
    }

    pub fn watched(&self, tid: u32, t: u64) -> bool {
        self.thread(tid).is_some_and(|thread| thread.watched(t))
    }

    /// Whether the kernel is at work to give the thread memory.
    pub fn at_work_for_memory(&self, tid: u32, t: u64) -> bool {
        let Some(thread) = self.thread(tid) else {
            return false;
        };
        if thread.memory.iter().any(|&(_, span)| holds(span, t)) {
            return self.state(tid, t) != State::WaitsForCpu;
        }
        let near = |from: u64, to: u64| (from..to).filter(|&u| self.runs(tid, u)).count() as u64;
        let samples = || thread.samples.iter();
        let before = samples().filter(|of| of.0 <= t);
        let before = before.map(|of| (near(of.0, t + 1), of));
        let after = samples().filter(|of| of.0 > t);
        let after = after.map(|of| (near(t, of.0), of));
        // Of two with no running time between them, the one that was taken last before, or first after.
        let before = before.min_by_key(|&(ran, of)| (ran, u64::MAX - of.0));
        let after = after.min_by_key(|&(ran, of)| (ran, of.0));
        let nearest = before.into_iter().chain(after).min_by_key(|near| near.0);
        self.runs(tid, t)
            && nearest.is_some_and(|(ran, &(_, running, function))| {
                ran * UNIT <= 5_000_000 && says_memory(running, function)
            })
    }
}

impl Thread {
    pub fn watched(&self, t: u64) -> bool {
        self.turns().any(|turn| holds(turn, t))
    }

    /// From when to when it was watched, once for each thread that had the id in turn.
    pub fn turns(&self) -> impl Iterator<Item = Span> {
        let mut turns = Vec::new();
        for &(span, lost) in &self.watches {
            if lost * 100 <= span.1 - span.0 {
                turns.push(span);
            }
        }
        let start = self.offs.iter().map(|off| off.1.0).min();
        let end = self.offs.iter().map(|off| off.1.1).max();
        if self.watches.is_empty() {
            turns.extend(start.zip(end));
        }
        turns.into_iter()
    }

    fn off_at(&self, t: u64) -> Option<&(Off<'static>, Span)> {
        let at = self.offs.iter().filter(|(_, span)| holds(*span, t));
        at.max_by_key(|(_, span)| (span.0, std::cmp::Reverse(span.1)))
    }
}

pub fn blocked_part(off: &Off<'_>, span: Span) -> Span {
    match off.state {
        state::PREEMPTED | state::STARTING => (span.0, span.0),
        _ => (span.0, span.1 - off.runnable),
    }
}

fn says_memory(running: &str, function: &str) -> bool {
    const CALLS: [&str; 5] = [
        "sys_mmap",
        "sys_munmap",
        "sys_mremap",
        "sys_madvise",
        "sys_brk",
    ];
    match running {
        "page fault" | "reclaim" => true,
        "system" => CALLS.iter().any(|call| function.ends_with(call)),
        _ => false,
    }
}
