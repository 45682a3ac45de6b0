//! How long the probes of this process ran, as the kernel counts it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::Duration;

/// Run time and runs of each program, by its name.
pub(crate) struct ProbeTimes(BTreeMap<String, (Duration, u64)>);

impl ProbeTimes {
    /// The programs that this process holds.
    pub(crate) fn now() -> Self {
        let own = own_programs();
        let mut times: BTreeMap<String, (Duration, u64)> = BTreeMap::new();
        for program in aya::programs::loaded_programs().flatten() {
            if own.contains(&program.id()) {
                let name = program.name_as_str().unwrap_or("?").to_owned();
                let of = times.entry(name).or_default();
                of.0 += program.run_time();
                of.1 += program.run_count();
            }
        }
        assert!(!times.is_empty(), "no program of this process is loaded");
        Self(times)
    }

    /// What was added since `before`: name, time, runs; the most time first, without those that
    /// did not run.
    pub(crate) fn since(&self, before: &Self) -> Vec<(String, Duration, u64)> {
        let mut added: Vec<_> = self
            .0
            .iter()
            .map(|(name, &(time, runs))| {
                let (time_before, runs_before) = before.0.get(name).copied().unwrap_or_default();
                (name.clone(), time - time_before, runs - runs_before)
            })
            .filter(|&(_, _, runs)| runs > 0)
            .collect();
        added.sort_by_key(|&(_, time, _)| std::cmp::Reverse(time));
        added
    }
}

/// Ids of the programs behind this process's open files.
fn own_programs() -> HashSet<u32> {
    let files = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    files
        .filter_map(|file| {
            let info = fs::read_to_string(file.path()).ok()?;
            let id = info
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:"))?;
            id.trim().parse().ok()
        })
        .collect()
}
