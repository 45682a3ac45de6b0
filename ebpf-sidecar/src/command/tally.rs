//! What is told of a recording when it has ended.

use gpustall_sidecar::{CudaClass, Recording};
use gpustall_trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Counts of what was recorded, over its parts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    threads: BTreeSet<u32>,
    /// All that threads were called.
    pub(super) names: BTreeSet<String>,
    intervals: usize,
    calls: BTreeMap<CudaClass, usize>,
}

impl Tally {
    /// Counts one part.
    pub(super) fn add(&mut self, part: &Recording) {
        self.intervals += part.intervals.len();
        for thread in &part.threads {
            self.threads.insert(thread.number);
            if !self.names.contains(&thread.name) {
                self.names.insert(thread.name.clone());
            }
        }
        for call in &part.cuda_calls {
            *self.calls.entry(call.function.class()).or_default() += 1;
        }
    }

    /// Tells it, and what the user should know, on standard error.
    pub(super) fn tell(&self, path: &Path, trace: &Trace, bytes: u64) {
        eprintln!(
            "{}: {:.1} s, {} threads, {} intervals off CPU, {} KiB",
            path.display(),
            trace.length().as_secs_f64(),
            self.threads.len(),
            self.intervals,
            bytes / 1024
        );
        if !self.calls.is_empty() {
            let calls = self.calls.iter();
            let counts = calls.map(|(class, n)| format!("{n} {}", class.name()));
            eprintln!("CUDA calls: {}", counts.collect::<Vec<_>>().join(", "));
        }
        for (source, count) in trace.lost_by_source() {
            eprintln!("lost: {count} {source}");
        }
        for note in &trace.meta.notes {
            eprintln!("note: {note}");
        }
    }
}
