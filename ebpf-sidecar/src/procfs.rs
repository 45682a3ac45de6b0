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
