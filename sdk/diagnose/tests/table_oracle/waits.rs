//! The table of waits: which row matches in a unit of time.

use super::holds;
use super::host::{Call, Run, Trainer, UNIT, Wait};
use super::scheduler::{On, State};

impl Run {
    pub fn wait_cause(&self, trainer: &Trainer, wait: &Wait, t: u64) -> &'static str {
        let in_process = wait.batch.is_some_and(|(_, maker)| maker == trainer.tid);
        if wait.call == Call::Iter || (wait.call == Call::Next(0) && !in_process) {
            return "data.startup";
        }
        let made = self.made(wait).filter(|_| !in_process);
        let charged = match wait.batch {
            Some((_, maker)) if made.is_some_and(|made| t < made) => maker,
            _ => trainer.tid,
        };
        let worker = charged != trainer.tid;
        let unmade = in_process || made.is_some_and(|made| t < made);
        let making = in_process || (worker && self.in_stage(charged, t));
        let state = self.state(charged, t);
        match state {
            State::Unwatched => self.without_scheduler(trainer, wait),
            State::WaitsForCpu if worker => "data.contended",
            State::WaitsForCpu => "host.preempted",
            State::Blocked(On::Memory) if unmade => "data.memory",
            _ if unmade && self.at_work_for_memory(charged, t) => "data.memory",
            State::Blocked(On::File) if unmade => "data.io",
            State::Blocked(On::Peer) if unmade && making => "data.io",
            State::Blocked(On::Lock) if making => "data.lock",
            _ if worker && making && self.limited(trainer, state) => "data.worker-limit",
            State::Runs | State::Blocked(On::OwnThreads)
                if in_process || (making && self.cpus > 0) =>
            {
                "data.compute"
            }
            _ => "data",
        }
    }

    fn made(&self, wait: &Wait) -> Option<u64> {
        let (batch, _) = wait.batch?;
        let stages = self.stages.iter().filter(|stage| stage.batch == batch);
        stages.map(|stage| stage.span.1).max()
    }

    pub fn in_stage(&self, tid: u32, t: u64) -> bool {
        let mut stages = self.stages.iter().filter(|stage| stage.tid == tid);
        stages.any(|stage| holds(stage.span, t))
    }

    /// What the table of `docs/report.md` says of the whole wait.
    fn without_scheduler(&self, trainer: &Trainer, wait: &Wait) -> &'static str {
        let makes = |wait: &Wait| wait.batch.is_some_and(|(_, maker)| maker == trainer.tid);
        let over = |measure: &dyn Fn(&Wait) -> Option<(u64, u64)>, of: bool| {
            let waits = trainer.waits.iter();
            let waits = waits.filter(|wait| match of {
                true => makes(wait),
                false => !makes(wait) && wait.call != Call::Next(0),
            });
            waits
                .filter_map(measure)
                .fold((0, 0), |sum, (part, whole)| (sum.0 + part, sum.1 + whole))
        };
        let at_least = |(part, whole): (u64, u64), percent: u64| part * 100 >= whole * percent;
        let own = |wait: &Wait| Some((self.own_cpu(wait)?, wait.span.1 - wait.span.0));
        let without_cpu = |wait: &Wait| self.without_cpu(wait);
        if makes(wait) {
            return match own(wait) {
                Some(own_share)
                    if at_least(own_share, 80)
                        || (at_least(own_share, 50) && at_least(over(&own, true), 80)) =>
                {
                    "data.compute"
                }
                _ => "data",
            };
        }
        match without_cpu(wait) {
            Some(share)
                if at_least(share, 20)
                    || (at_least(share, 10) && at_least(over(&without_cpu, false), 20)) =>
            {
                "data.contended"
            }
            _ => "data",
        }
    }

    /// CPU time of a thread in a wait in which it made the batch itself.
    fn own_cpu(&self, wait: &Wait) -> Option<u64> {
        let stages = self.stages.iter();
        let stages = stages.filter(|stage| wait.batch == Some((stage.batch, stage.tid)));
        let known = stages.filter_map(|stage| stage.cpu).reduce(|a, b| a + b);
        wait.cpu.or(known)
    }

    /// How long the maker of the batch was ready and waited for a CPU, and of how long that is
    /// known, within the wait; in parts of a unit.
    fn without_cpu(&self, wait: &Wait) -> Option<(u64, u64)> {
        let (_, maker) = wait.batch?;
        let end = self.made(wait)?.min(wait.span.1);
        let (mut waited, mut known) = (0, 0);
        for stage in self.stages.iter().filter(|stage| stage.tid == maker) {
            let (Some(runnable), Some(_)) = (stage.runnable, stage.cpu) else {
                continue;
            };
            let inside = stage.span.1.min(end);
            let inside = inside.saturating_sub(stage.span.0.max(wait.span.0));
            known += inside * UNIT;
            waited += inside * UNIT * runnable / (stage.span.1 - stage.span.0);
        }
        (known * 2 >= (wait.span.1 - wait.span.0) * UNIT).then_some((waited, known))
    }

    /// How many of these workers there were at the same time, each from its first stage to its last.
    fn together(&self, workers: &[u32]) -> u64 {
        let from = self.window().first().copied().unwrap_or(self.end);
        let there = |tid: u32| {
            let mut busy = (from..self.until()).filter(|&t| self.in_stage(tid, t));
            let first = busy.next();
            first.map(|first| (first, busy.next_back().unwrap_or(first) + 1))
        };
        let there: Vec<_> = workers.iter().filter_map(|&tid| there(tid)).collect();
        let count = |t: u64| there.iter().filter(|&&span| holds(span, t)).count() as u64;
        let time = |least: u64| (from..self.until()).filter(|&t| count(t) >= least).count();
        let counts = (1..=there.len() as u64).rev();
        let mut enough = counts.filter(|&least| time(least) * 10 >= time(1));
        enough.next().unwrap_or(0)
    }

    /// Row 8, of a worker in get or collate.
    fn limited(&self, trainer: &Trainer, state: State) -> bool {
        let batches = trainer.waits.iter().filter_map(|wait| wait.batch);
        let batches: Vec<u64> = batches.map(|batch| batch.0).collect();
        let mut workers: Vec<u32> = self
            .stages
            .iter()
            .filter(|stage| batches.contains(&stage.batch))
            .map(|stage| stage.tid)
            .collect();
        workers.sort_unstable();
        workers.dedup();
        let watched: Vec<u32> = workers
            .iter()
            .copied()
            .filter(|&tid| self.window().iter().all(|&t| self.watched(tid, t)))
            .collect();
        let (mut busy, mut known, mut waited) = (0, 0, 0);
        for t in self.window() {
            let stages = self.stages.iter();
            let stages = stages.filter(|s| workers.contains(&s.tid) && holds(s.span, t));
            for stage in stages {
                let seen = watched.contains(&stage.tid) || stage.runnable.is_some();
                busy += 1;
                known += u64::from(seen);
                let runnable = stage.runnable.unwrap_or(0);
                waited += match watched.contains(&stage.tid) {
                    true if self.state(stage.tid, t) == State::WaitsForCpu => UNIT,
                    true => 0,
                    false => UNIT * runnable / (stage.span.1 - stage.span.0),
                };
            }
        }
        let window = self.window().len() as u64;
        if busy * 10 < 7 * window * self.together(&workers) {
            return false;
        }
        let ran = self.window().into_iter().map(|t| {
            let threads = self.threads.iter();
            threads.filter(|thread| self.runs(thread.tid, t)).count() as u64
        });
        let free = 4 * ran.sum::<u64>() + window <= 4 * window * u64::from(self.cpus);
        let blocked = matches!(state, State::Blocked(on) if on != On::OwnThreads);
        blocked || (free && (known == 0 || waited * 5 < known * UNIT))
    }
}
