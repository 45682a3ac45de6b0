//! Pages that tracked threads allocate. Attached only when that was asked for: it slows every
//! allocation of the machine.

use crate::{interrupt, threads, tracked};
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;

/// `mm_page_alloc(page, order, ...)`: the page is null when there was none.
#[btf_tracepoint(function = "mm_page_alloc")]
fn mm_page_alloc(ctx: BtfTracePointContext) -> i32 {
    let tid = bpf_get_current_pid_tgid() as u32;
    if !tracked::is_tracked(tid) || interrupt::source().is_some() {
        return 0;
    }
    let page: u64 = ctx.arg(0);
    if page != 0
        && let Some(state) = threads::get(tid)
    {
        // The kernel's largest order is far below 32.
        state.totals.page_allocs += 1 << (ctx.arg::<u32>(1) & 31);
    }
    0
}
