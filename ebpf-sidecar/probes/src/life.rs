//! Threads begin, run another program, change their name. (They end in `switch.rs`.)

use crate::task::Task;
use crate::{output, threads, tracked};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel_str_bytes};
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use gpustall_wire::codes::{kind, loss, mode};
use gpustall_wire::record::{Comm, Life};
use gpustall_wire::thread::ThreadState;

/// `sched_process_fork(parent, child)`: what a tracked thread makes is tracked, before it runs.
#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    let (parent, child) = (Task::arg(&ctx, 0), Task::arg(&ctx, 1));
    let (parent_tid, tid) = (parent.tid(), child.tid());
    if !tracked::is_tracked(parent_tid) {
        return 0;
    }
    let now = now();
    let state = ThreadState {
        mode: mode::NEW,
        tgid: child.tgid(),
        since_ns: now,
        ..ThreadState::default()
    };
    if !threads::put(tid, &state) {
        output::lost(loss::THREADS);
        return 0;
    }
    tracked::track(tid);
    put(Life {
        kind: kind::FORK,
        tid,
        tgid: child.tgid(),
        other_tid: parent_tid,
        at_ns: now,
        comm: child.comm(),
    });
    0
}

/// `sched_process_exec(p, old_pid, bprm)`: a thread that is not the first of its process takes the
/// id of the first, so what is known of it moves there.
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    let task = Task::arg(&ctx, 0);
    let old_tid: u32 = ctx.arg(1);
    let tid = task.tid();
    if !tracked::is_tracked(old_tid) {
        return 0;
    }
    if old_tid != tid {
        if let Some(state) = threads::get(old_tid) {
            if !threads::put(tid, state) {
                output::lost(loss::THREADS);
            }
            tracked::track(tid);
        }
        tracked::forget(old_tid);
        threads::remove(old_tid);
    }
    put(Life {
        kind: kind::EXEC,
        tid,
        tgid: task.tgid(),
        other_tid: old_tid,
        at_ns: now(),
        comm: task.comm(),
    });
    0
}

/// `task_rename(task, comm)`: the task still has its old name.
#[btf_tracepoint(function = "task_rename")]
fn task_rename(ctx: BtfTracePointContext) -> i32 {
    let task = Task::arg(&ctx, 0);
    let tid = task.tid();
    if !tracked::is_tracked(tid) {
        return 0;
    }
    let mut comm: Comm = [0; 16];
    // SAFETY: the helper copes with any address; `comm` is ours.
    if unsafe { bpf_probe_read_kernel_str_bytes(ctx.arg(1), &mut comm) }.is_err() {
        return 0;
    }
    put(Life {
        kind: kind::RENAME,
        tid,
        tgid: task.tgid(),
        other_tid: 0,
        at_ns: now(),
        comm,
    });
    0
}

#[inline(always)]
fn put(life: Life) {
    // SAFETY: the place is reserved and as large as the record.
    output::put::<Life>(loss::LIFE, |place| unsafe { place.write(life) });
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
