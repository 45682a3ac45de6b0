//! What the scheduler says of a thread, asked moment by moment.
//!
//! Written from the definitions in `docs/causes.md`; it shares no code with the engine.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "it is part of two tests, and one of them does not ask about memory"
)]

use crate::common::kernel::{Off as Drawn, blocked};
use crate::common::{Builder, V};
use gpustall_trace::vocab::{cat, state, totals};
use proptest::prelude::*;
use std::cmp::Reverse;

/// Threads: the trainer, two workers, a helper of the same process.
pub const TIDS: [u32; 4] = [100, 101, 102, 700];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    File,
    Peer,
    Memory,
    Lock,
    OwnThread,
    Driver,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Unknown,
    Running,
    Waits,
    Blocked(On),
}

/// Classes and functions of waits, and what they are.
const WAITS: [(&str, &str, On); 9] = [
    ("futex", "futex_wait_queue", On::Lock),
    ("file read", "filemap_read", On::File),
    ("page fault", "filemap_fault", On::File),
    ("page fault", "do_swap_page", On::Memory),
    ("mmap lock", "lock_mm_and_find_vma", On::Memory),
    ("socket", "tcp_recvmsg", On::Peer),
    ("gpu driver", "nvidia_ioctl", On::Driver),
    ("sleep", "hrtimer_nanosleep", On::Other),
    ("", "", On::Other),
];

#[derive(Debug, Clone, Copy)]
pub struct Off {
    pub thread: usize,
    pub start: u64,
    pub end: u64,
    /// Position in [`WAITS`]; `None`: preempted.
    pub wait: Option<usize>,
    pub runnable: u64,
    pub iowait: bool,
    /// Position of the waker.
    pub waker: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub struct Watch {
    pub thread: usize,
    pub start: u64,
    pub end: u64,
    /// Percent of the watched time that was lost.
    pub lost: u64,
}

/// All that the sidecar recorded.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Moments of the recording, and for how many running ones on either side a sample stands.
    pub end: u64,
    pub reach: u64,
    pub offs: Vec<Off>,
    pub watches: Vec<Watch>,
    /// Thread, time, whether it was in a page fault.
    pub samples: Vec<(usize, u64, bool)>,
    /// Reclaim: thread, from, to.
    pub memory: Vec<(usize, u64, u64)>,
    /// Threads that make batches in the recording.
    pub makers: Vec<usize>,
}

/// Events in `end` moments of `unit` nanoseconds each. What cuts running time, and samples, have even
/// times, so that the middle between two samples is the beginning of a moment.
pub fn kernel(end: u64, unit: u64) -> impl Strategy<Value = Kernel> {
    let half = end / 2;
    let thread = 0usize..TIDS.len();
    let off = (
        thread.clone(),
        0u64..half,
        1u64..30,
        prop::option::weighted(0.75, 0..WAITS.len()),
        0u64..20,
        prop::bool::weighted(0.2),
        prop::option::weighted(0.6, 0usize..TIDS.len()),
    );
    let off = off.prop_map(|(thread, start, len, wait, runnable, iowait, waker)| Off {
        thread,
        start: 2 * start,
        end: 2 * (start + len),
        wait,
        runnable,
        iowait,
        waker,
    });
    let watch = (thread.clone(), 0u64..100, 25u64..half, 0u64..3);
    let watch = watch.prop_map(move |(thread, start, len, lost)| Watch {
        thread,
        start: 2 * start,
        end: (2 * (start + len)).min(end),
        lost,
    });
    (
        prop::collection::vec(off, 0..24),
        prop::collection::vec(watch, 0..6),
        prop::collection::vec((thread.clone(), 1u64..half, any::<bool>()), 0..24),
        prop::collection::vec((thread, 0u64..end, 1u64..40), 0..4),
    )
        .prop_map(move |(mut offs, watches, mut samples, memory)| {
            // Of equal ones one is enough: which of them counts is not the rule's.
            offs.sort_by_key(|off| (off.thread, off.start, off.end.min(end)));
            offs.dedup_by_key(|off| (off.thread, off.start, off.end.min(end)));
            samples.iter_mut().for_each(|sample| sample.1 *= 2);
            samples.sort_by_key(|&(thread, at, _)| (thread, at));
            samples.dedup_by_key(|&mut (thread, at, _)| (thread, at));
            Kernel {
                end,
                reach: 5_000_000 / unit,
                offs,
                watches,
                samples,
                memory: memory
                    .into_iter()
                    .map(|(t, from, len)| (t, from, from + len))
                    .collect(),
                makers: Vec::new(),
            }
        })
}

