//! The file of one process.

use crate::name::program_name;
use crate::settings::Settings;
use gpustall_cuda::EventSink;
use gpustall_trace::{
    DistributedInfo, EventRef, Meta, MonoTime, PartialWriter, Pid, State, TraceTime, WriteError,
    boot_id, job_of,
};
use std::path::Path;

/// Events of one process at most, as in a session of the SDK. They take about 140 bytes each. Processes of
/// one job share them, since they are joined in the end.
const MAX_EVENTS: u64 = 8_000_000;

/// Events that a process may keep however many there are.
const MIN_EVENTS: u64 = 200_000;

/// A partial trace that takes a bounded number of events.
pub(crate) struct Bounded {
    partial: PartialWriter,
    limit: u64,
    kept: u64,
    refused: u64,
    reported: u64,
}

impl Bounded {
    /// Makes the file, and introduces the process.
    pub(crate) fn create(settings: &Settings, start: MonoTime) -> Result<Self, WriteError> {
        let pid = std::process::id();
        let name = process_name();
        let variable = |name: &str| std::env::var(name).ok();
        let path = settings.folder.join(format!("{name}.{pid}.json.partial"));
        let meta = Meta {
            name: name.clone(),
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            start_mono: start,
            start_unix_ns: unix_time_at(start),
            pid: Pid(pid),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            state: State::Partial,
            devices: gpustall_cuda::devices(),
            distributed: DistributedInfo::of(variable),
            job: job_of(variable),
            boot: boot_id(),
            ..Meta::default()
        };
        let limit = share_of_events(variable, others(&settings.folder));
        let mut partial = PartialWriter::create(&path, &meta)?;
        partial.push(&EventRef::Process {
            pid: Pid(Pid::SYNTHETIC),
            name: "gpustall",
            sort: -2,
        });
        partial.push(&EventRef::Process {
            pid: Pid(pid),
            name: &name,
            sort: 0,
        });
        Ok(Self {
            partial,
            limit,
            kept: 0,
            refused: 0,
            reported: 0,
        })
    }

    /// Hands what is buffered to the operating system.
    pub(crate) fn flush(&mut self, at: TraceTime) {
        if self.reported != self.refused {
            self.reported = self.refused;
            self.partial.push(&EventRef::Loss {
                source: "events beyond the limit of a process",
                at,
                total: self.refused,
            });
        }
        // A full disk is the job's trouble before it is ours; the file ends on a whole event.
        let _ = self.partial.flush();
    }
}

impl EventSink for Bounded {
    fn push(&mut self, event: &EventRef<'_>) {
        let counts = matches!(event, EventRef::Slice { .. } | EventRef::Flow { .. });
        if counts && self.kept >= self.limit {
            self.refused += 1;
            return;
        }
        self.kept += u64::from(counts);
        self.partial.push(event);
    }
}

/// Events that this process may keep: its share of those of the processes that its launcher says it
/// starts on this machine, or of those that began to record before it.
fn share_of_events(variable: impl Fn(&str) -> Option<String>, others: u64) -> u64 {
    let started = variable("LOCAL_WORLD_SIZE").and_then(|n| n.trim().parse::<u64>().ok());
    let processes = started.unwrap_or(0).max(others + 1);
    (MAX_EVENTS / processes).max(MIN_EVENTS)
}

/// Files that other processes of the job have in the folder, where the sidecar and the counters of devices have
/// theirs, too.
fn others(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own = |entry: &std::fs::DirEntry| is_of_a_process(&entry.file_name().to_string_lossy());
    entries.filter(own).count() as u64
}

/// Whether a file of this name is one that [`Bounded::create`] makes.
fn is_of_a_process(file: &str) -> bool {
    let name = file.strip_suffix(".json.partial");
    let pid = name.and_then(|name| name.rsplit_once('.'));
    pid.is_some_and(|(_, pid)| pid.parse::<u32>().is_ok())
}

/// The wall clock at `start`.
fn unix_time_at(start: MonoTime) -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let ago = gpustall_trace::MonotonicClock::read()
        .as_nanos()
        .saturating_sub(start.as_nanos());
    now.saturating_sub(ago)
}

/// What people call the process: its program, or the script that an interpreter runs.
fn process_name() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    program_name(&words.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_a_job_share_the_events_that_may_be_kept() {
        let of = |size: Option<&'static str>, others| {
            share_of_events(|_| size.map(str::to_owned), others)
        };
        assert_eq!(of(None, 0), MAX_EVENTS);
        assert_eq!(of(Some("8"), 0), MAX_EVENTS / 8);
        assert_eq!(of(Some("2"), 3), MAX_EVENTS / 4);
        assert_eq!(of(Some("1000"), 0), MIN_EVENTS);
    }

    #[test]
    fn only_files_of_processes_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [
            "train.41.json.partial",
            "train.py.42.json.partial",
            "counters.json.partial",
            "sidecar.trace.json.partial",
            "sidecar.trace.json.gz",
        ] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(others(folder.path()), 2);
    }
}
