//! Puts the two programs at the functions of a library.

use super::library::Exports;
use super::multi::{MultiPrograms, Place};
use super::table::FUNCTIONS;
use aya::Ebpf;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use aya::programs::{ProgramError, UProbe};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The programs, in the order of attaching: a return that is seen without its beginning is left out,
/// a beginning without its return would stay open.
const PROGRAMS: [&str; 2] = ["cuda_return", "cuda_enter"];

/// The programs, loaded in the way that this kernel knows.
#[derive(Debug)]
pub(crate) enum CudaPrograms {
    /// For links to many functions, and the links made so far.
    Links(MultiLinks),
    /// For one perf event a function.
    PerfEvents,
}

/// Programs for links to many functions, and the links.
#[derive(Debug)]
pub(crate) struct MultiLinks {
    programs: MultiPrograms,
    links: Vec<[OwnedFd; 2]>,
}

impl CudaPrograms {
    /// Loads the programs of `object` to use the maps of `loaded`, which has all of its maps still.
    ///
    /// # Errors
    /// One sentence, when the kernel refuses them.
    pub(crate) fn load(object: &[u8], loaded: &mut Ebpf) -> Result<Self, String> {
        if let Ok(programs) = MultiPrograms::load(object, loaded) {
            let links = Vec::new();
            return Ok(Self::Links(MultiLinks { programs, links }));
        }
        for name in PROGRAMS {
            let loaded = program(loaded, name)?.load();
            loaded.map_err(|error| refused(name, &error))?;
        }
        Ok(Self::PerfEvents)
    }

    /// Attaches them to every function that the library exports, for all processes.
    ///
    /// # Errors
    /// One sentence, when the kernel refuses a probe.
    pub(crate) fn attach(
        &mut self,
        loaded: &mut Ebpf,
        path: &Path,
        exports: &Exports,
    ) -> Result<(), String> {
        let place = |&(number, offset): &(u16, u64)| -> Place {
            (offset, FUNCTIONS[usize::from(number)].cookie(number))
        };
        let places: Vec<Place> = exports.found.iter().map(place).collect();
        if places.is_empty() {
            return Ok(());
        }
        match self {
            Self::Links(MultiLinks { programs, links }) => {
                links.push(programs.attach(path, &places)?);
                Ok(())
            }
            Self::PerfEvents => attach_each(loaded, path, &places),
        }
    }
}

fn attach_each(loaded: &mut Ebpf, path: &Path, places: &[Place]) -> Result<(), String> {
    raise_file_limit();
    for name in PROGRAMS {
        let program = program(loaded, name)?;
        for &(offset, cookie) in places {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(offset),
                cookie: Some(cookie.0),
            };
            let attached = program.attach(point, path, UProbeScope::AllProcesses);
            attached.map_err(|error| {
                let why = crate::error::chain(&error);
                format!("probes in {}: {why}", path.display())
            })?;
        }
    }
    Ok(())
}

/// Each probe is an open file: about two hundred a library.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it fails, attaching says so where the limit is reached.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn program<'a>(loaded: &'a mut Ebpf, name: &str) -> Result<&'a mut UProbe, String> {
    let program = loaded.program_mut(name);
    let program = program.ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|error| refused(name, &error))
}

fn refused(name: &str, error: &ProgramError) -> String {
    let why = crate::error::chain(error);
    format!("the kernel refused the eBPF program {name}: {why}")
}