impl Kernel {
    /// Puts the events into a trace in which all threads have tracks.
    pub fn draw(&self, b: &mut Builder, tracks: [gpustall_trace::TrackId; 4]) {
        for off in &self.offs {
            let mut drawn: Drawn<'_> = match off.wait {
                Some(wait) => blocked(WAITS[wait].0, WAITS[wait].1),
                None => Drawn {
                    state: state::PREEMPTED,
                    ..blocked("", "")
                },
            };
            drawn.runnable = off.runnable;
            // Its CPU was not idle.
            drawn.giver = Some(("another", 950));
            drawn.iowait = off.iowait;
            if let Some(waker) = off.waker {
                drawn = drawn.woken_by("waker", TIDS[waker]);
            }
            b.off(TIDS[off.thread], drawn, (off.start, off.end));
        }
        for watch in &self.watches {
            let lost = (watch.end - watch.start) * b.unit * watch.lost / 100;
            let lost = [(totals::LOST_NS, lost)];
            b.watch(TIDS[watch.thread], (watch.start, watch.end), &lost);
        }
        for &(thread, at, fault) in &self.samples {
            let running = if fault { "page fault" } else { "user" };
            b.sample(TIDS[thread], running, "f", at);
        }
        for &(thread, from, to) in &self.memory {
            let none: [(&str, V<'_>); 0] = [];
            b.slice(
                tracks[thread],
                cat::RECLAIM,
                "direct reclaim",
                (from, to),
                &none,
            );
        }
    }

    fn watched(&self, thread: usize, t: u64) -> bool {
        let mut totals = self
            .watches
            .iter()
            .filter(|of| of.thread == thread)
            .peekable();
        if totals.peek().is_some() {
            return totals.any(|of| of.lost <= 1 && of.start <= t && t < of.end);
        }
        let own = || self.offs.iter().filter(|of| of.thread == thread);
        let start = own().map(|of| of.start).min();
        let end = own().map(|of| of.end.min(self.end)).max();
        start
            .zip(end)
            .is_some_and(|(start, end)| start <= t && t < end)
    }

    fn off(&self, thread: usize, t: u64) -> Option<&Off> {
        let around = self
            .offs
            .iter()
            .filter(|of| of.thread == thread && of.start <= t && t < of.end);
        around.max_by_key(|of| (of.start, Reverse(of.end.min(self.end))))
    }

    /// When a blocked thread was ready to run.
    fn ready(&self, off: &Off) -> u64 {
        off.end
            .saturating_sub(off.runnable)
            .clamp(off.start, off.end.min(self.end))
    }

    fn on(&self, off: &Off, wait: usize) -> On {
        let (class, _, on) = WAITS[wait];
        let blocked = off.start..self.ready(off);
        match on {
            On::Other if off.iowait => On::File,
            On::Lock if class == "futex" => {
                let helps = off.waker.is_some_and(|waker| {
                    let ran = blocked
                        .clone()
                        .filter(|&t| self.state_but_delegated(waker, t) == State::Running);
                    !self.makers.contains(&waker)
                        && 2 * ran.count() as u64 >= blocked.end - blocked.start
                        && self.idles(waker, off.thread)
                });
                if helps { On::OwnThread } else { On::Lock }
            }
            on => on,
        }
    }

    /// Whether a thread does not always run outside of the waits of another one that it ended.
    fn idles(&self, thread: usize, other: usize) -> bool {
        let is = |t: u64, state| self.state_but_delegated(thread, t) == state;
        let known = (0..self.end).filter(|&t| !is(t, State::Unknown)).count() as u64;
        let ran = |from: u64, to: u64| (from..to).filter(|&t| is(t, State::Running)).count() as u64;
        let (mut inside, mut ran_inside) = (0, 0);
        for off in self.offs.iter().filter(|off| off.thread == other) {
            let futex = off.wait.is_some_and(|wait| WAITS[wait].2 == On::Lock);
            if futex && off.waker == Some(thread) {
                inside += self.ready(off) - off.start;
                ran_inside += ran(off.start, self.ready(off));
            }
        }
        let outside = known.saturating_sub(inside);
        let ran = ran(0, self.end).saturating_sub(ran_inside);
        ran == 0 || ran * 10 < outside * 9
    }

    fn state_but_delegated(&self, thread: usize, t: u64) -> State {
        match self.off(thread, t) {
            Some(off) if off.wait.is_some() && t < self.ready(off) => State::Blocked(On::Other),
            Some(_) => State::Waits,
            None if self.watched(thread, t) => State::Running,
            None => State::Unknown,
        }
    }

    /// What a thread did at a moment.
    pub fn state(&self, thread: usize, t: u64) -> State {
        match (self.state_but_delegated(thread, t), self.off(thread, t)) {
            (State::Blocked(_), Some(off)) => {
                State::Blocked(off.wait.map_or(On::Other, |wait| self.on(off, wait)))
            }
            (state, _) => state,
        }
    }

    /// Whether the kernel was at work to give it memory.
    pub fn at_memory(&self, thread: usize, t: u64) -> bool {
        let state = self.state(thread, t);
        let in_slice = self
            .memory
            .iter()
            .any(|&(of, from, to)| of == thread && from <= t && t < to);
        let sampled = state == State::Running && self.nearest_sample_says_so(thread, t);
        match state {
            State::Running => in_slice || sampled,
            State::Blocked(_) => in_slice,
            State::Waits | State::Unknown => false,
        }
    }

    /// Whether the sample that is nearest in running time, if one is near enough, was in a fault.
    fn nearest_sample_says_so(&self, thread: usize, t: u64) -> bool {
        let ran = |from: u64, to: u64| {
            let runs = |&t: &u64| self.state(thread, t) == State::Running;
            (from..to.min(self.end)).filter(runs).count() as u64
        };
        let own = || self.samples.iter().filter(|of| of.0 == thread);
        let last = own().filter(|of| of.1 <= t).max_by_key(|of| of.1);
        let next = own().filter(|of| of.1 > t).min_by_key(|of| of.1);
        let last = last.map(|&(_, at, fault)| (ran(at, t + 1), fault));
        let next = next.map(|&(_, at, fault)| (ran(t, at), fault));
        let nearest = last.into_iter().chain(next).min_by_key(|near| near.0);
        nearest.is_some_and(|(ran, fault)| fault && ran <= self.reach)
    }

    /// Whether it holds a host thread up.
    pub fn holds_up(state: State) -> bool {
        matches!(state, State::Blocked(on) if on != On::OwnThread && on != On::Driver)
    }
}
