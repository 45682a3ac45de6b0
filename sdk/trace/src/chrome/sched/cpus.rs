//! Who has which CPU while the threads are played through.

use super::interval::{Interval, Why};
use super::replay::{Place, Replay};
use super::switches::{Line, State};
use super::tasks::Task;
use crate::TraceTime;

impl Replay<'_> {
    /// Who gets `cpu` from a thread that leaves it, where `taker` was seen to. Threads that should
    /// run come before those of which nothing more is known.
    pub(super) fn successor(&mut self, taker: Task, cpu: u32, at: TraceTime) -> Task {
        let Task::Traced(thread) = taker else {
            let waiting = self.next_of(cpu);
            if waiting != Task::Idle {
                return waiting;
            }
            if let Task::Other(other) = taker
                && let Some(&Some(on)) = self.others.get(&other)
                && on != cpu
            {
                let next = self.next_of(on);
                self.switch(on, at, taker, left_as(taker), next);
            }
            return taker;
        };
        match self.place[thread as usize] {
            Place::Waiting(of) => self.waiting(of).retain(|&other| other != thread),
            Place::On(other) => {
                let next = self.next_of(other);
                self.switch(other, at, taker, State::Runnable, next);
            }
            Place::Off => {
                let stretch = self.current[thread as usize].map(|i| &self.intervals[i]);
                let back = stretch.map(|stretch| (stretch.back, stretch.cpu_in));
                if back != Some((Some(at), Some(cpu))) {
                    return self.next_of(cpu);
                }
            }
            // It cannot run before it was born.
            Place::Unseen if self.is_born_later(thread) => return self.next_of(cpu),
            Place::Unseen => {}
        }
        self.place[thread as usize] = Place::On(cpu);
        taker
    }

    fn is_born_later(&self, thread: u32) -> bool {
        let first = self.own[thread as usize].clone().next();
        first.is_some_and(|i| self.intervals[i].why == Why::Starting)
    }

    /// The thread that waits for `cpu`, else the idle one.
    pub(super) fn next_of(&mut self, cpu: u32) -> Task {
        let waiting = self.waiting(cpu);
        if waiting.is_empty() {
            return Task::Idle;
        }
        let thread = waiting.remove(0);
        self.place[thread as usize] = Place::On(cpu);
        Task::Traced(thread)
    }

    /// A thread that lost its CPU `from` goes to the one on which it is seen next.
    pub(super) fn give_way(&mut self, thread: u32, from: u32, at: TraceTime) {
        let own = &self.own[thread as usize];
        let next = self.current[thread as usize].map_or(own.start, |i| i + 1);
        let stretch = Some(next).filter(|next| own.contains(next));
        let cpu = stretch
            .and_then(|i| self.intervals[i].cpu_out)
            .unwrap_or(from);
        match self.has(cpu) {
            Some(Task::Traced(_)) => self.wait(thread, cpu),
            has => self.put(cpu, at, has.unwrap_or(Task::Idle), thread),
        }
    }

    pub(super) fn wait(&mut self, thread: u32, cpu: u32) {
        self.place[thread as usize] = Place::Waiting(cpu);
        self.waiting(cpu).push(thread);
    }

    /// Gives `cpu` to `thread`, from `has`.
    pub(super) fn put(&mut self, cpu: u32, at: TraceTime, has: Task, thread: u32) {
        self.switch(cpu, at, has, left_as(has), Task::Traced(thread));
        self.place[thread as usize] = Place::On(cpu);
    }

    pub(super) fn switch(&mut self, cpu: u32, at: TraceTime, prev: Task, state: State, next: Task) {
        debug_assert!(self.has(cpu).is_none_or(|has| has == prev));
        debug_assert!(self.tasks.named(prev).is_some() || prev == Task::Idle);
        self.cpus.entry(cpu).or_default().has = Some(next);
        for (task, on) in [(prev, None), (next, Some(cpu))] {
            if let Task::Other(other) = task {
                self.others.insert(other, on);
            }
        }
        self.lines.push(Line::Switch {
            at,
            cpu,
            prev,
            state,
            next,
        });
    }

    pub(super) fn has(&self, cpu: u32) -> Option<Task> {
        self.cpus.get(&cpu)?.has
    }

    pub(super) fn waiting(&mut self, cpu: u32) -> &mut Vec<u32> {
        &mut self.cpus.entry(cpu).or_default().waiting
    }

    /// The CPU on which a stretch without one begins: where no traced thread is disturbed.
    pub(super) fn cpu_of(&self, interval: &Interval) -> u32 {
        if let Some(cpu) = interval.cpu_out {
            return cpu;
        }
        let free = |cpu: &u32| !matches!(self.has(*cpu), Some(Task::Traced(_)));
        let mut known = interval.cpu_in.into_iter().chain(self.cpus.keys().copied());
        let any = known.clone().next().unwrap_or(0);
        known.find(free).unwrap_or(any)
    }
}

/// The state in which a thread leaves a CPU of which that is not known.
pub(super) fn left_as(task: Task) -> State {
    match task {
        Task::Other(_) => State::Sleeping,
        Task::Idle | Task::Traced(_) => State::Runnable,
    }
}
