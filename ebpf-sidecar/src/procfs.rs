//! What `/proc` says of processes and threads.

use crate::recording::Faults;
use std::fs;
use std::path::Path;

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    /// Its id.
    pub(crate) pid: u32,
    /// The process that forked it.
    pub(crate) parent: u32,
}

/// Thread ids of a process; empty when it is gone.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers_in(format!("/proc/{pid}/task"))
}

/// All processes.
pub(crate) fn processes() -> Vec<ProcessEntry> {
    let all = numbers_in("/proc").into_iter();
    all.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = Stat::parse(&stat)?.parent;
        Some(ProcessEntry { pid, parent })
    })
    .collect()
}

/// Name of a thread; `None` when it is gone.
pub(crate) fn name(pid: u32, tid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

/// State letter of a thread (`R`, `S`, `D`, ...); `None` when it is gone.
pub(crate) fn state(pid: u32, tid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Stat::parse(&stat).map(|stat| stat.state)
}

/// The process that forked this one; `None` when it is gone.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Stat::parse(&stat).map(|stat| stat.parent)
}

/// Page faults that a thread has taken since it was born; `None` when it is gone.
pub(crate) fn faults(pid: u32, tid: u32) -> Option<Faults> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Stat::parse(&stat).map(|stat| stat.faults)
}

/// Functions on the kernel stack of a thread, the innermost first; empty without permission.
pub(crate) fn stack(pid: u32, tid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stack")).unwrap_or_default();
    // Lines are `[<0>] function+0x50/0x110 [module]`.
    let lines = text.lines().filter_map(|line| line.split_once("] "));
    lines
        .filter_map(|(_, place)| Some(place.split_once('+')?.0.to_owned()))
        .collect()
}

/// Users and ids of a thread; `None` when it is gone.
pub(crate) fn status(pid: u32, tid: u32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    Status::parse(&text)
}

/// What identifies the pid namespace of a process; `None` when it is gone or not ours to see.
pub(crate) fn pid_namespace(pid: u32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// `pid` and all that it forked, directly or not, as far as their parents still live.
pub(crate) fn family(pid: u32, processes: &[ProcessEntry]) -> Vec<u32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = processes.iter().filter(|p| p.parent == parent);
        let children: Vec<u32> = children.map(|p| p.pid).collect();
        for child in children {
            if !family.contains(&child) {
                family.push(child);
            }
        }
        next += 1;
    }
    family
}

/// Whose a thread is, and its ids in each pid namespace that it is in, the root's first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    /// Real, effective and saved user.
    users: [u32; 3],
    /// Whether it is a thread of the kernel.
    pub(crate) kernel: bool,
    processes: Vec<u32>,
    threads: Vec<u32>,
}

impl Status {
    fn parse(text: &str) -> Option<Self> {
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            let fields = line.split_ascii_whitespace();
            fields.map(|field| field.parse().ok()).collect()
        };
        Some(Self {
            users: numbers("Uid:")?.get(..3)?.try_into().ok()?,
            // Only they have no memory of their own.
            kernel: !text.contains("\nVmSize:") && numbers("Kthread:").is_none_or(|k| k == [1]),
            processes: numbers("NStgid:")?,
            threads: numbers("NSpid:")?,
        })
    }

    /// Whether it has no other rights than this user's.
    pub(crate) fn belongs_to(&self, user: u32) -> bool {
        self.users == [user; 3]
    }

    /// How many pid namespaces lie above its own.
    pub(crate) fn level(&self) -> usize {
        self.threads.len().saturating_sub(1)
    }

    /// Ids of process and thread in the namespace with so many above it.
    pub(crate) fn ids_at(&self, level: usize) -> Option<(u32, u32)> {
        Some((*self.processes.get(level)?, *self.threads.get(level)?))
    }
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    faults: Faults,
}

impl Stat {
    /// The name, in parentheses, may hold blanks and parentheses itself.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            faults: Faults {
                // Fields 10 and 12 of the line, as proc(5) counts them.
                minor: fields.nth(5)?.parse().ok()?,
                major: fields.nth(1)?.parse().ok()?,
            },
        })
    }
}

fn numbers_in(folder: impl AsRef<Path>) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let stat = "7 (a) R) (b) S 3 7 7 0 -1 4194304 120 55 8 9 1 2";
        let stat = Stat::parse(stat).expect("a line");
        assert_eq!((stat.state, stat.parent), ('S', 3));
        assert_eq!((stat.faults.minor, stat.faults.major), (120, 8));
        assert_eq!(Stat::parse("7 (cut"), None);
    }

    #[test]
    fn a_status_tells_users_and_ids() {
        let text = "Name:\tx\nTgid:\t40\nNStgid:\t40\t1\nNSpid:\t42\t3\nKthread:\t0\n\
                    Uid:\t5\t5\t5\t5\nVmSize:\t 10 kB\n";
        let status = Status::parse(text).expect("a status");
        assert!(status.belongs_to(5) && !status.belongs_to(0) && !status.kernel);
        assert_eq!((status.level(), status.ids_at(1)), (1, Some((1, 3))));
        assert_eq!(status.ids_at(2), None);
        let raised = Status::parse(&text.replace("5\t5\t5\t5", "5\t0\t0\t0")).expect("a status");
        assert!(!raised.belongs_to(5) && !raised.belongs_to(0));
        assert_eq!(Status::parse("Name:\tx\n"), None);
    }

    #[test]
    fn threads_of_the_kernel_are_known() {
        let me = std::process::id();
        assert!(!status(me, me).expect("a status").kernel);
        // The parent of all of them, where this pid namespace has them.
        if name(2, 2).as_deref() == Some("kthreadd") {
            assert!(status(2, 2).expect("a status").kernel);
        }
    }

    #[test]
    fn a_family_is_all_that_descends_from_a_process() {
        let list = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 2)];
        let list = list.map(|(pid, parent)| ProcessEntry { pid, parent });
        assert_eq!(family(2, &list), [2, 3, 6, 4]);
        assert_eq!(family(9, &list), [9]);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id();
        assert!(threads(me).contains(&me));
        assert!(processes().iter().any(|p| p.pid == me));
        assert!(name(me, me).is_some_and(|name| !name.is_empty()));
    }
}
