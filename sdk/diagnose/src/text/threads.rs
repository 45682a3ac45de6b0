//! Where the kernel says that the time of threads went, and what they ran.

use super::rows::usage_row;
use super::wrap::{columns, paragraph};
use crate::links::percent;
use crate::report::{Report, Usage};
use crate::state_links::short;
use crate::thread_table::add;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Threads, and processes below them, that are printed.
const MAX_THREADS: usize = 5;
const MAX_PROCESSES: usize = 2;

/// Threads whose most frequent functions are printed.
const MAX_SAMPLED: usize = 2;

/// Threads or processes of one row.
struct Row {
    name: String,
    /// How many.
    count: u64,
    /// Threads of processes.
    threads: u64,
    /// The longest interval off CPU.
    worst: Option<u64>,
    usage: Usage,
}

/// Puts rows of one name together where that makes no difference to whoever reads them: workers that follow each
/// other, one in each epoch, are one of the table of workers too.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    of_worker: HashMap<String, usize>,
}

impl Rows {
    fn add(&mut self, row: Row, works: bool) {
        let known = self.of_worker.get(&row.name).filter(|_| works);
        let Some(known) = known.and_then(|&at| self.rows.get_mut(at)) else {
            if works {
                self.of_worker.insert(row.name.clone(), self.rows.len());
            }
            self.rows.push(row);
            return;
        };
        known.count += row.count;
        known.threads += row.threads;
        known.worst = known.worst.max(row.worst);
        add(&mut known.usage, &row.usage);
    }
}

impl Report {
    pub(super) fn fmt_threads(&self, f: &mut String) -> fmt::Result {
        if self.threads.is_empty() {
            return Ok(());
        }
        let head = [
            "thread",
            "on CPU",
            "for CPU",
            "blocked",
            "worst",
            "switches",
            "preempted",
            "faults",
            "read",
        ];
        let head = head.map(str::to_owned).to_vec();
        let mut threads = Rows::default();
        for thread in &self.threads {
            let row = Row {
                name: thread.name.clone(),
                count: 1,
                threads: 0,
                worst: thread.worst_off_cpu.as_ref().map(|worst| worst.length_ns),
                usage: thread.usage,
            };
            threads.add(row, thread.worker_of.is_some());
        }
        let makers = self.threads.iter().filter(|of| of.worker_of.is_some());
        let makers: BTreeSet<u32> = makers.filter_map(|of| of.pid).collect();
        let trainers = self.threads.iter().filter(|of| of.trains);
        let trainers: BTreeSet<u32> = trainers.filter_map(|of| of.pid).collect();
        let mut processes = Rows::default();
        // A process of one thread is that thread.
        for process in self.processes.iter().filter(|process| process.threads > 1) {
            let row = Row {
                name: process.name.clone(),
                count: 1,
                threads: process.threads,
                worst: None,
                usage: process.usage,
            };
            let works = makers.contains(&process.pid) && !trainers.contains(&process.pid);
            processes.add(row, works);
        }
        let threads = threads.rows.into_iter().take(MAX_THREADS).map(|row| {
            let name = match row.count {
                1 => row.name,
                n => format!("{} ({n} threads)", row.name),
            };
            usage_row(name, row.worst, &row.usage)
        });
        let processes = processes.rows.into_iter().take(MAX_PROCESSES).map(|row| {
            let name = match row.count {
                1 => format!("{} ({} threads)", row.name, row.threads),
                n => format!("{} ({n} processes)", row.name),
            };
            usage_row(name, None, &row.usage)
        });
        columns(f, head, threads.chain(processes).collect())?;
        let sampled = self.threads.iter().filter(|of| !of.functions.is_empty());
        let busy = sampled.filter(|of| of.trains || of.worker_of.is_some());
        for thread in busy.take(MAX_SAMPLED) {
            let top = thread.functions.iter().take(2);
            let top: Vec<String> = top
                .map(|of| format!("{} ({}) {}", short(&of.name), of.class, percent(of.share)))
                .collect();
            let line = format!("{} ran {}", thread.name, top.join(", "));
            paragraph(f, "samples ", "        ", &line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{Process, Report, Thread, Usage};

    fn usage(on_cpu_ns: u64) -> Usage {
        Usage {
            watched_ns: 100,
            on_cpu_ns,
            ..Usage::default()
        }
    }

    #[test]
    fn workers_of_one_name_have_one_row_and_other_threads_their_own() {
        let thread = |name: &str, pid: u32, on_cpu: u64, worker: bool| Thread {
            name: name.to_owned(),
            tid: pid,
            pid: Some(pid),
            worker_of: worker.then(|| "train".to_owned()),
            usage: usage(on_cpu),
            ..Thread::default()
        };
        let process = |name: &str, pid: u32| Process {
            name: name.to_owned(),
            pid,
            threads: 3,
            usage: usage(50),
        };
        let report = Report {
            threads: vec![
                thread("main", 1, 90, false),
                thread("worker-0", 2, 10, true),
                thread("worker-1", 3, 8, true),
                thread("worker-0", 4, 30, true),
                thread("python", 1, 5, false),
                thread("python", 1, 3, false),
            ],
            processes: vec![process("a.py: worker 0", 2), process("a.py: worker 0", 4)],
            ..crate::diagnose(&gpustall_trace::Trace::default())
        };
        let mut text = String::new();
        report.fmt_threads(&mut text).expect("a text takes all");
        let names: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split("  ").next())
            .collect();
        let rows = [
            "main",
            "worker-0 (2 threads)",
            "worker-1",
            "python",
            "python",
            "a.py: worker 0 (2 processes)",
        ];
        assert_eq!(names, rows, "{text}");
        let row = text.lines().find(|line| line.starts_with("worker-0"));
        assert!(row.is_some_and(|row| row.contains("20 %")), "{text}");
    }
}
