//! The table without a device: which row matches for a thread in a unit of time.

use super::host::{Call, Run, Step, Trainer, UNIT};
use super::scheduler::{On, State};
use super::{Charges, Span, holds};
use gpustall_diagnose::MAX_UNRECORDED;

impl Run {
    /// What is charged to every cause.
    pub fn charges(&self) -> Charges {
        let mut charges = Charges::new();
        for trainer in &self.trainers {
            let Some(account) = self.account(trainer) else {
                continue;
            };
            for t in (account.0..account.1).filter(|&t| !self.paused(t)) {
                let cause = self.trainer_cause(trainer, t);
                *charges.entry(cause.to_string()).or_default() += UNIT;
            }
        }
        charges
    }

    fn paused(&self, t: u64) -> bool {
        self.pauses.iter().any(|&pause| holds(pause, t))
    }

    fn complete(&self, step: &Step) -> bool {
        let missing = (step.span.0..step.span.1).filter(|&t| t >= self.end || self.paused(t));
        !step.unfinished && missing.count() as u64 <= (step.span.1 - step.span.0) / MAX_UNRECORDED
    }

    /// The units of the window.
    pub fn window(&self) -> Vec<u64> {
        let steps = self.trainers.iter().flat_map(|trainer| &trainer.steps);
        let complete = steps.filter(|step| self.complete(step));
        let start = complete.map(|step| step.span.0).min().unwrap_or(self.end);
        (start..self.until()).filter(|&t| !self.paused(t)).collect()
    }

    /// The end of the window: of the recording, or of the last loop if each is known to have ended.
    pub fn until(&self) -> u64 {
        let steps = || self.trainers.iter().flat_map(|trainer| &trainer.steps);
        let waits = || self.trainers.iter().flat_map(|trainer| &trainer.waits);
        let cut = |step: &Step| !self.complete(step) && step.span.1 >= self.end;
        let ended = self.trainers.iter().all(|trainer| {
            let last = trainer
                .waits
                .iter()
                .max_by_key(|wait| (wait.span.1, wait.span.0));
            last.is_none_or(|last| last.call == Call::Last && !last.unfinished)
        });
        if steps().any(cut) || !ended || waits().next().is_none() {
            return self.end;
        }
        let phases = self.trainers.iter().flat_map(|trainer| &trainer.phases);
        let ends = steps()
            .map(|step| step.span.1)
            .chain(waits().map(|wait| wait.span.1))
            .chain(phases.map(|phase| phase.1.1));
        ends.max().map_or(self.end, |last| last.min(self.end))
    }

    fn account(&self, trainer: &Trainer) -> Option<Span> {
        let complete = trainer.steps.iter().filter(|step| self.complete(step));
        let start = complete.map(|step| step.span.0).min();
        let first = trainer.steps.iter().map(|step| step.span.0).min();
        let start = start.or(first.filter(|_| !self.window().is_empty()))?;
        let last = trainer.steps.iter().map(|step| step.span.1).max()?;
        let others = self
            .trainers
            .iter()
            .filter(|other| other.tid != trainer.tid);
        let begin = |other: &Trainer| other.steps.iter().map(|step| step.span.0).min();
        let successors = others.filter_map(begin).filter(|&first| first >= last);
        let hangs = trainer.waits.iter().any(|wait| wait.unfinished);
        match successors.min().filter(|_| !hangs) {
            Some(first) => Some((start, first)),
            None => Some((start, self.until())),
        }
    }

    fn trainer_cause(&self, trainer: &Trainer, t: u64) -> &'static str {
        if let Some(wait) = trainer.waits.iter().find(|wait| holds(wait.span, t)) {
            return self.wait_cause(trainer, wait, t);
        }
        let state = self.state(trainer.tid, t);
        if state == State::WaitsForCpu {
            return "host.preempted";
        }
        let inside = || trainer.phases.iter().filter(|phase| holds(phase.1, t));
        let marked = inside().filter_map(|&(name, span)| Some((cause_of(name)?, span)));
        if let Some((cause, _)) = marked.max_by_key(|(_, span)| (span.0, u64::MAX - span.1)) {
            return cause;
        }
        match state {
            State::Blocked(on) if on != On::OwnThreads && on != On::Driver => {
                return "host.blocked";
            }
            _ => {}
        }
        let mut steps = trainer.steps.iter().filter(|step| self.complete(step));
        let marked = steps.find(|step| holds(step.span, t)).is_some_and(|step| {
            ["forward", "backward"].iter().all(|start| {
                let mut phases = trainer.phases.iter();
                phases.any(|(name, span)| name.starts_with(start) && holds(step.span, span.0))
            })
        });
        match marked && inside().next().is_none() {
            true => "host.compute",
            false => "compute",
        }
    }
}

fn cause_of(phase: &str) -> Option<&'static str> {
    match phase {
        name if name.starts_with("metric") => Some("host.metrics"),
        name if name.starts_with("checkpoint") => Some("host.checkpoint"),
        _ => None,
    }
}
