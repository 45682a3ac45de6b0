//! The tables of precedence: what a moment in which a device did not compute is charged to.
//!
//! A stall is cut wherever one of the facts of a [`Moment`] changes; each piece is charged to the
//! cause of the first rule that says one. [`WAIT_RULES`] say the cause of a moment inside a
//! loader's call, and [`TRAINER_RULES`] stand in the place of [`RULES`] where no device was recorded.
//! The engine has no other rules, and `docs/causes.md` prints these.

mod moment;
mod print;
mod state;
mod trainer;
mod wait;

pub use moment::{Activity, Moment, Operation};
pub use print::{table, trainer_table, wait_table};
pub use state::{BlockedOn, ThreadState};
pub(crate) use trainer::blocks;
pub use trainer::{TRAINER_RULES, TrainerMoment, TrainerRule, judge_trainer};
pub use wait::{
    MIN_FREE_CPUS, Place, WAIT_RULES, WORKERS_BUSY_SHARE, WaitMoment, WaitRule, judge_wait,
};

use crate::cause::Cause;

/// A stretch without a launch stands out from this many times the run's own p95 gap,
pub const STANDS_OUT_FACTOR: u64 = 8;

/// and from this length, in nanoseconds, on.
pub const STANDS_OUT_MIN_NS: u64 = 1_000_000;

/// From this length on it always does: no framework takes so long to launch a kernel, and a run
/// that launches one graph a step has no other gaps to compare with.
pub const STANDS_OUT_MAX_NS: u64 = 10_000_000;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable identifier.
    pub id: &'static str,
    /// Identifiers of the causes that it can charge.
    pub charges: &'static str,
    /// When it matches, in words.
    pub definition: &'static str,
    /// The cause, if it matches.
    pub test: fn(&Moment) -> Option<Cause>,
}

fn when(is: bool, cause: Cause) -> Option<Cause> {
    is.then_some(cause)
}

