//! From stretches off CPU to lines that agree with each other.
//!
//! A line says who left a CPU and who got it, so on each CPU every line must begin with the thread
//! that the line before ended with, and a thread must run before it can leave. The stretches alone do
//! not give that: short ones and those for which there was no room are missing, so a thread may be
//! seen on another CPU than it was put on, or two on one. The threads are played through in the order
//! of time; what was recorded of a thread's states holds to the nanosecond, and where CPUs do not
//! agree the thread that runs by default gives way. It is then ready (`R`) until a CPU is free.

use super::Thread;
use super::cpus::left_as;
use super::interval::{Interval, Why};
use super::switches::{Line, State};
use super::tasks::{Task, Tasks};
use crate::TraceTime;
use std::collections::{BTreeMap, HashMap};

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Not seen yet.
    Unseen,
    On(u32),
    Off,
    /// It should run on this CPU, which another traced thread has.
    Waiting(u32),
}

#[derive(Debug, Default)]
pub(super) struct Cpu {
    /// Who has it; `None` before the first line.
    pub(super) has: Option<Task>,
    pub(super) waiting: Vec<u32>,
}

/// Something that happens to a thread. At one time they happen in the order of [`Event::rank`].
#[derive(Debug, Clone, Copy)]
enum Event {
    Begin(u32),
    Out(usize),
    Woken(usize),
    In(usize),
    End(u32),
}

/// The threads and CPUs at one time.
pub(super) struct Replay<'a> {
    pub(super) tasks: &'a Tasks<'a>,
    pub(super) intervals: &'a [Interval],
    threads: &'a [Thread],
    pub(super) place: Vec<Place>,
    /// The stretch that each thread is in, or was in last, and those it has.
    pub(super) current: Vec<Option<usize>>,
    pub(super) own: Vec<std::ops::Range<usize>>,
    pub(super) cpus: BTreeMap<u32, Cpu>,
    /// The CPU of each other thread that was seen.
    pub(super) others: HashMap<u32, Option<u32>>,
    pub(super) lines: Vec<Line>,
}

impl<'a> Replay<'a> {
    /// `intervals` are sorted by thread and time, and those of one thread do not overlap.
    pub(super) fn new(
        tasks: &'a Tasks<'a>,
        intervals: &'a [Interval],
        threads: &'a [Thread],
    ) -> Self {
        let mut own = vec![0..0; threads.len()];
        for (i, interval) in intervals.iter().enumerate() {
            let range = &mut own[interval.thread as usize];
            *range = if range.start == range.end {
                i..i + 1
            } else {
                range.start..i + 1
            };
        }
        Self {
            tasks,
            intervals,
            threads,
            place: vec![Place::Unseen; threads.len()],
            current: vec![None; threads.len()],
            own,
            cpus: BTreeMap::new(),
            others: HashMap::new(),
            lines: Vec::new(),
        }
    }

    /// Plays everything through.
    pub(super) fn run(mut self) -> Vec<Line> {
        for (_, _, event) in self.events() {
            match event {
                Event::Begin(thread) => self.begin(thread),
                Event::Out(i) => self.out(i),
                Event::Woken(i) => self.woken(i),
                Event::In(i) => self.back(i),
                Event::End(thread) => self.end(thread),
            }
        }
        self.lines
    }

    fn events(&self) -> Vec<(TraceTime, u8, Event)> {
        let mut events = Vec::with_capacity(3 * self.intervals.len());
        for (thread, own) in self.own.iter().enumerate() {
            let mut last = None;
            for (i, interval) in own.clone().zip(&self.intervals[own.clone()]) {
                // A thread that did not run between two stretches leaves after it came.
                let rank = if last == Some(interval.out) { 3 } else { 0 };
                events.push((interval.out, rank, Event::Out(i)));
                events.extend(interval.woken.map(|at| (at, 1, Event::Woken(i))));
                events.extend(interval.back.map(|at| (at, 2, Event::In(i))));
                last = interval.back;
            }
            let (thread, about) = (thread as u32, &self.threads[thread]);
            if let Some(first) = own.clone().next().map(|i| &self.intervals[i]) {
                let begin = about.first.filter(|&at| at < first.out);
                events.extend(begin.map(|at| (at, 2, Event::Begin(thread))));
            }
            events.extend(about.ended.map(|at| (at, 4, Event::End(thread))));
        }
        events.sort_by_key(|&(at, rank, _)| (at, rank));
        events
    }

