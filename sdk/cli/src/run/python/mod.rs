//! The hook for unchanged Python programs: put before them, and what it left read.
//!
//! Python imports `sitecustomize` from the first folder of its path as it starts. A folder of ours
//! there has PyTorch's DataLoader and optimizers marked, once the program imports them. Each process
//! leaves its marks in the folder of the job's parts; those of a process with loops over loaders and
//! of its workers become one part of the trace, in the words of the SDK.

mod ahead;
mod batches;
mod calls;
mod drawing;
mod failures;
mod handed;
mod is_python;
mod kinds;
mod latest;
mod loaders;
mod loops;
mod making;
mod mark;
mod record;
#[cfg(test)]
mod recorded_tests;
mod stages;
mod story;

use crate::args::RunArgs;
use gpustall_inject::{PYTHON_HOOK, PYTHON_HOOK_LOADED};
use gpustall_trace::{MonoTime, Part};
pub(super) use latest::latest;
use loaders::{Identities, identities, names};
use record::Recording;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Python looks for modules first.
const PATH_VARIABLE: &str = "PYTHONPATH";

/// The hook's folder, if it could be made.
pub(super) struct Hook {
    folder: Option<PathBuf>,
}

impl Hook {
    /// Unpacks the hook into the folder of the job's parts, unless the user does not want it.
    pub(super) fn install(args: &RunArgs, parts: &Path) -> Self {
        let folder = parts.join("python");
        let unpack = || -> std::io::Result<()> {
            for (name, text) in PYTHON_HOOK {
                let path = folder.join(name);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(path, text)?;
            }
            Ok(())
        };
        let made = !args.no_python && unpack().is_ok();
        let folder = made.then_some(folder);
        Self { folder }
    }

    /// The variable that has Python find the hook first, and then what it would have found anyway.
    pub(super) fn path(&self) -> Option<(&'static str, OsString)> {
        let mut path = self.folder.clone()?.into_os_string();
        if let Some(before) = std::env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty()) {
            path.push(":");
            path.push(before);
        }
        Some((PATH_VARIABLE, path))
    }

    /// If the job is a Python program that did not load the hook: what to tell the user.
    pub(super) fn absent(&self, args: &RunArgs) -> Option<String> {
        if !is_python::runs_python(&args.command) {
            return None;
        }
        let why = match &self.folder {
            None if args.no_python => "--no-python was given",
            None => "the hook could not be written to the folder of the trace",
            Some(folder) if folder.join(PYTHON_HOOK_LOADED).exists() => return None,
            Some(_) => {
                "Python was told not to load it (-I, -E or -S), another PYTHONPATH was set, or it ran as \
                 another user"
            }
        };
        Some(format!(
            "Steps and data waits of PyTorch loaders were not recorded: {why}."
        ))
    }
}

/// What the hook saw of each process with loops over loaders, or that an exception ended, and of its workers. `job` is
/// the process of the job, and its exit code where it is known.
pub(super) fn parts(
    folder: &Path,
    job: (u32, Option<u8>),
    (start, now): (MonoTime, MonoTime),
    notes: &mut Vec<String>,
) -> Vec<Part> {
    let (mut recordings, unread) = match record::read(folder) {
        Ok(found) => found,
        Err(error) => {
            notes.push(format!(
                "The marks of Python programs could not be read: {error}."
            ));
            return Vec::new();
        }
    };
    // When the last process began to train.
    let began = recordings
        .iter()
        .filter(|of| of.worker.is_none() && !of.marks.is_empty());
    let began = began.map(|of| of.process.mono_ns).max().unwrap_or(0);
    for recording in &mut recordings {
        recording.forget_exit(job.0, job.1);
        if let Some(uncaught) = &mut recording.uncaught {
            uncaught.outlived = uncaught.at < began;
        }
    }
    let empty = record::empty(folder);
    if empty > 0 {
        notes.push(format!(
            "{empty} Python processes could not store their marks in {}: is the disk full?",
            folder.display()
        ));
    }
    if unread > 0 {
        let whose = match unread {
            1 => "one Python process".to_owned(),
            unread => format!("{unread} Python processes"),
        };
        notes.push(format!(
            "Not all that {whose} marked could be read: steps and data waits may be missing."
        ));
    }
    let told: BTreeSet<&String> = recordings.iter().flat_map(|of| &of.notes).collect();
    notes.extend(told.into_iter().cloned());
    let optimizes = |of: &Recording| of.marks.iter().any(|m| m.kind == mark::Kind::Optimized);
    let trains =
        |of: &Recording| of.worker.is_none() && (!of.iterations.is_empty() || optimizes(of));
    let training = recordings.iter().filter(|of| trains(of));
    let training: BTreeSet<u32> = training.map(|of| of.process.pid).collect();
    // An exception before the first batch ends a run too; what goes wrong in a helper of a process that trains
    // does not.
    let fails = |of: &Recording| {
        let helps = of.worker.is_some() || training.contains(&of.process.ppid);
        of.uncaught.is_some() && !helps
    };
    let trainers = recordings.iter().filter(|of| trains(of) || fails(of));
    let trainers: Vec<&Recording> = trainers.collect();
    let loaders: Vec<Identities> = trainers.iter().map(|of| identities(of)).collect();
    let names = names(loaders.iter().flat_map(Identities::values));
    let mut told = BTreeSet::new();
    let mut parts = Vec::new();
    for (trainer, loaders) in trainers.into_iter().zip(&loaders) {
        let pids = trainer.iterations.iter().flat_map(|of| &of.workers);
        let pids: BTreeSet<&u32> = pids.collect();
        let workers: Vec<&Recording> = recordings
            .iter()
            .filter(|of| of.worker.is_some() && pids.contains(&of.process.pid))
            .collect();
        let named = (loaders.iter()).filter_map(|(&n, of)| Some((n, names.get(of)?.clone())));
        let loaders = (loaders, named.collect());
        parts.push(Part {
            label: format!("python.{}", trainer.process.pid),
            trace: story::trace(trainer, &workers, loaders, (start, now), &mut told),
        });
    }
    notes.extend(told);
    parts
}
