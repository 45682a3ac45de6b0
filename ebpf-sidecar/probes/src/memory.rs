//! Work on memory that the kernel does on a tracked thread before it gives it what it asked for.

use crate::settings::VICTIM_IS_TASK;
use crate::task::Task;
use crate::{output, threads, tracked};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::{kind, loss, memory};
use gpustall_wire::record::{MemoryWork, OomKill};

/// `mm_vmscan_direct_reclaim_begin(...)`
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
fn mm_vmscan_direct_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin(memory::DIRECT_RECLAIM)
}

/// `mm_vmscan_direct_reclaim_end(nr_reclaimed, ...)`
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
fn mm_vmscan_direct_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    end(memory::DIRECT_RECLAIM, ctx.arg(0))
}

/// `mm_vmscan_memcg_reclaim_begin(...)`
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
fn mm_vmscan_memcg_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin(memory::CGROUP_RECLAIM)
}

/// `mm_vmscan_memcg_reclaim_end(nr_reclaimed, ...)`
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
fn mm_vmscan_memcg_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    end(memory::CGROUP_RECLAIM, ctx.arg(0))
}

/// `mm_compaction_begin(...)`: once for each zone.
#[btf_tracepoint(function = "mm_compaction_begin")]
fn mm_compaction_begin(_: BtfTracePointContext) -> i32 {
    begin(memory::COMPACTION)
}

/// `mm_compaction_end(...)`
#[btf_tracepoint(function = "mm_compaction_end")]
fn mm_compaction_end(_: BtfTracePointContext) -> i32 {
    end(memory::COMPACTION, 0)
}

/// `mm_migrate_pages_start(mode, reason)`
#[btf_tracepoint(function = "mm_migrate_pages_start")]
fn mm_migrate_pages_start(_: BtfTracePointContext) -> i32 {
    begin(memory::MIGRATION)
}

/// `mm_migrate_pages(succeeded, failed, ...)`: it is over.
#[btf_tracepoint(function = "mm_migrate_pages")]
fn mm_migrate_pages(ctx: BtfTracePointContext) -> i32 {
    end(memory::MIGRATION, ctx.arg(0))
}

/// Notes when it began. All of this is work of the current thread itself, never of an interrupt.
#[inline(always)]
fn begin(work: u32) -> i32 {
    let tid = bpf_get_current_pid_tgid() as u32;
    if tracked::is_tracked(tid)
        && let Some(state) = threads::get(tid)
    {
        state.memory_ns[work as usize] = now();
    }
    0
}

#[inline(always)]
fn end(work: u32, pages: u64) -> i32 {
    let ids = bpf_get_current_pid_tgid();
    let tid = ids as u32;
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let Some(state) = threads::get(tid) else {
        return 0;
    };
    let begin_ns = state.memory_ns[work as usize];
    state.memory_ns[work as usize] = 0;
    // It may have begun before the thread was tracked.
    if begin_ns == 0 {
        return 0;
    }
    let record = MemoryWork {
        kind: kind::MEMORY_WORK,
        tid,
        tgid: (ids >> 32) as u32,
        work,
        begin_ns,
        end_ns: now(),
        pages,
    };
    // SAFETY: the place is reserved and as large as the record.
    output::put::<MemoryWork>(loss::MEMORY_WORK, |place| unsafe { place.write(record) });
    0
}

/// `mark_victim(task, uid)`, on kernels before 6.8 `mark_victim(pid)`.
#[btf_tracepoint(function = "mark_victim")]
fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    let (tid, tgid) = if VICTIM_IS_TASK.load() != 0 {
        let victim = Task::arg(&ctx, 0);
        (victim.tid(), victim.tgid())
    } else {
        let tid: u32 = ctx.arg(0);
        (tid, tid)
    };
    if !tracked::is_tracked(tid) && !tracked::is_tracked(tgid) {
        return 0;
    }
    let record = OomKill {
        kind: kind::OOM_KILL,
        tid,
        at_ns: now(),
        wanted_by: Task::current().named(),
    };
    // SAFETY: the place is reserved and as large as the record.
    output::put::<OomKill>(loss::OOM_KILLS, |place| unsafe { place.write(record) });
    0
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
