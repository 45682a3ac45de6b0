//! What a thread waited for, by the functions on its kernel stack.

use crate::symbols::Function;

/// What kind of thing a thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitClass {
    /// Memory to become free: the thread reclaimed it itself, or waited for those who do.
    Reclaim,
    /// The driver of a GPU.
    GpuDriver,
    /// A page of memory to be read from a file or from swap space.
    PageFault,
    /// The lock of the process's memory map.
    MmapLock,
    /// Data to be written: write-back, a flush, a throttled writer.
    Write,
    /// Data of a file to be read.
    Read,
    /// A lock or condition of user space.
    Futex,
    /// A lock on a file: `flock`, `lockf`.
    FileLock,
    /// The other end of a pipe.
    Pipe,
    /// The other end of a socket.
    Socket,
    /// One of several things: `epoll`, `poll`, `select`, `io_uring`.
    Poll,
    /// Time to pass.
    Sleep,
    /// Another process to end or to start.
    Process,
    /// A signal, or to be continued after a stop.
    Signal,
    /// Something else: the function says what.
    Other,
}

impl WaitClass {
    /// The name that traces use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reclaim => "reclaim",
            Self::GpuDriver => "gpu driver",
            Self::PageFault => "page fault",
            Self::MmapLock => "mmap lock",
            Self::Write => "write",
            Self::Read => "file read",
            Self::Futex => "futex",
            Self::FileLock => "file lock",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Poll => "poll",
            Self::Sleep => "sleep",
            Self::Process => "process",
            Self::Signal => "signal",
            Self::Other => "other",
        }
    }
}

/// A wait: its class, the function that tells it, and the stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wait {
    /// What kind of thing was waited for.
    pub class: WaitClass,
    /// The function of the kernel that the class follows from; for [`WaitClass::Other`] the
    /// innermost that does more than give up the CPU.
    pub function: String,
    /// Names of the functions on the stack, the innermost first.
    pub stack: Vec<String>,
}

/// Kernel modules whose functions are those of a GPU driver.
const GPU_MODULES: [&str; 8] = [
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nouveau",
    "amdgpu",
    "amdkfd",
    "i915",
    "xe",
];

/// The table: the first row of which a function is on the stack gives the class. What explains more
/// stands higher: a page fault that reclaims memory is a wait for memory, a read that faults a page
/// in is a page fault. Names end at `*` where several functions begin alike.
const TABLE: [(WaitClass, &[&str]); 13] = [
    (
        WaitClass::Reclaim,
        &[
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node*",
            "reclaim_throttle",
            "throttle_direct_reclaim",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "try_to_compact_pages",
            "out_of_memory",
        ],
    ),
    (
        WaitClass::MmapLock,
        &[
            "lock_mm_and_find_vma",
            "mmap_read_lock*",
            "mmap_write_lock*",
            "vma_start_read*",
            "__vma_start_write",
        ],
    ),
    (
        WaitClass::PageFault,
        &[
            "filemap_fault",
            "do_swap_page",
            "__folio_lock_or_retry",
            "do_fault",
            "migration_entry_wait*",
        ],
    ),
    (
        WaitClass::Write,
        &[
            "folio_wait_writeback*",
            "blkdev_issue_flush",
            "rq_qos_wait",
            "balance_dirty_pages*",
            "file_write_and_wait_range",
            "filemap_fdatawait_range",
            "__filemap_fdatawait_range",
            "vfs_fsync_range",
            "ext4_sync_file",
            "jbd2_log_wait_commit",
            "iomap_file_buffered_write",
            "generic_perform_write",
        ],
    ),
    (
        WaitClass::Read,
        &[
            "filemap_read",
            "filemap_get_pages",
            "__iomap_dio_rw",
            "iomap_dio_rw",
            "__blkdev_direct_IO*",
            "blkdev_direct_IO",
            "page_cache_ra_*",
            "vfs_read_folio",
            "filemap_splice_read",
        ],
    ),
    (WaitClass::Futex, &["futex_*", "__futex_*", "do_futex"]),
    (
        WaitClass::FileLock,
        &["locks_lock_inode_wait", "do_lock_file_wait", "fcntl_setlk*"],
    ),
    (
        WaitClass::Pipe,
        &["anon_pipe_*", "pipe_*", "fifo_*", "wait_for_partner"],
    ),
    (
        WaitClass::Socket,
        &[
            "unix_stream_*",
            "unix_wait_for_peer",
            "unix_dgram_*",
            "__unix_dgram_recvmsg",
            "sk_wait_data",
            "sk_stream_wait_*",
            "tcp_recvmsg*",
            "inet_csk_accept",
            "__skb_wait_for_more_packets",
            "__skb_recv_*",
            "sock_alloc_send_pskb",
            "vsock_*",
        ],
    ),
    (
        WaitClass::Poll,
        &[
            "do_epoll_*",
            "ep_poll",
            "poll_schedule_timeout*",
            "do_sys_poll",
            "do_select",
            "do_poll*",
            "io_cqring_*",
            "eventfd_read",
        ],
    ),
    (
        WaitClass::Sleep,
        &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep*"],
    ),
    (
        WaitClass::Process,
        &[
            "do_wait",
            "kernel_wait4",
            "kernel_clone",
            "wait_for_vfork_done",
            "pidfd_*",
        ],
    ),
    (
        WaitClass::Signal,
        &[
            "sigsuspend",
            "do_sigtimedwait",
            "ptrace_stop",
            "do_signal_stop",
            "do_jobctl_trap",
            "get_signal",
            "__do_sys_pause",
            "__x64_sys_pause",
            "signalfd_*",
        ],
    ),
];

/// Functions that only give up the CPU, or wait for whatever their caller says.
const GIVES_UP: [&str; 22] = [
    "schedule",
    "__schedule",
    "__schedule_loop",
    "schedule_timeout*",
    "schedule_hrtimeout*",
    "schedule_preempt_disabled",
    "io_schedule*",
    "bit_wait*",
    "__wait_on_bit*",
    "out_of_line_wait_on_bit*",
    "wait_on_bit*",
    "prepare_to_wait*",
    "do_wait_intr*",
    "wait_for_completion*",
    "__wait_for_common",
    "wait_for_common*",
    "__mutex_lock*",
    "mutex_lock*",
    "rwsem_down_*",
    "down_*",
    "__down*",
    "preempt_schedule*",
];

/// What a thread with this stack waited for, the innermost function first.
pub(crate) fn classify(stack: &[Function<'_>]) -> Wait {
    let (class, function) = class_of(stack);
    Wait {
        class,
        function: function.to_owned(),
        stack: stack.iter().map(|f| f.name.to_owned()).collect(),
    }
}

fn class_of<'a>(stack: &[Function<'a>]) -> (WaitClass, &'a str) {
    if let Some(name) = gpu_function(stack) {
        return (WaitClass::GpuDriver, name);
    }
    for (class, names) in &TABLE {
        if let Some(function) = stack.iter().find(|f| any_matches(names, f.name)) {
            return (*class, function.name);
        }
    }
    let tells = stack.iter().find(|f| !any_matches(&GIVES_UP, f.name));
    (WaitClass::Other, tells.map_or("unknown", |f| f.name))
}

/// The innermost function of a GPU's driver.
pub(crate) fn gpu_function<'a>(stack: &[Function<'a>]) -> Option<&'a str> {
    let gpu = |f: &&Function<'_>| GPU_MODULES.contains(&f.module);
    stack.iter().find(gpu).map(|f| f.name)
}

/// Whether the name is one of the patterns, which may end in `*`.
pub(crate) fn any_matches(patterns: &[&str], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
