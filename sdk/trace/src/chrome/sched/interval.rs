//! The stretches off CPU of a trace, first as little as choosing among them takes, then in full.

use super::Thread;
use super::keys::Keys;
use super::tasks::{Task, Tasks};
use crate::{Pid, Symbol, Tid, Trace, TraceTime, vocab};
use std::collections::HashMap;
use vocab::{cat, totals};

/// A stretch off CPU, as far as choosing needs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Position in [`Trace::slices`].
    pub(super) slice: u32,
    /// Position in [`All::threads`].
    pub(super) thread: u32,
    pub(super) start: TraceTime,
    pub(super) end: TraceTime,
    /// Lines that it takes by itself.
    pub(super) lines: u32,
    /// Whether scheduler tracks can show it: it takes time, and the stretch before it was over.
    pub(super) fits: bool,
}

impl Found {
    pub(super) fn length(&self) -> u64 {
        self.end.since(self.start).get()
    }
}

/// All of a trace, in the order of its slices.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) list: Vec<Found>,
    /// Process and thread id of each thread.
    pub(super) threads: Vec<(Pid, Tid)>,
    /// Thread and position in [`Trace::instants`] of each thread's totals.
    totals: Vec<(u32, usize)>,
}

/// Why a thread is off CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Preempted,
    Sleeping,
    Uninterruptible,
    Stopped,
    Starting,
}

/// A stretch off CPU in full.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) thread: u32,
    pub(super) out: TraceTime,
    /// When it was woken, if it was blocked.
    pub(super) woken: Option<TraceTime>,
    /// When it was back; `None` if it never was.
    pub(super) back: Option<TraceTime>,
    pub(super) why: Why,
    pub(super) iowait: bool,
    pub(super) function: Option<Symbol>,
    pub(super) cpu_out: Option<u32>,
    pub(super) cpu_in: Option<u32>,
    /// Who got the CPU that it left.
    pub(super) taker: Task,
    /// Who had the CPU that it came back on.
    pub(super) giver: Task,
    pub(super) waker: Task,
}

/// Finds them.
pub(super) fn find(trace: &Trace) -> All {
    let mut all = All::default();
    let Some(off_cpu) = trace.strings.find(cat::OFF_CPU) else {
        return all;
    };
    let keys = Keys::new(trace);
    let mut known: HashMap<(Pid, Tid), u32> = HashMap::new();
    let mut number = |id: (Pid, Tid), threads: &mut Vec<(Pid, Tid)>| {
        *known.entry(id).or_insert_with(|| {
            threads.push(id);
            threads.len() as u32 - 1
        })
    };
    let ends = trace.strings.find(cat::THREAD_TOTALS);
    for (position, instant) in trace.instants.iter().enumerate() {
        if Some(instant.cat) == ends
            && let Some(id) = keys.thread(trace, instant.track, &instant.args)
        {
            let thread = number(id, &mut all.threads);
            all.totals.push((thread, position));
        }
    }
    let mut until: Vec<TraceTime> = Vec::new();
    for (position, slice) in trace.slices.iter().enumerate() {
        if slice.cat != off_cpu {
            continue;
        }
        let Some(id) = keys.thread(trace, slice.track, &slice.args) else {
            continue;
        };
        let thread = number(id, &mut all.threads);
        until.resize(all.threads.len(), TraceTime::ZERO);
        let last = &mut until[thread as usize];
        let fits = !slice.span.is_empty() && slice.span.start >= *last;
        if fits {
            *last = slice.span.end;
        }
        all.list.push(Found {
            slice: position as u32,
            thread,
            start: slice.span.start,
            end: slice.span.end,
            lines: keys.lines(slice),
            fits,
        });
    }
    all
}

/// Reads the picked ones in full, by thread and time.
pub(super) fn read<'t>(
    trace: &'t Trace,
    all: &All,
    picked: &[bool],
    mut tasks: Tasks<'t>,
) -> (Vec<Interval>, Tasks<'t>) {
    let keys = Keys::new(trace);
    for &(pid, tid) in &all.threads {
        tasks.traced(pid, tid);
    }
    let mut list: Vec<Interval> = all
        .list
        .iter()
        .zip(picked)
        .filter(|(found, picked)| found.fits && **picked)
        .map(|(found, _)| {
            let slice = &trace.slices[found.slice as usize];
            keys.read(trace, slice, found.thread, &mut tasks)
        })
        .collect();
    list.sort_by_key(|interval| (interval.thread, interval.out));
    (list, tasks)
}

/// What is known of the threads beside their stretches off CPU, from their totals.
pub(super) fn threads(trace: &Trace, all: &All, intervals: &[Interval]) -> Vec<Thread> {
    let mut threads = vec![Thread::default(); all.threads.len()];
    for (thread, instant) in all.totals.iter().copied() {
        let (thread, instant) = (&mut threads[thread as usize], &trace.instants[instant]);
        let first = trace.arg_u64(&instant.args, totals::FIRST_NS);
        thread.first = first.map(TraceTime::from_nanos);
        thread.ended = (instant.at < trace.meta.end).then_some(instant.at);
    }
    // An id that was given to a second thread has the totals of both.
    for interval in intervals {
        let thread = &mut threads[interval.thread as usize];
        thread.first = thread.first.filter(|&first| first <= interval.out);
        let last = interval.back.unwrap_or(interval.out);
        thread.ended = thread.ended.filter(|&ended| ended >= last);
    }
    threads
}
