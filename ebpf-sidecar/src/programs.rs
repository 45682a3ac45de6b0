//! Names from the files of programs, in memory that does not grow with the number of processes.

use blazesym::symbolize::Symbolizer;
use std::collections::HashSet;
use std::path::Path;

/// Processes that are gone whose files may still be held. Some processes of one job share theirs, and to read
/// the symbols of a large program again takes about a tenth of a second.
const MOST_GONE: usize = 16;

/// Looks up what stands at addresses of programs.
///
/// A symbolizer holds what it has read of each file for ever, and the files of each process are others to
/// it: so it is made anew when it holds those of many processes that are gone.
pub(crate) struct Programs {
    symbolizer: Symbolizer,
    processes: HashSet<u32>,
    /// Processes at which it is asked next which of them are gone.
    ask_at: usize,
}

impl Programs {
    pub(crate) fn new() -> Self {
        Self {
            symbolizer: Symbolizer::new(),
            processes: HashSet::new(),
            ask_at: MOST_GONE,
        }
    }

    /// The symbolizer, to look something up in the process `pid`.
    pub(crate) fn of(&mut self, pid: u32) -> &Symbolizer {
        if self.processes.len() > self.ask_at && !self.processes.contains(&pid) {
            let lives = |pid: &&u32| Path::new("/proc").join(pid.to_string()).exists();
            let living = self.processes.iter().filter(lives).count();
            match self.processes.len() - living > MOST_GONE {
                true => *self = Self::new(),
                false => self.ask_at = self.processes.len() + MOST_GONE,
            }
        }
        self.processes.insert(pid);
        &self.symbolizer
    }

    /// Nobody is looked after any more.
    pub(crate) fn forget(&mut self) {
        if !self.processes.is_empty() {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_gone_are_forgotten_and_others_are_not() {
        let mut programs = Programs::new();
        // No process has a number beyond the kernel's limit.
        let gone = |n: usize| 5_000_000 + n as u32;
        for n in 0..10 * MOST_GONE {
            programs.of(gone(n));
            assert!(programs.processes.len() <= 3 * MOST_GONE);
        }
        programs.forget();
        assert!(programs.processes.is_empty());
        let living = std::fs::read_dir("/proc").expect("readable");
        let living = living.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        let living: Vec<u32> = living.take(3 * MOST_GONE).collect();
        living.iter().for_each(|&pid| {
            programs.of(pid);
        });
        let kept = living.iter().filter(|pid| programs.processes.contains(pid));
        assert!(
            kept.count() + MOST_GONE >= living.len(),
            "some may have ended"
        );
    }
}
