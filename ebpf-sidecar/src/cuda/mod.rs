//! Calls of the CUDA driver by jobs that do not use the SDK, seen by probes in its library.

mod attach;
mod call;
mod find;
mod library;
mod multi;
mod table;

pub(crate) use attach::CudaPrograms;
pub use call::{CudaCall, CudaClass, CudaFunction};

use crate::probes::Probes;
use find::{FileId, Watch, file_id};
use gpustall_trace::TraceTime;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use table::FUNCTIONS;

/// Attaches probes to every file of the library that is on the loader's path, or that a recorded
/// process has mapped.
#[derive(Debug)]
pub(crate) struct CudaLibraries {
    /// Files that were attached to, or tried.
    seen: HashSet<FileId>,
    watch: Watch,
    /// Whether a file could not be opened: said once.
    unopened: bool,
    notes: Vec<String>,
}

impl CudaLibraries {
    pub(crate) fn new() -> Self {
        Self {
            seen: HashSet::new(),
            watch: Watch::new(),
            unopened: false,
            notes: Vec::new(),
        }
    }

    /// Attaches to those that a program finds that starts now.
    pub(crate) fn attach_known(&mut self, probes: &mut Probes) {
        for path in find::on_loader_path() {
            self.attach(probes, &path, None);
        }
    }

    /// Looks for libraries that these processes have mapped, from time to time.
    pub(crate) fn look(
        &mut self,
        probes: &mut Probes,
        pids: impl IntoIterator<Item = u32>,
        now: TraceTime,
    ) {
        if self.watch.due() {
            for path in self.watch.look(pids) {
                self.attach(probes, &path, Some(now));
            }
        }
    }

    fn attach(&mut self, probes: &mut Probes, path: &Path, at: Option<TraceTime>) {
        let Some(id) = file_id(path) else {
            if !std::mem::replace(&mut self.unopened, true) {
                self.notes.push(format!(
                    "CUDA calls of at least one process are not recorded: {} cannot be opened",
                    path.display()
                ));
            }
            return;
        };
        if !self.seen.insert(id) {
            return;
        }
        if let Err(problem) = self.try_attach(probes, path) {
            self.notes
                .push(format!("CUDA calls are not recorded: {problem}"));
        } else if let Some(at) = at {
            self.notes.push(format!(
                "CUDA calls through {} are recorded from {:.3} s on, when a process was seen to use it",
                path.display(),
                at.as_nanos() as f64 / 1e9
            ));
        }
    }

    fn try_attach(&mut self, probes: &mut Probes, path: &Path) -> Result<(), String> {
        let exports = library::exports(path)?;
        match probes.cuda() {
            Some((programs, loaded)) => programs.attach(loaded, path, &exports),
            None => Ok(()),
        }
    }

    /// What the user should know.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes
    }
}

/// What a file of the library lacks of the functions that are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LibraryReport {
    /// The file.
    pub(crate) path: PathBuf,
    /// How many functions it exports.
    pub(crate) found: usize,
    /// Names of those that it does not, by what they are for.
    pub(crate) missing: BTreeMap<CudaClass, Vec<&'static str>>,
    /// Why the file could not be read, or the probes not be attached.
    pub(crate) problem: Option<String>,
}

/// Tries every library on the loader's path.
pub(crate) fn report(probes: &mut Probes) -> Vec<LibraryReport> {
    let mut libraries = CudaLibraries::new();
    let paths = find::on_loader_path().into_iter();
    paths
        .map(|path| {
            let problem = libraries.try_attach(probes, &path).err();
            let exports = library::exports(&path).unwrap_or_default();
            let mut missing: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for number in exports.missing {
                let function = &FUNCTIONS[usize::from(number)];
                let names = missing.entry(function.class).or_default();
                names.push(function.name);
            }
            LibraryReport {
                path,
                found: exports.found.len(),
                missing,
                problem,
            }
        })
        .collect()
}