/// The table. The first rule that matches charges the moment; the last one always does.
pub const RULES: [Rule; 18] = [
    Rule {
        id: "copy-pageable",
        charges: "transfer.pageable",
        definition: "A copy from or to pageable memory runs, and the next kernel depends on it: \
            same stream, an event wait, or the host waited for it before it launched the kernel. \
            Other copies are background: the time under them is charged as if they were not there.",
        test: |m| {
            when(
                m.depends_on == Some(Operation::PageableCopy),
                Cause::TransferPageable,
            )
        },
    },
    Rule {
        id: "copy",
        charges: "transfer.bandwidth",
        definition: "Any other copy, or a memset, runs that the next kernel depends on.",
        test: |m| {
            when(
                m.depends_on == Some(Operation::Copy),
                Cause::TransferBandwidth,
            )
        },
    },
    Rule {
        id: "straggler",
        charges: "comm.straggler",
        definition: "A collective runs that the next kernel depends on, or that still runs after \
            the next kernel was submitted, and the same collective has not yet begun on another \
            device of the trace. Kernels of one name are one collective: the n-th on each device \
            if all ran equally many, else those that overlap the most.",
        test: |m| {
            let straggling = Operation::Communication { straggling: true };
            when(m.depends_on == Some(straggling), Cause::CommStraggler)
        },
    },
    Rule {
        id: "communication",
        charges: "comm.exposed",
        definition: "Any other such collective runs.",
        test: |m| {
            let is = matches!(m.depends_on, Some(Operation::Communication { .. }));
            when(is, Cause::CommExposed)
        },
    },
    Rule {
        id: "dependency",
        charges: "gpu.dependency",
        definition: "The next kernel has been submitted (the call that launched it has returned), \
            does not run, and its stream was told to wait for an event between its operation \
            before and this one.",
        test: |m| when(m.submitted && m.event_wait, Cause::GpuDependency),
    },
    Rule {
        id: "latency",
        charges: "gpu.launch-latency",
        definition: "The next kernel has been submitted and does not run.",
        test: |m| when(m.submitted, Cause::GpuLaunchLatency),
    },
    Rule {
        id: "preempted",
        charges: "host.preempted",
        definition: "Not submitted from here on. What the host does is what the launcher does, \
            and while nothing is asked of it, what the feeder does. That thread waits for a CPU, \
            and is not in a loader's call.",
        test: |m| {
            let data = matches!(m.host(), Some(Activity::WaitsForData(_)));
            let waits = m.state == ThreadState::WaitsForCpu;
            when(!data && waits, Cause::HostPreempted)
        },
    },
    Rule {
        id: "allocation",
        charges: "alloc.device",
        definition: "The host is in a driver call that allocates or frees.",
        test: |m| when(m.host() == Some(Activity::Allocates), Cause::AllocDevice),
    },
    Rule {
        id: "compile",
        charges: "host.compile",
        definition: "The host is in a driver call that loads, links or compiles device code, or \
            in one that does so for half of its time and 0.1 ms, as the driver told the profiler; in a \
            phase so named; or runs a compiler of such code.",
        test: |m| when(m.host() == Some(Activity::Compiles), Cause::HostCompile),
    },
    Rule {
        id: "sync",
        charges: "sync.readback",
        definition: "The host is in a driver call that waits for the device, or that copies to \
            the host and returns when the copy is done.",
        test: |m| {
            when(
                m.host() == Some(Activity::WaitsForDevice),
                Cause::SyncReadback,
            )
        },
    },
    Rule {
        id: "copy-call",
        charges: "transfer.pageable",
        definition: "The host is in a driver call that copies from pageable memory, outside of the \
            copy itself.",
        test: |m| {
            when(
                m.host() == Some(Activity::CopiesPageable),
                Cause::TransferPageable,
            )
        },
    },
    Rule {
        id: "staging",
        charges: "transfer.staging",
        definition: "The host copies into pinned memory: a phase so named (`stag...`), or \
            PyTorch's `aten::pin_memory` outside of a loader's call; or, where \
            the launcher is another thread than the feeder, it is in no call and in no operator, and \
            the feeder in nothing that another row names, between two copies to the device that it \
            submitted, not from pageable memory, in the same stall, and that the next kernel depends \
            on.",
        test: |m| when(m.host() == Some(Activity::Stages), Cause::TransferStaging),
    },
    Rule {
        id: "data",
        charges: "a row of the table of waits",
        definition: "The host is in a loader's `iter()` or `next()`, or in an annotation that \
            names one. Of nested waits and phases the innermost counts.",
        test: |m| match m.host() {
            Some(Activity::WaitsForData(cause)) => Some(cause),
            _ => None,
        },
    },
    Rule {
        id: "marked",
        charges: "host.metrics, host.checkpoint",
        definition: "The host is in a phase whose name starts with `metric` or `checkpoint`, or \
            says so in another way (`compute_metrics`, `save_checkpoint`).",
        test: |m| match m.host() {
            Some(Activity::Marked(cause)) => Some(cause),
            _ => None,
        },
    },
    Rule {
        id: "unexplained",
        charges: "unknown, host",
        definition: "No kernel follows in the recording: `unknown`. The trace has no steps: \
            `host`, nothing finer.",
        test: |m| match (m.followed, m.steps_known) {
            (false, _) => Some(Cause::Unknown),
            (true, false) => Some(Cause::Host),
            (true, true) => None,
        },
    },
    Rule {
        id: "blocked",
        charges: "host.blocked",
        definition: "Nothing that the rows above name; the launcher, where it is another thread \
            than the feeder, is in no call and in no operator at all; and the thread is blocked, on \
            something else than its own process's threads and the driver of a device.",
        test: |m| when(m.host().is_none() && blocks(m.state), Cause::HostBlocked),
    },
    Rule {
        id: "stretch",
        charges: "host.compute",
        definition: "Within a stretch between two launches, or from the start of the window to the \
            first one, that, less what the rules above charge and the framework's own work (`Optimizer.step#...`, of less than 10 ms in the stretch), is at least 1 ms and 8 \
            times the p95 gap of the run, or at least 10 ms; not within that own work. The p95 is \
            of the gaps that are below 1 ms or below 8 times their median, and below 10 ms.",
        test: |m| when(m.stands_out, Cause::HostCompute),
    },
    Rule {
        id: "rhythm",
        charges: "sync.readback, host.launch-bound",
        definition: "All other time before the launch. `sync.readback` where the device ran out \
            of work while the host waited for it in a call that began when work was still queued, \
            until the next launch, and in later stalls until as much time is charged so as the \
            host had been ahead. Else `host.launch-bound`: the host is slower than the device.",
        test: |m| {
            Some(if m.refills {
                Cause::SyncReadback
            } else {
                Cause::HostLaunchBound
            })
        },
    },
];

/// The rule that charges a moment, and the cause.
pub fn judge(moment: &Moment) -> (&'static Rule, Cause) {
    let mut matches = RULES
        .iter()
        .filter_map(|rule| Some((rule, (rule.test)(moment)?)));
    matches
        .next()
        .unwrap_or((&RULES[RULES.len() - 1], Cause::Unknown))
}
