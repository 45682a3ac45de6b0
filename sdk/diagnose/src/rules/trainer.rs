//! The table for a thread that stands for a device: what a moment of its account is charged to.

use super::{BlockedOn, ThreadState};
use crate::cause::Cause;

/// The facts about one moment of a thread that trains, where no device was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainerMoment {
    /// What the table of waits says, inside a loader's `iter()` or `next()`.
    pub wait: Option<Cause>,
    /// What the innermost marked phase stands for, if it stands for a cause.
    pub marked: Option<Cause>,
    /// Whether the step has marked phases whose names start with `forward` and with `backward`, and
    /// the moment lies in no phase; or operators were recorded, and none goes on for long.
    pub unmarked: bool,
    /// What the scheduler says of the thread.
    pub state: ThreadState,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct TrainerRule {
    /// Stable identifier.
    pub id: &'static str,
    /// Identifiers of the causes that it can charge; `compute` where it charges none.
    pub charges: &'static str,
    /// When it matches, in words.
    pub definition: &'static str,
    /// Whether it matches, and the cause; `None` inside: compute.
    pub test: fn(&TrainerMoment) -> Option<Option<Cause>>,
}

/// The table. The first rule that matches charges the moment; the last one always does.
pub const TRAINER_RULES: [TrainerRule; 6] = [
    TrainerRule {
        id: "wait",
        charges: "a row of the table of waits",
        definition: "The thread is in a loader's `iter()` or `next()`.",
        test: |m| m.wait.map(Some),
    },
    TrainerRule {
        id: "preempted",
        charges: "host.preempted",
        definition: "The thread waits for a CPU.",
        test: |m| (m.state == ThreadState::WaitsForCpu).then_some(Some(Cause::HostPreempted)),
    },
    TrainerRule {
        id: "marked",
        charges: "host.metrics, host.checkpoint",
        definition: "The thread is in a phase whose name starts with `metric` or `checkpoint`, or \
            says so in another way (`compute_metrics`, `save_checkpoint`); of nested ones the \
            innermost such counts.",
        test: |m| m.marked.map(Some),
    },
    TrainerRule {
        id: "blocked",
        charges: "host.blocked",
        definition: "The thread is blocked, on something else than its own process's threads and \
            the driver of a device.",
        test: |m| blocks(m.state).then_some(Some(Cause::HostBlocked)),
    },
    TrainerRule {
        id: "unmarked",
        charges: "host.compute",
        definition: "The thread is in no phase, in a complete step of its own in which a phase \
            whose name starts with `forward` and one whose name starts with `backward` began on it. \
            In a file with PyTorch's operators also: a stretch of at least 10 ms in which no \
            thread of the process is in one, and this one in no wait and no annotation.",
        test: |m| m.unmarked.then_some(Some(Cause::HostCompute)),
    },
    TrainerRule {
        id: "compute",
        charges: "compute",
        definition: "All other time: the thread runs, its own process's threads work for it, or it \
            is not watched.",
        test: |_| Some(None),
    },
];

/// Whether a host thread in this state is held up by something that is not its work.
pub(crate) fn blocks(state: ThreadState) -> bool {
    matches!(
        state,
        ThreadState::Blocked(on) if on != BlockedOn::OwnThread && on != BlockedOn::Driver
    )
}

/// The rule that charges a moment, and the cause; `None`: it is compute.
pub fn judge_trainer(moment: &TrainerMoment) -> (&'static TrainerRule, Option<Cause>) {
    let mut matches = TRAINER_RULES
        .iter()
        .filter_map(|rule| Some((rule, (rule.test)(moment)?)));
    matches
        .next()
        .unwrap_or((&TRAINER_RULES[TRAINER_RULES.len() - 1], None))
}
