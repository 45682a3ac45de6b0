//! One thread: its states one after the other.

use super::read::{Off, Request, Sample, Totals};
use crate::cover::Cover;
use crate::partition::{Claim, partition};
use crate::rules::{BlockedOn, ThreadState};
use gpustall_trace::{Interval, Nanos, Pid, TraceTime};

/// A sample stands for the running time of its thread to which no other one is nearer, and on either
/// side for no more of it than this: a period of a clock of 199 Hz, rounded down.
pub const SAMPLE_REACH: Nanos = Nanos::new(5_000_000);

/// A thread of whose watched time more than one part in this many is off-CPU intervals that were
/// lost is not known to run where no interval says otherwise.
pub const MAX_LOST_PART: u64 = 100;

/// A stretch of a thread in one state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) span: Interval,
    pub(crate) state: ThreadState,
    /// Whether the kernel was at work to give the thread memory: a slice says so, or it ran, and
    /// the sample that stands for that time does.
    pub(crate) memory: bool,
    /// Position in [`Lane::off`], off CPU.
    pub(crate) off: Option<usize>,
}

/// All that the kernel recorded of one thread id.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Process, where a track says it.
    pub(crate) pid: Option<Pid>,
    /// By start.
    pub(crate) off: Vec<Off>,
    /// By time.
    pub(crate) samples: Vec<Sample>,
    /// Reclaim, compaction, migration.
    pub(crate) memory: Vec<Interval>,
    /// By end.
    pub(crate) requests: Vec<Request>,
    /// Of each thread that had the id.
    pub(crate) totals: Vec<Totals>,
    /// Disjoint, in order; together the whole recording.
    stretches: Vec<Stretch>,
    /// Running time before each stretch.
    ran: Vec<Nanos>,
    /// Time of which its state is known.
    known: Nanos,
}

impl Lane {
    /// Puts everything in order and lays out the states.
    pub(crate) fn lay_out(&mut self, end: TraceTime) {
        self.off.sort_by_key(|off| (off.span.start, off.span.end));
        self.samples.sort_by_key(|sample| sample.at);
        self.requests.sort_by_key(|request| request.span.end);
        self.stretch(end, &[]);
        let sampled = self.sampled(|sample| sample.memory);
        if !sampled.is_empty() {
            self.stretch(end, &sampled);
        }
    }

    /// Lays out the states; `sampled` is the running time for which samples say that it went into
    /// memory.
    fn stretch(&mut self, end: TraceTime, sampled: &[Interval]) {
        let whole = [Interval::new(TraceTime::ZERO, end)];
        let claims: Vec<Claim> = self.off.iter().map(|off| claim(off.span)).collect();
        let memory = Cover::of(&whole, &self.memory);
        let mut working = self.memory.clone();
        working.extend(sampled);
        let working = Cover::of(&whole, &working);
        let known = Cover::of(&whole, &self.watched());
        let mut stretches = Vec::with_capacity(2 * claims.len() + 1);
        for part in partition(&whole, &claims) {
            match part.claim {
                Some(at) => {
                    let off = self.off[at];
                    let ready = off.waits_for_cpu().clamp(part.span.start, part.span.end);
                    let blocked = Interval::new(part.span.start, ready);
                    let state = ThreadState::Blocked(off.on);
                    memory.cut(blocked, |span, memory| {
                        stretches.push(stretch(span, state, memory, Some(at)));
                    });
                    let waits = Interval::new(ready, part.span.end);
                    let state = ThreadState::WaitsForCpu;
                    stretches.push(stretch(waits, state, false, Some(at)));
                }
                None => known.cut(part.span, |span, known| {
                    let state = match known {
                        true => ThreadState::Running,
                        false => ThreadState::Unknown,
                    };
                    working.cut(span, |span, memory| {
                        stretches.push(stretch(span, state, memory && known, None));
                    });
                }),
            }
        }
        stretches.retain(|stretch| !stretch.span.is_empty());
        self.stretches = stretches;
        self.count();
    }

    fn count(&mut self) {
        let mut ran = Nanos::ZERO;
        self.known = Nanos::ZERO;
        self.ran = Vec::with_capacity(self.stretches.len());
        for stretch in &self.stretches {
            self.ran.push(ran);
            if stretch.state == ThreadState::Running {
                ran += stretch.span.len();
            }
            if stretch.state != ThreadState::Unknown {
                self.known += stretch.span.len();
            }
        }
    }

    /// When the thread was watched: from the first time of its totals to the totals; without any,
    /// from its first interval off CPU to its last one. Not where too much of it was lost.
    fn watched(&self) -> Vec<Interval> {
        if self.totals.is_empty() {
            let start = self.off.iter().map(|off| off.span.start).min();
            let end = self.off.iter().map(|off| off.span.end).max();
            return start
                .zip(end)
                .map(|(a, b)| Interval::new(a, b))
                .into_iter()
                .collect();
        }
        let complete = self
            .totals
            .iter()
            .filter(|of| of.lost_ns.get().saturating_mul(MAX_LOST_PART) <= of.watched.len().get());
        complete.map(|of| of.watched).collect()
    }

    /// When it waited for a CPU: disjoint, in order, none touching the next one.
    pub(crate) fn waits_for_cpu(&self) -> Vec<Interval> {
        let mut waits: Vec<Interval> = Vec::new();
        let of = |of: &&Stretch| of.state == ThreadState::WaitsForCpu;
        for wait in self.stretches.iter().filter(of) {
            match waits.last_mut() {
                Some(last) if last.end == wait.span.start => last.end = wait.span.end,
                _ => waits.push(wait.span),
            }
        }
        waits
    }

