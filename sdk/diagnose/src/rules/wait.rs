//! The table of waits: what a moment inside a loader's `iter()` or `next()` is charged to.

use super::{BlockedOn, ThreadState};
use crate::cause::Cause;

/// Workers that are in get or collate for at least this share of their loader's loops keep up with nothing
/// more. The mean of the loader's workers.
pub const WORKERS_BUSY_SHARE: f64 = 0.7;

/// CPUs that must have been free on average for one more worker to run.
pub const MIN_FREE_CPUS: f64 = 0.25;

/// What the charged thread was doing, as far as slices of the program say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A worker, in get or collate.
    Stage,
    /// A worker, between its stages: it waits for work, or for room in the queue, or does what
    /// was not recorded.
    BetweenStages,
    /// The waiting thread, which makes the batch itself, or draws the indices of one in the sampler.
    InProcess,
    /// The waiting thread: the batch is made, or nobody knows who makes it, or there is none.
    Waiting,
}

/// The facts about one moment of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitMoment {
    /// Whether it is in `iter()`, or in the first `next()` of an epoch for a batch that was not
    /// made in process.
    pub startup: bool,
    /// Where the thread is that the moment is charged to.
    pub place: Place,
    /// What the scheduler says of that thread.
    pub state: ThreadState,
    /// Whether the kernel was at work to give it memory.
    pub memory: bool,
    /// Whether the loader's workers were busy for [`WORKERS_BUSY_SHARE`] of its loops.
    pub workers_busy: bool,
    /// Whether [`MIN_FREE_CPUS`] were free and the loader's workers did not wait for one much; `None`
    /// if it is not known.
    pub cpu_free: Option<bool>,
    /// Whether the wait hangs: it had not ended when the recording did, and was much longer than others.
    pub hangs: bool,
    /// The cause of the wait without the scheduler.
    pub otherwise: Cause,
}

impl WaitMoment {
    /// Whether the charged thread is known to make a batch.
    fn makes(&self) -> bool {
        matches!(self.place, Place::Stage | Place::InProcess)
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct WaitRule {
    /// Stable identifier.
    pub id: &'static str,
    /// Identifiers of the causes that it can charge.
    pub charges: &'static str,
    /// When it matches, in words.
    pub definition: &'static str,
    /// The cause, if it matches.
    pub test: fn(&WaitMoment) -> Option<Cause>,
}

/// The table. The first rule that matches charges the moment; the last one always does.
pub const WAIT_RULES: [WaitRule; 10] = [
    WaitRule {
        id: "startup",
        charges: "data.startup",
        definition: "In `iter()`, or in the first `next()` of an epoch where the batch was not \
            made in process.",
        test: |m| m.startup.then_some(Cause::DataStartup),
    },
    WaitRule {
        id: "unwatched",
        charges: "data, data.compute, data.contended",
        definition: "The charged thread is not watched at that moment: what the table of waits \
            without the scheduler says of the whole wait.",
        test: |m| (m.state == ThreadState::Unknown).then_some(m.otherwise),
    },
    WaitRule {
        id: "own-cpu",
        charges: "host.preempted",
        definition: "The charged thread is the waiting one, and waits for a CPU.",
        test: |m| {
            let own = matches!(m.place, Place::InProcess | Place::Waiting);
            (own && m.state == ThreadState::WaitsForCpu).then_some(Cause::HostPreempted)
        },
    },
    WaitRule {
        id: "worker-cpu",
        charges: "data.contended",
        definition: "The charged thread is a worker, and waits for a CPU.",
        test: |m| (m.state == ThreadState::WaitsForCpu).then_some(Cause::DataContended),
    },
    WaitRule {
        id: "memory",
        charges: "data.memory",
        definition: "The batch is not made yet, and the charged thread is blocked on memory, or \
            the kernel is at work to give it memory.",
        test: |m| {
            let blocked = m.state == ThreadState::Blocked(BlockedOn::Memory);
            (m.place != Place::Waiting && (m.memory || blocked)).then_some(Cause::DataMemory)
        },
    },
    WaitRule {
        id: "io",
        charges: "data.io",
        definition: "The batch is not made yet, and the charged thread is blocked on a file; or \
            it is in get or collate, or makes the batch in process, and is blocked on a peer.",
        test: |m| {
            let file = m.state == ThreadState::Blocked(BlockedOn::File);
            let peer = m.state == ThreadState::Blocked(BlockedOn::Peer);
            let is = m.place != Place::Waiting && (file || (m.makes() && peer));
            is.then_some(Cause::DataIo)
        },
    },
    WaitRule {
        id: "lock",
        charges: "data.lock",
        definition: "The charged thread is in get or collate, or makes the batch in process, and \
            is blocked on a lock.",
        test: |m| {
            let lock = m.state == ThreadState::Blocked(BlockedOn::Lock);
            (m.makes() && lock).then_some(Cause::DataLock)
        },
    },
    WaitRule {
        id: "limit",
        charges: "data.worker-limit",
        definition: "The charged thread is a worker in get or collate, and the loader's workers \
            are in get or collate for at least 70 % of its loops in the window, from one step or call of it to \
            another (mean over them; where they follow each \
            other, over as many as there were at the same time for at least a tenth of the time in \
            which any was, each from its first stage to its last one). And this one is blocked on something other than its own process's threads; or a CPU was free: on \
            average a quarter of a CPU or more in the window, of those that the job may use, less those \
            that its watched threads ran on or, where the trace has a `cpu busy %` counter for \
            each CPU of the job and for no other and it is more, less the mean of `cpus busy`; and \
            the loader's workers waited for one for less than 20 % of their get and collate (by the \
            scheduler, and of a worker that was not watched all the window by `runnable_ns` of \
            its slices; of whom neither is known is left out). Not in a wait that hangs: it had not \
            ended when the recording did, after at least a second and three times the longest wait that \
            did end; no other worker makes its batch.",
        test: |m| {
            let room = match m.state {
                ThreadState::Blocked(on) => on != BlockedOn::OwnThread || m.cpu_free == Some(true),
                _ => m.cpu_free == Some(true),
            };
            let is = m.place == Place::Stage && m.workers_busy && room && !m.hangs;
            is.then_some(Cause::DataWorkerLimit)
        },
    },
    WaitRule {
        id: "work",
        charges: "data.compute",
        definition: "The charged thread makes the batch in process, or is in the sampler, or is a \
            worker in get or collate and it is known how many CPUs the job may use; and it runs, or is blocked on \
            its own process's threads.",
        test: |m| {
            let runs = matches!(
                m.state,
                ThreadState::Running | ThreadState::Blocked(BlockedOn::OwnThread)
            );
            let known = m.place == Place::InProcess || m.cpu_free.is_some();
            (m.makes() && known && runs).then_some(Cause::DataCompute)
        },
    },
    WaitRule {
        id: "other",
        charges: "data",
        definition: "All others: a worker between its stages (it waits for work, or for room in \
            the queue), a batch that is made and not yet taken, a worker that is not known.",
        test: |_| Some(Cause::Data),
    },
];

/// The rule that charges a moment of a wait, and the cause.
pub fn judge_wait(moment: &WaitMoment) -> (&'static WaitRule, Cause) {
    let mut matches = WAIT_RULES
        .iter()
        .filter_map(|rule| Some((rule, (rule.test)(moment)?)));
    matches
        .next()
        .unwrap_or((&WAIT_RULES[WAIT_RULES.len() - 1], Cause::Data))
}
