//! Why nothing can be recorded: one variant a requirement, each saying what mends it.

use crate::btf::BtfError;
use std::io;

/// Why the probes could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The process may not load eBPF programs.
    #[error(
        "no permission to load eBPF programs: {missing} missing. Run it as root: {command}; \
         or give it the capabilities once: sudo setcap cap_bpf,cap_perfmon,cap_syslog+ep {program}"
    )]
    Privilege {
        /// Names of the missing capabilities.
        missing: String,
        /// The command that was given, with sudo.
        command: String,
        /// Path of the program.
        program: String,
    },
    /// The kernel does not show its types.
    #[error(
        "cannot read /sys/kernel/btf/vmlinux: {0}. The kernel must be built with \
         CONFIG_DEBUG_INFO_BTF=y, as the kernels of all large distributions are"
    )]
    Btf(#[source] io::Error),
    /// The kernel's types could not be read.
    #[error("the kernel's types in /sys/kernel/btf/vmlinux: {0}")]
    Types(#[from] BtfError),
    /// A structure of the kernel lacks a member that the probes read.
    #[error("this kernel's {structure} has no member {name}: Linux 5.18 or later is needed")]
    Member {
        /// The structure.
        structure: &'static str,
        /// The member.
        name: &'static str,
    },
    /// The kernel lacks a tracepoint, or it has fewer arguments than the probes read.
    #[error(
        "this kernel's tracepoint {name} {}: use Linux {since} or later",
        found.map_or("is missing".to_owned(), |n| format!("has {n} arguments instead of {wanted}"))
    )]
    Tracepoint {
        /// Its name.
        name: &'static str,
        /// Arguments that the program reads.
        wanted: u32,
        /// Arguments that it has; `None` when it is missing.
        found: Option<u32>,
        /// The first version of Linux that is known to have it so.
        since: &'static str,
    },
    /// The kernel refused the maps or the object could not be read.
    #[error("the kernel refused the probes' maps: {}", chain(&**.0))]
    Object(#[from] Box<aya::EbpfError>),
    /// The kernel refused a program.
    #[error("the kernel refused the eBPF program {name}: {}", chain(&**source))]
    Program {
        /// Its name.
        name: &'static str,
        /// What the kernel said.
        source: Box<aya::programs::ProgramError>,
    },
    /// A map of the probes could not be used.
    #[error("cannot use the probes' map {name}: {why}")]
    Map {
        /// Its name.
        name: &'static str,
        /// What went wrong.
        why: String,
    },
}

/// Why a process could not be tracked.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process has ended, and only its parent has not looked yet.
    #[error("process {0} has ended already (it is a zombie until its parent asks for its status)")]
    Ended(u32),
    /// More threads than the map of threads holds.
    #[error(
        "the map of threads is full at {0} threads: start the recording with room for more (--max-threads)"
    )]
    Full(u32),
    /// The kernel refused to store a thread.
    #[error("cannot track thread {tid}: {why}")]
    Refused {
        /// The thread.
        tid: u32,
        /// What the kernel said.
        why: String,
    },
}

/// An error with its causes: the kernel's own answer is the last of them.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes.map(|e| e.to_string().trim().to_owned()).collect();
    texts.dedup();
    texts.join(": ")
}
