//! What the probes must know of the running kernel.

use crate::btf::KernelTypes;
use crate::error::SetupError;
use std::path::Path;

/// Where the kernel shows its types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// A tracepoint that a program of the probes is attached to; the program has the same name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracepoint {
    /// Its name.
    pub(crate) name: &'static str,
    /// Arguments that the program reads.
    pub(crate) arguments: u32,
    /// What is missing without it; `None` when nothing can be recorded without it.
    pub(crate) without: Option<&'static str>,
}

const INTERRUPTS: Option<&str> =
    Some("wake-ups by timers and devices are charged to the thread that they interrupted");

/// All tracepoints, in the order of attaching: the ends of interrupts before their beginnings, so
/// that no CPU is left inside an interrupt whose end was missed.
pub(crate) const TRACEPOINTS: [Tracepoint; 12] = [
    tracepoint("irq_handler_exit", 0, INTERRUPTS),
    tracepoint("irq_handler_entry", 0, INTERRUPTS),
    tracepoint("hrtimer_expire_exit", 0, INTERRUPTS),
    tracepoint("hrtimer_expire_entry", 0, INTERRUPTS),
    tracepoint("softirq_exit", 0, INTERRUPTS),
    tracepoint("softirq_entry", 1, INTERRUPTS),
    tracepoint(
        "task_rename",
        2,
        Some("threads keep the name that they had first"),
    ),
    tracepoint("sched_process_exec", 2, None),
    tracepoint("sched_waking", 1, None),
    tracepoint("sched_switch", 4, None),
    tracepoint("sched_wakeup_new", 1, None),
    tracepoint("sched_process_fork", 2, None),
];

const fn tracepoint(
    name: &'static str,
    arguments: u32,
    without: Option<&'static str>,
) -> Tracepoint {
    Tracepoint {
        name,
        arguments,
        without,
    }
}

/// Offsets of the running kernel, as the probes' globals take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// `task_struct.pid`, bytes.
    pub(crate) pid: u32,
    /// `task_struct.tgid`, bytes.
    pub(crate) tgid: u32,
    /// `task_struct.comm`, bytes.
    pub(crate) comm: u32,
    /// `task_struct.__state`, bytes.
    pub(crate) state: u32,
    /// `task_struct.se.sum_exec_runtime`, bytes.
    pub(crate) exec: u32,
    /// The byte of `task_struct.in_iowait`.
    pub(crate) iowait: u32,
    /// The bit in that byte.
    pub(crate) iowait_mask: u32,
}

impl Offsets {
    /// Looks them up in the kernel's types.
    ///
    /// # Errors
    /// [`SetupError::Member`] names the first member that this kernel does not have.
    pub(crate) fn of(types: &KernelTypes) -> Result<Self, SetupError> {
        let member = |structure, name| {
            let found = types.member(structure, name);
            found.ok_or(SetupError::Member { structure, name })
        };
        let bytes = |name| member("task_struct", name).map(|m| m.bit_offset / 8);
        let iowait = member("task_struct", "in_iowait")?.bit_offset;
        let exec = member("sched_entity", "sum_exec_runtime")?.bit_offset / 8;
        Ok(Self {
            pid: bytes("pid")?,
            tgid: bytes("tgid")?,
            comm: bytes("comm")?,
            state: bytes("__state")?,
            exec: bytes("se")? + exec,
            iowait: iowait / 8,
            iowait_mask: 1 << (iowait % 8),
        })
    }

    /// The names of the probes' globals, with their values.
    pub(crate) fn globals(&self) -> [(&'static str, &u32); 7] {
        [
            ("TASK_PID", &self.pid),
            ("TASK_TGID", &self.tgid),
            ("TASK_COMM", &self.comm),
            ("TASK_STATE", &self.state),
            ("TASK_EXEC", &self.exec),
            ("TASK_IOWAIT", &self.iowait),
            ("TASK_IOWAIT_MASK", &self.iowait_mask),
        ]
    }
}

/// Reads the types of the running kernel.
///
/// # Errors
/// [`SetupError::Btf`] when the kernel shows none.
pub(crate) fn types() -> Result<KernelTypes, SetupError> {
    let bytes = std::fs::read(Path::new(KERNEL_BTF)).map_err(SetupError::Btf)?;
    Ok(KernelTypes::parse(bytes)?)
}

/// Whether the kernel has the tracepoint with all arguments that the program reads.
///
/// # Errors
/// [`SetupError::Tracepoint`] when it does not.
pub(crate) fn has(types: &KernelTypes, tracepoint: &Tracepoint) -> Result<(), SetupError> {
    match types.tracepoint_arguments(tracepoint.name) {
        Some(count) if count >= tracepoint.arguments => Ok(()),
        found => Err(SetupError::Tracepoint {
            name: tracepoint.name,
            wanted: tracepoint.arguments,
            found,
        }),
    }
}
