//! The report as text for one screen: 80 columns, about 40 lines for a usual run.

mod finding;
mod phases;
mod rows;
mod threads;
mod wrap;

use crate::cause::COMPUTE;
use crate::ending::chosen;
use crate::links::percent;
use crate::report::{Report, Unfinished};
use crate::stats::Distribution;
use gpustall_trace::{Nanos, TraceTime};
use rows::{call_row, fmt_device, loader_row, rank_row, worker_row};
use std::fmt::{self, Write};
use wrap::{columns, paragraph};

/// Rows of the table of calls that are printed.
const MAX_CALLS: usize = 5;

/// Rows of a table, and findings, that are printed; the rest is counted.
const MAX_ROWS: usize = 8;

/// The text has no line break at its end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_to(&mut text)?;
        f.write_str(text.trim_end())
    }
}

impl Report {
    fn write_to(&self, f: &mut String) -> fmt::Result {
        paragraph(f, "", "", &self.verdict)?;
        if !self.ended.is_empty() {
            paragraph(f, "", "", &self.ended)?;
        }
        if !self.finished {
            let partial = "the recording was not finished; this covers what had been written";
            paragraph(f, "partial: ", "  ", partial)?;
        }
        self.fmt_window(f)?;
        self.fmt_breakdown(f)?;
        for number in 1..=self.findings.len().min(MAX_ROWS) {
            finding::write(f, number, &self.findings)?;
        }
        let mut tables = String::new();
        self.fmt_tables(&mut tables)?;
        if !tables.is_empty() && !tables.starts_with('\n') {
            writeln!(f)?;
        }
        f.push_str(&tables);
        self.fmt_trouble(f)?;
        self.fmt_missing(f)
    }

    fn fmt_window(&self, f: &mut String) -> fmt::Result {
        if self.window_ns == 0 {
            return Ok(());
        }
        let threads: Vec<String> = self
            .devices
            .iter()
            .map(|device| device.name.clone())
            .collect();
        let window = Nanos::new(self.window_ns);
        let kind = if self.evaluation {
            "evaluation"
        } else {
            "training"
        };
        let on = crate::links::group(&threads);
        writeln!(f)?;
        let kind = match self.steps.count + self.first_steps.length.count {
            0 => String::new(),
            _ => format!(" of {kind}"),
        };
        let line = format!("{window}{kind} on {on}, evidence: {}", self.evidence.level);
        paragraph(f, "window  ", "        ", &line)?;
        fmt_steps(f, "steps ", &self.steps, "")?;
        let first = &self.first_steps;
        let warm = match first.warmup {
            0 => String::new(),
            n => format!(" ({n} warm-up)"),
        };
        fmt_steps(f, "first ", &first.length, &warm)?;
        let several = !self.ranks.is_empty();
        let devices = self.devices.iter();
        let shown = devices.filter(|device| several || device.tid.is_none());
        shown
            .take(MAX_ROWS)
            .try_for_each(|device| fmt_device(f, device))
    }

