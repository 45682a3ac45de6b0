//! What the scheduler says about a thread at one moment.

/// What a thread did, as far as the kernel recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum ThreadState {
    /// It was not watched.
    #[default]
    Unknown,
    /// It ran. Stretches off CPU that are too short for a record count as running.
    Running,
    /// It was ready to run, and another thread had the CPU, or it was woken and had not begun.
    WaitsForCpu,
    /// It waited for something, or was woken from that and an idle CPU had not begun to run it, for less than 1 ms.
    Blocked(BlockedOn),
}

/// What a blocked thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockedOn {
    /// A file: `file read`, `write`, a `page fault` that reads a file, any wait that the kernel
    /// counted as one for I/O.
    File,
    /// Whoever is at the other end: `socket`, `pipe`, `poll`.
    Peer,
    /// Memory: `reclaim`, `mmap lock`, a `page fault` that brings a page back from swap space or
    /// from another place.
    Memory,
    /// A lock or a condition of the program: `futex`, `file lock`.
    Lock,
    /// A `futex`, to which the thread was woken by a thread of its own process that makes no
    /// batches and that ran for at least half of the wait, and not nearly always outside of such
    /// waits: it did this thread's work.
    OwnThread,
    /// The driver of a device: `gpu driver`.
    Driver,
    /// Anything else: `sleep`, `process`, `signal`, `other`, or not said.
    Other,
}

impl BlockedOn {
    /// From the class and the function of a wait, as the sidecar names them.
    pub fn of(class: &str, function: &str, iowait: bool) -> Self {
        let from_swap = function == "do_swap_page" || function.starts_with("migration_entry_wait");
        match class {
            "futex" | "file lock" => Self::Lock,
            "page fault" if from_swap => Self::Memory,
            "file read" | "write" | "page fault" => Self::File,
            "reclaim" | "mmap lock" => Self::Memory,
            "socket" | "pipe" | "poll" => Self::Peer,
            "gpu driver" => Self::Driver,
            _ if iowait => Self::File,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_from_swap_space_is_memory_and_one_from_a_file_is_the_file() {
        let of = |class, function| BlockedOn::of(class, function, true);
        assert_eq!(of("page fault", "do_swap_page"), BlockedOn::Memory);
        assert_eq!(of("page fault", "filemap_fault"), BlockedOn::File);
        assert_eq!(of("futex", "futex_wait"), BlockedOn::Lock);
        assert_eq!(of("file lock", "locks_lock_inode_wait"), BlockedOn::Lock);
    }

    #[test]
    fn a_wait_without_a_class_is_one_for_a_file_where_the_kernel_says_io() {
        assert_eq!(BlockedOn::of("", "", true), BlockedOn::File);
        assert_eq!(BlockedOn::of("", "", false), BlockedOn::Other);
    }
}