    /// A thread ran before its first stretch.
    fn begin(&mut self, thread: u32) {
        let own = self.own[thread as usize].clone();
        let about = self.threads[thread as usize].first;
        let Some((at, cpu)) = about.zip(self.intervals[own][0].cpu_out) else {
            return;
        };
        if self.place[thread as usize] != Place::Unseen {
            return;
        }
        match self.has(cpu) {
            Some(Task::Traced(_)) => self.wait(thread, cpu),
            has => self.put(cpu, at, has.unwrap_or(Task::Idle), thread),
        }
    }

    fn out(&mut self, i: usize) {
        let interval = &self.intervals[i];
        let (thread, at) = (interval.thread, interval.out);
        let (task, place) = (Task::Traced(thread), self.place[thread as usize]);
        self.current[thread as usize] = Some(i);
        self.place[thread as usize] = Place::Off;
        if interval.why == Why::Starting && place == Place::Unseen {
            return self.wake(i, at);
        }
        let state = match interval.why {
            Why::Preempted | Why::Starting => State::Preempted,
            Why::Sleeping => State::Sleeping,
            Why::Uninterruptible => State::Uninterruptible,
            Why::Stopped => State::Stopped,
        };
        let cpu = match place {
            Place::On(cpu) => cpu,
            _ => self.cpu_of(interval),
        };
        let taker = match interval.cpu_out {
            Some(left) if left != cpu => Task::Idle,
            _ => interval.taker,
        };
        match (place, self.has(cpu)) {
            (Place::On(_), _) | (Place::Unseen, None) => {
                let next = self.successor(taker, cpu, at);
                self.switch(cpu, at, task, state, next);
            }
            (_, has) => {
                let has = has.unwrap_or(Task::Idle);
                if let Place::Waiting(cpu) = place {
                    self.waiting(cpu).retain(|&other| other != thread);
                }
                self.switch(cpu, at, has, left_as(has), task);
                let next = match has {
                    Task::Traced(_) => has,
                    _ => self.successor(taker, cpu, at),
                };
                self.switch(cpu, at, task, state, next);
            }
        }
        if interval.why == Why::Uninterruptible {
            self.lines.push(Line::Blocked {
                at,
                cpu,
                task,
                iowait: interval.iowait,
                function: interval.function,
            });
        }
    }

    fn woken(&mut self, i: usize) {
        let interval = &self.intervals[i];
        if let (Some(at), Place::Off) = (interval.woken, self.place[interval.thread as usize]) {
            self.wake(i, at);
        }
    }

    fn wake(&mut self, i: usize, at: TraceTime) {
        let interval = &self.intervals[i];
        let near = interval.cpu_in.or(interval.cpu_out).unwrap_or(0);
        let cpu = match interval.waker {
            Task::Traced(waker) => match self.place[waker as usize] {
                Place::On(cpu) => cpu,
                _ => near,
            },
            _ => near,
        };
        self.lines.push(Line::Waking {
            at,
            cpu,
            waker: interval.waker,
            wakee: Task::Traced(interval.thread),
        });
    }

    fn back(&mut self, i: usize) {
        let interval = &self.intervals[i];
        let (thread, Some(at)) = (interval.thread, interval.back) else {
            return;
        };
        // Whoever left the CPU may have put it there already.
        if self.place[thread as usize] != Place::Off {
            return;
        }
        let cpu = interval.cpu_in.unwrap_or_else(|| self.cpu_of(interval));
        match self.has(cpu) {
            Some(has) => {
                self.put(cpu, at, has, thread);
                if let Task::Traced(other) = has {
                    self.give_way(other, cpu, at);
                }
            }
            None => {
                let giver = match interval.giver {
                    Task::Other(other) if !self.others.contains_key(&other) => interval.giver,
                    _ => Task::Idle,
                };
                self.put(cpu, at, giver, thread);
            }
        }
    }

    fn end(&mut self, thread: u32) {
        let (place, at) = (
            self.place[thread as usize],
            self.threads[thread as usize].ended.unwrap_or_default(),
        );
        self.place[thread as usize] = Place::Off;
        match place {
            Place::On(cpu) => {
                let next = self.next_of(cpu);
                self.switch(cpu, at, Task::Traced(thread), State::Dead, next);
            }
            Place::Waiting(cpu) => self.waiting(cpu).retain(|&other| other != thread),
            Place::Off | Place::Unseen => {}
        }
    }
}
