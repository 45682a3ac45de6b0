//! What the kernel says of some stretches of threads, added up.

use super::cpus::waited_on;
use super::read::Off;
use super::{Lane, Stretch, Threads};
use crate::rules::{BlockedOn, ThreadState};
use gpustall_trace::{Interval, Nanos, Symbol, Tid};
use std::collections::{BTreeMap, BTreeSet};

/// Another thread: its name and, where it is known, its id.
pub(crate) type Who = (Symbol, Option<Tid>);

/// What a thread was blocked on: the kind, the class as the sidecar calls it, the function.
pub(crate) type What = (BlockedOn, Symbol, Option<Symbol>);

/// States added up over stretches of one or several threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateSums {
    /// Not watched.
    pub(crate) unknown: Nanos,
    /// Running, and not at work for memory.
    pub(crate) running: Nanos,
    /// Running, at work for memory or not.
    pub(crate) on_cpu: Nanos,
    /// Running at work for memory, or blocked on something else inside such work.
    pub(crate) memory: Nanos,
    /// Ready to run, without a CPU.
    pub(crate) waiting: Nanos,
    /// Of that, what began with another thread taking the CPU.
    pub(crate) preempted: Nanos,
    /// Blocked, not inside work for memory.
    pub(crate) blocked: BTreeMap<What, Nanos>,
    /// Of the time off CPU, that of intervals of which an end was inferred.
    pub(crate) inferred: Nanos,
    /// Who had the CPU while they waited for one.
    pub(crate) held_by: BTreeMap<Who, Nanos>,
    /// Of that, what is only inferred.
    pub(crate) held_inferred: Nanos,
    /// On which CPU they waited.
    pub(crate) cpus: BTreeMap<u64, Nanos>,
    /// Who ended the waits on a lock, and how much of them.
    pub(crate) woken_by: BTreeMap<Who, Nanos>,
    /// Requests that were done while they were blocked, their bytes, and the disks.
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) disks: BTreeSet<Symbol>,
    /// What ran when a sample was taken: class, function.
    pub(crate) samples: BTreeMap<(Option<Symbol>, Symbol), u64>,
    /// The threads.
    pub(crate) tids: BTreeSet<Tid>,
}

impl StateSums {
    /// Adds what a thread, `lane` of `threads`, did in `span`.
    pub(crate) fn add(&mut self, threads: &Threads, tid: Tid, lane: &Lane, span: Interval) {
        self.tids.insert(tid);
        for stretch in lane.during(span) {
            self.add_stretch(threads, (tid, lane), stretch);
        }
    }

    fn add_stretch(&mut self, threads: &Threads, (tid, lane): (Tid, &Lane), stretch: Stretch) {
        let ns = stretch.span.len();
        let off = stretch.off.and_then(|at| lane.off.get(at));
        if off.is_some_and(|off| off.inferred) {
            self.inferred += ns;
        }
        match stretch.state {
            ThreadState::Unknown => self.unknown += ns,
            ThreadState::Running => {
                for sample in lane.samples_in(stretch.span) {
                    *self
                        .samples
                        .entry((sample.class, sample.function))
                        .or_default() += 1;
                }
                self.on_cpu += ns;
                match stretch.memory {
                    true => self.memory += ns,
                    false => self.running += ns,
                }
            }
            ThreadState::WaitsForCpu => {
                self.waiting += ns;
                if let Some(off) = off {
                    self.add_waiting(threads, (tid, off), stretch.span);
                }
            }
            ThreadState::Blocked(on) => {
                for request in lane.requests_done_in(&stretch) {
                    self.requests += 1;
                    self.bytes = self.bytes.saturating_add(request.bytes);
                    self.disks.extend(request.disk);
                }
                if stretch.memory {
                    self.memory += ns;
                } else if let Some(off) = off {
                    *self
                        .blocked
                        .entry((on, off.class, off.function))
                        .or_default() += ns;
                    if let (BlockedOn::Lock, Some(waker)) = (on, off.waker) {
                        *self.woken_by.entry(threads.cpus.who(waker)).or_default() += ns;
                    }
                }
            }
        }
    }

    fn add_waiting(&mut self, threads: &Threads, (tid, off): (Tid, &Off), span: Interval) {
        if off.preempted {
            self.preempted += span.len();
        }
        if let Some(cpu) = waited_on(off) {
            *self.cpus.entry(cpu).or_default() += span.len();
        }
        for held in threads.cpus.held(tid, off, span) {
            *self.held_by.entry(held.by).or_default() += held.ns;
            if !held.certain {
                self.held_inferred += held.ns;
            }
        }
    }

    /// Time of which anything is known.
    pub(crate) fn known(&self) -> Nanos {
        self.running + self.memory + self.waiting + self.blocked_in(|_| true)
    }

    /// Time blocked on what `which` picks.
    pub(crate) fn blocked_in(&self, which: impl Fn(BlockedOn) -> bool) -> Nanos {
        let picked = self.blocked.iter().filter(|((on, ..), _)| which(*on));
        picked.map(|(_, &ns)| ns).sum()
    }

    /// Adds the sums of others.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.unknown += other.unknown;
        self.running += other.running;
        self.on_cpu += other.on_cpu;
        self.memory += other.memory;
        self.waiting += other.waiting;
        self.preempted += other.preempted;
        self.inferred += other.inferred;
        self.held_inferred += other.held_inferred;
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.disks.extend(&other.disks);
        self.tids.extend(&other.tids);
        add_all(&mut self.blocked, &other.blocked);
        add_all(&mut self.held_by, &other.held_by);
        add_all(&mut self.cpus, &other.cpus);
        add_all(&mut self.woken_by, &other.woken_by);
        for (&key, n) in &other.samples {
            *self.samples.entry(key).or_default() += n;
        }
    }
}

fn add_all<K: Ord + Copy>(to: &mut BTreeMap<K, Nanos>, from: &BTreeMap<K, Nanos>) {
    for (&key, &ns) in from {
        *to.entry(key).or_default() += ns;
    }
}
