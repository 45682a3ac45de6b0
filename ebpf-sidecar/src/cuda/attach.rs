//! Puts the two programs at the functions of a library.

use super::library::Exports;
use super::table::FUNCTIONS;
use aya::Ebpf;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use aya::programs::{ProgramError, UProbe};
use std::path::Path;

/// The programs, in the order of attaching: a return that is seen without its beginning is left out,
/// a beginning without its return would stay open.
const PROGRAMS: [&str; 2] = ["cuda_return", "cuda_enter"];

/// Loads the programs.
///
/// # Errors
/// One sentence, when the kernel refuses them.
pub(crate) fn load(programs: &mut Ebpf) -> Result<(), String> {
    for name in PROGRAMS {
        let loaded = program(programs, name)?.load();
        loaded.map_err(|error| refused(name, &error))?;
    }
    Ok(())
}

/// Attaches the loaded programs to every function that the library exports, for all processes.
///
/// # Errors
/// One sentence, when the kernel refuses a probe. Those before it stay.
pub(crate) fn attach(programs: &mut Ebpf, path: &Path, exports: &Exports) -> Result<(), String> {
    for name in PROGRAMS {
        let program = program(programs, name)?;
        for &(number, offset) in &exports.found {
            let function = &FUNCTIONS[usize::from(number)];
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(offset),
                cookie: Some(function.cookie(number).0),
            };
            let attached = program.attach(point, path, UProbeScope::AllProcesses);
            attached.map_err(|error| {
                format!("{} of {}: {}", function.name, path.display(), chain(&error))
            })?;
        }
    }
    Ok(())
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut UProbe, String> {
    let program = programs.program_mut(name);
    let program = program.ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|error| refused(name, &error))
}

fn refused(name: &str, error: &ProgramError) -> String {
    format!(
        "the kernel refused the eBPF program {name}: {}",
        chain(error)
    )
}

fn chain(error: &ProgramError) -> String {
    crate::error::chain(error)
}