    fn fmt_breakdown(&self, f: &mut String) -> fmt::Result {
        if self.breakdown.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nwhere the time went")?;
        let mut rows: Vec<(&String, &f64)> = self.breakdown.iter().collect();
        rows.sort_by(|a, b| {
            (b.0 == COMPUTE)
                .cmp(&(a.0 == COMPUTE))
                .then(b.1.total_cmp(a.1))
        });
        let longest = rows.iter().map(|(cause, _)| cause.chars().count()).max();
        let width = longest.unwrap_or(0).max(15) + 1;
        for (cause, &share) in rows {
            let ns = Nanos::new(self.charges_ns.get(cause).copied().unwrap_or(0)).to_string();
            let bar = "#".repeat((share.clamp(0.0, 1.0) * 40.0).round() as usize);
            let line = format!("  {cause:<width$}{:>6}  {ns:>8}  {bar}", percent(share));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn fmt_tables(&self, f: &mut String) -> fmt::Result {
        if !self.ranks.is_empty() {
            writeln!(f)?;
            let head = [
                "process",
                "on",
                "steps",
                "p50",
                "last in",
                "waits",
                "waited for",
                "late by",
            ];
            let rows = self.ranks.iter().take(MAX_ROWS).map(rank_row).collect();
            columns(f, head.map(str::to_owned).to_vec(), rows)?;
            more(f, self.ranks.len())?;
        }
        if !self.loaders.is_empty() {
            writeln!(f)?;
            let head = [
                "loader", "batches", "wait p50", "p95", "max", "of steps", "queue",
            ];
            let rows = self.loaders.iter().take(MAX_ROWS).map(loader_row).collect();
            columns(f, head.map(str::to_owned).to_vec(), rows)?;
            more(f, self.loaders.len())?;
        }
        if !self.workers.is_empty() {
            let head = [
                "worker, in the window",
                "batches",
                "get",
                "collate",
                "busy",
                "on CPU",
                "for CPU",
                "blocked",
                "loader",
            ];
            let rows = self.workers.iter().take(MAX_ROWS).map(worker_row).collect();
            columns(f, head.map(str::to_owned).to_vec(), rows)?;
            more(f, self.workers.len())?;
        }
        self.fmt_threads(f)?;
        if !self.calls.is_empty() {
            let head = [
                "driver call",
                "calls",
                "total",
                "p50",
                "p99",
                "max",
                "p99/p50",
            ];
            let rows = self.calls.iter().take(MAX_CALLS).map(call_row).collect();
            columns(f, head.map(str::to_owned).to_vec(), rows)?;
        }
        self.fmt_phases(f)
    }

    fn fmt_trouble(&self, f: &mut String) -> fmt::Result {
        let mut lines = Vec::new();
        // It stands below the verdict.
        let told = chosen(&self.faults).filter(|_| !self.ended.is_empty());
        let rest = self.faults.iter().enumerate();
        let rest = rest.filter(|&(i, _)| Some(i) != told);
        for (_, fault) in rest.take(MAX_ROWS) {
            let stage = fault
                .stage
                .as_ref()
                .map_or(String::new(), |stage| format!(" in {stage}"));
            let at = TraceTime::from_nanos(fault.at_ns).since(TraceTime::ZERO);
            let mut line = format!("{}{stage} at {at}: {}", fault.thread, fault.message);
            if !fault.consequence.is_empty() {
                write!(line, " ({})", fault.consequence)?;
            }
            lines.push(line);
        }
        // A wait no longer than others were is only where the end of the run cut it off.
        let usual = self.loaders.iter().map(|loader| loader.wait.max_ns).max();
        let usual = usual.unwrap_or(0);
        let tells = |open: &&Unfinished| open.hang || open.for_ns > usual;
        for open in self.unfinished.iter().filter(tells).take(MAX_ROWS) {
            let length = Nanos::new(open.for_ns);
            lines.push(format!(
                "{} was still in {} after {length}",
                open.thread, open.what
            ));
        }
        lines.extend(self.notes.iter().take(MAX_ROWS).cloned());
        if !lines.is_empty() {
            writeln!(f)?;
        }
        lines
            .iter()
            .try_for_each(|line| paragraph(f, "note    ", "        ", line))
    }

    fn fmt_missing(&self, f: &mut String) -> fmt::Result {
        if self.evidence.missing.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nnot recorded, and what it would say")?;
        self.evidence.missing.iter().try_for_each(|missing| {
            let how = match missing.how.as_str() {
                "" => String::new(),
                how => format!(" ({how})"),
            };
            let line = format!("{}: {}{how}", missing.what, missing.adds);
            paragraph(f, "  ", "    ", &line)
        })
    }
}

fn fmt_steps(f: &mut String, what: &str, d: &Distribution, rest: &str) -> fmt::Result {
    if d.count == 0 {
        return Ok(());
    }
    let [p50, p95, p99, max] =
        [d.p50_ns, d.p95_ns, d.p99_ns, d.max_ns].map(|ns| Nanos::new(ns).to_string());
    let head = format!("{what}  {}", d.count);
    writeln!(
        f,
        "{head:<13} p50 {p50:<9} p95 {p95:<9} p99 {p99:<9} max {max}{rest}"
    )
}

fn more(f: &mut String, count: usize) -> fmt::Result {
    match count.saturating_sub(MAX_ROWS) {
        0 => Ok(()),
        n => writeln!(f, "  and {n} more"),
    }
}
