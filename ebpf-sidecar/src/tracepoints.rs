//! The tracepoints that programs of the probes are attached to, and what is missing without each.

use crate::btf::KernelTypes;
use crate::error::SetupError;
use crate::kernel::RequestOffsets;

/// A tracepoint that a program of the probes is attached to; the program has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    /// Its name.
    pub(crate) name: &'static str,
    /// Arguments that the program reads.
    pub(crate) arguments: u32,
    /// The first version of Linux that is known to have it so.
    pub(crate) since: &'static str,
    /// What is missing without it; `None` when nothing can be recorded without it.
    pub(crate) without: Option<&'static str>,
}

const INTERRUPTS: Option<&str> =
    Some("wake-ups by timers and devices are charged to the thread that they interrupted");
const RECLAIM: Option<&str> =
    Some("when threads had to free memory of the machine themselves stays unknown");
const CGROUP_RECLAIM: Option<&str> =
    Some("when threads had to free memory of their cgroup themselves stays unknown");
const COMPACTION: Option<&str> =
    Some("when threads had to make room for large pages stays unknown");
const MIGRATION: Option<&str> = Some("when threads had to move pages stays unknown");
const DISKS: Option<&str> = Some(WITHOUT_REQUESTS);
/// What is missing when requests to disks cannot be seen.
pub(crate) const WITHOUT_REQUESTS: &str =
    "which requests to disks threads waited for, and their bytes, stays unknown";

/// The tracepoints that are always used, in the order of attaching: the ends of interrupts before
/// their beginnings, so that no CPU is left inside an interrupt whose end was missed.
const ALWAYS: [Tracepoint; 21] = [
    tracepoint("irq_handler_exit", 0, INTERRUPTS),
    tracepoint("irq_handler_entry", 0, INTERRUPTS),
    tracepoint("hrtimer_expire_exit", 0, INTERRUPTS),
    tracepoint("hrtimer_expire_entry", 0, INTERRUPTS),
    tracepoint("softirq_exit", 0, INTERRUPTS),
    tracepoint("softirq_entry", 1, INTERRUPTS),
    tracepoint(
        "task_rename",
        2,
        Some("threads keep the name that they had first"),
    ),
    tracepoint("mm_vmscan_direct_reclaim_end", 1, RECLAIM),
    tracepoint("mm_vmscan_direct_reclaim_begin", 0, RECLAIM),
    tracepoint("mm_vmscan_memcg_reclaim_end", 1, CGROUP_RECLAIM),
    tracepoint("mm_vmscan_memcg_reclaim_begin", 0, CGROUP_RECLAIM),
    tracepoint("mm_compaction_end", 0, COMPACTION),
    tracepoint("mm_compaction_begin", 0, COMPACTION),
    tracepoint("mm_migrate_pages", 1, MIGRATION),
    tracepoint("mm_migrate_pages_start", 0, MIGRATION),
    tracepoint(
        "mark_victim",
        1,
        Some("that the kernel killed a process for want of memory stays unknown"),
    ),
    tracepoint("sched_process_exec", 2, None),
    tracepoint("sched_waking", 1, None),
    tracepoint("sched_switch", 4, None),
    tracepoint("sched_wakeup_new", 1, None),
    tracepoint("sched_process_fork", 2, None),
];

/// Requests to disks, from when a thread hands them in.
const REQUESTS: [Tracepoint; 3] = [
    Tracepoint {
        since: "6.5",
        ..tracepoint("block_io_done", 1, DISKS)
    },
    tracepoint("block_rq_issue", 1, DISKS),
    Tracepoint {
        since: "6.5",
        ..tracepoint("block_io_start", 1, DISKS)
    },
];

/// The same on kernels before 6.5: from when they go to the device, which another thread may do.
const REQUESTS_BY_ISSUE: [Tracepoint; 2] = [
    tracepoint("block_rq_complete", 3, DISKS),
    tracepoint("block_rq_issue", 1, DISKS),
];

/// Pages that are allocated: only where that is asked for.
const PAGE_ALLOCS: Tracepoint = tracepoint(
    "mm_page_alloc",
    2,
    Some("how many pages threads allocate (--page-allocs) stays unknown"),
);

const fn tracepoint(
    name: &'static str,
    arguments: u32,
    without: Option<&'static str>,
) -> Tracepoint {
    Tracepoint {
        name,
        arguments,
        since: "5.18",
        without,
    }
}

/// Whether requests to disks can only be seen when they go to the device.
pub(crate) fn requests_by_issue(types: &KernelTypes) -> bool {
    let missing = |t: &Tracepoint| has(types, t).is_err();
    REQUESTS.iter().any(missing) && !REQUESTS_BY_ISSUE.iter().any(missing)
}

/// The tracepoints to use on this kernel, in the order of attaching.
pub(crate) fn wanted(types: &KernelTypes, page_allocs: bool) -> Vec<Tracepoint> {
    let mut wanted = ALWAYS.to_vec();
    if RequestOffsets::of(types).is_err() {
        // The programs could not read a request.
    } else if requests_by_issue(types) {
        wanted.extend(REQUESTS_BY_ISSUE);
    } else {
        wanted.extend(REQUESTS);
    }
    wanted.extend(page_allocs.then_some(PAGE_ALLOCS));
    wanted
}

/// Whether the kernel has the tracepoint with all arguments that the program reads.
///
/// # Errors
/// [`SetupError::Tracepoint`] when it does not.
pub(crate) fn has(types: &KernelTypes, tracepoint: &Tracepoint) -> Result<(), SetupError> {
    match types.tracepoint_arguments(tracepoint.name) {
        Some(count) if count >= tracepoint.arguments => Ok(()),
        found => Err(SetupError::Tracepoint {
            name: tracepoint.name,
            wanted: tracepoint.arguments,
            found,
            since: tracepoint.since,
        }),
    }
}
