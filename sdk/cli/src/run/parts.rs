//! The folder in which the processes of a job leave their recordings.

use crate::order::{is_of_kernel, operations, steps};
use anyhow::{Context, bail};
use gpustall_inject::WINDOW_FILE;
use gpustall_trace::{
    Meta, MonoTime, MonotonicClock, Part, Pid, State, Trace, TraceTime, merge_job, read,
};
use std::cmp::Reverse;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The library that the CUDA driver loads into the job.
static LIBRARY: &[u8] = include_bytes!(env!("GPUSTALL_INJECT_SO"));

/// What the recording of the sidecar is called in the folder.
const SIDECAR: &str = "sidecar.trace.json.gz";

/// What the counters of devices are called there.
const COUNTERS: &str = "counters.json.partial";

/// The folder, beside the trace to be.
pub(super) struct Parts(PathBuf);

impl Parts {
    /// Makes it: `x.trace.parts` for `x.trace.json.gz`.
    pub(super) fn create(output: &Path) -> anyhow::Result<Self> {
        let output = std::path::absolute(output).unwrap_or_else(|_| output.to_path_buf());
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.trim_end_matches(".gz").trim_end_matches(".json");
        let folder = output.with_file_name(format!("{stem}.parts"));
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => bail!(
                "{0} is there already, of a run that goes on or was cut off: once it is over, `gpustall finish \
                 {0}` makes a trace of it, and then it may be removed; or name another trace with -o",
                folder.display()
            ),
            Err(error) => Err(error).with_context(|| format!("cannot make {}", folder.display())),
        }
    }

    /// Those that a run left in `folder`.
    pub(super) fn left(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where the sidecar's recording goes.
    pub(super) fn sidecar(&self) -> PathBuf {
        self.0.join(SIDECAR)
    }

    /// Where the counters of devices go.
    pub(super) fn counters(&self) -> PathBuf {
        self.0.join(COUNTERS)
    }

    /// Unpacks the library.
    pub(super) fn library(&self) -> anyhow::Result<PathBuf> {
        let path = self.0.join("libgpustall_inject.so");
        fs::write(&path, LIBRARY).with_context(|| format!("cannot write {}", path.display()))?;
        // The job may run as another user.
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o755));
        Ok(path)
    }

    /// Asks the processes of the job for a window of device operations.
    pub(super) fn ask_for_window(&self) {
        let _ = fs::write(self.0.join(WINDOW_FILE), "now\n");
    }

    /// Removes the folder and what is in it.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }

    /// One trace of everything in the folder; where there is nothing, an empty one of the job `name`,
    /// which ran as process `pid` from `start` to `end`. `exit` is its exit code, where that is known.
    pub(super) fn join(
        &self,
        name: &str,
        (pid, exit): (u32, Option<u8>),
        (start, end): (MonoTime, MonoTime),
    ) -> anyhow::Result<Trace> {
        let mut notes = Vec::new();
        let mut found = self.read_all(&mut notes)?;
        found.extend(super::python::parts(
            &self.0,
            (pid, exit),
            (start, end),
            &mut notes,
        ));
        // The first gives the trace its process: rank 0, or the one that used its devices most; without
        // devices, the one with the most steps.
        found.sort_by_key(|Part { trace, .. }| {
            let rank = trace.meta.distributed.map_or(u32::MAX, |of| of.rank);
            let weight = (operations(trace), steps(trace));
            (rank, Reverse(weight))
        });
        let used_devices = found.iter().any(|part| operations(&part.trace) > 0);
        // The library in the job says why it saw none; what the sidecar says is not of devices.
        let mut of_job = found.iter().filter(|part| !is_of_kernel(&part.trace));
        let explained = of_job.any(|part| !part.trace.meta.notes.is_empty());
        if !used_devices && !explained {
            notes.push(
                    "The job used no CUDA device, the CUDA driver is not installed, or no window was open: no device operations were recorded."
                    .to_owned(),
            );
        }
        let mut joined = match found.len() {
            0 => empty(pid, start),
            _ => merge_job(found)?,
        };
        joined.meta.name = name.to_owned();
        joined.meta.recorder = format!("gpustall run {}", env!("CARGO_PKG_VERSION"));
        joined.meta.state = State::Finished;
        joined.meta.exit_code = exit;
        joined.meta.notes.extend(notes);
        Ok(joined)
    }

    fn read_all(&self, notes: &mut Vec<String>) -> anyhow::Result<Vec<Part>> {
        let entries =
            fs::read_dir(&self.0).with_context(|| format!("cannot read {}", self.0.display()))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut found = Vec::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with(".json.partial") && name != SIDECAR {
                continue;
            }
            // Killed when it had written the one and not yet removed the other.
            if path == gpustall_trace::partial_path(&self.sidecar()) && self.sidecar().exists() {
                continue;
            }
            let label = path.display().to_string();
            match read(&path) {
                Ok(outcome) => {
                    notes.extend(outcome.warnings.iter().map(|w| format!("In {name}, {w}.")));
                    let trace = outcome.trace;
                    found.push(Part { label, trace });
                }
                Err(error) => notes.push(format!("A part could not be read: {error}.")),
            }
        }
        Ok(found)
    }
}

fn empty(pid: u32, start: MonoTime) -> Trace {
    let length = MonotonicClock::read()
        .as_nanos()
        .saturating_sub(start.as_nanos());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_nanos() as u64);
    Trace {
        meta: Meta {
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            start_mono: start,
            start_unix_ns: now.saturating_sub(length),
            end: TraceTime::from_nanos(length),
            pid: Pid(pid),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            ..Meta::default()
        },
        ..Trace::default()
    }
}