    /// When samples say that the thread ran a compiler of device code: running time only, in order.
    pub(crate) fn compiling(&self) -> Vec<Interval> {
        if !self.samples.iter().any(|sample| sample.compiles) {
            return Vec::new();
        }
        let whole = self
            .stretches
            .iter()
            .filter(|of| of.state == ThreadState::Running);
        let whole: Vec<Interval> = whole.map(|of| of.span).collect();
        Cover::of(&whole, &self.sampled(|sample| sample.compiles)).covered()
    }

    /// The time for which samples stand that say so: the running time around each to which no other
    /// one is nearer, and what lies between.
    fn sampled(&self, says: impl Fn(&Sample) -> bool) -> Vec<Interval> {
        let ran: Vec<Nanos> = self
            .samples
            .iter()
            .map(|of| self.ran_until(of.at))
            .collect();
        let middle = |a: Nanos, b: Nanos| Nanos::new(a.get() + (b - a).get() / 2);
        let mut sampled = Vec::new();
        for (at, sample) in self.samples.iter().enumerate() {
            if !says(sample) {
                continue;
            }
            let own = ran[at];
            let before = at
                .checked_sub(1)
                .map_or(Nanos::ZERO, |i| middle(ran[i], own));
            let after = ran.get(at + 1).map(|&next| middle(own, next));
            let end = own + SAMPLE_REACH;
            let end = after.map_or(end, |after| after.min(end));
            let start = (own - SAMPLE_REACH).max(before);
            sampled.push(Interval::new(self.when_ran(start), self.when_ran(end)));
        }
        sampled
    }

    /// The time from which on the thread had run for longer than `ran`; the end of the recording,
    /// if it did not.
    fn when_ran(&self, ran: Nanos) -> TraceTime {
        let after = self.ran.partition_point(|&before| before <= ran);
        let Some(last) = after.checked_sub(1) else {
            return TraceTime::ZERO;
        };
        let stretch = self.stretches[last].span;
        (stretch.start + (ran - self.ran[last])).min(stretch.end)
    }

    /// What the thread did in `span`: disjoint, in order, covering it as far as it lies in the
    /// recording, cut to it.
    pub(crate) fn during(&self, span: Interval) -> impl Iterator<Item = Stretch> + '_ {
        let first = self
            .stretches
            .partition_point(|of| of.span.end <= span.start);
        let rest = self.stretches[first..].iter();
        rest.take_while(move |of| of.span.start < span.end)
            .map(move |of| Stretch {
                span: of.span.intersection(span),
                ..*of
            })
            .filter(|of| !of.span.is_empty())
    }

    /// Time of which its state is known.
    pub(crate) fn known(&self) -> Nanos {
        self.known
    }

    /// How long it ran in `span`.
    pub(crate) fn running(&self, span: Interval) -> Nanos {
        self.ran_until(span.end) - self.ran_until(span.start)
    }

    fn ran_until(&self, at: TraceTime) -> Nanos {
        let after = self.stretches.partition_point(|of| of.span.start < at);
        let Some(last) = after.checked_sub(1) else {
            return Nanos::ZERO;
        };
        let stretch = &self.stretches[last];
        match stretch.state {
            ThreadState::Running => {
                self.ran[last] + at.min(stretch.span.end).since(stretch.span.start)
            }
            _ => self.ran[last],
        }
    }

    /// The samples that were taken in `span`, its start not counted and its end counted.
    pub(crate) fn samples_in(&self, span: Interval) -> &[Sample] {
        let first = self.samples.partition_point(|of| of.at <= span.start);
        let end = self.samples.partition_point(|of| of.at <= span.end);
        self.samples.get(first..end).unwrap_or_default()
    }

    /// The requests that the thread waited for in a stretch in which it was blocked, and that were done in
    /// it. The kernel wakes who waits a moment before it says that a request is done: those that began before
    /// the wake-up count as done in it, until the thread waits again.
    pub(crate) fn requests_done_in(&self, stretch: &Stretch) -> impl Iterator<Item = &Request> {
        let span = stretch.span;
        let off = stretch.off.and_then(|at| self.off.get(at));
        let next = stretch.off.and_then(|at| self.off.get(at + 1));
        let until = match off.is_some_and(|off| off.waits_for_cpu() == span.end) {
            true => next.map_or(TraceTime::from_nanos(u64::MAX), |next| next.span.start),
            false => span.end,
        };
        let until = until.max(span.end);
        let first = self
            .requests
            .partition_point(|of| of.span.end <= span.start);
        let end = self.requests.partition_point(|of| of.span.end <= until);
        let done = self.requests.get(first..end).unwrap_or_default();
        done.iter().filter(move |of| of.span.start < span.end)
    }

    /// The longest stretch off CPU in `span`: how much of it lies there, and which it is.
    pub(crate) fn worst_off(&self, span: Interval) -> Option<(Nanos, &Off)> {
        let off = self
            .during(span)
            .filter_map(|of| Some((of.span.len(), of.off?)));
        let (length, at) = off.max_by_key(|&(length, at)| (length, std::cmp::Reverse(at)))?;
        Some((length, self.off.get(at)?))
    }

    /// Says of a futex wait that the thread which ended it did this thread's work meanwhile.
    pub(crate) fn delegate(&mut self, off: usize) {
        if let Some(off) = self.off.get_mut(off) {
            off.on = BlockedOn::OwnThread;
        }
    }
}

fn claim(span: Interval) -> Claim {
    Claim { span, rank: 0 }
}

fn stretch(span: Interval, state: ThreadState, memory: bool, off: Option<usize>) -> Stretch {
    Stretch {
        span,
        state,
        memory,
        off,
    }
}
