//! A call of the CUDA driver, as recordings keep it.

use super::table::FUNCTIONS;
use gpustall_trace::TraceTime;

/// What a function of the CUDA driver is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CudaClass {
    /// Submits kernels, graphs or functions of the host.
    Launch,
    /// Copies memory.
    Copy,
    /// Sets memory.
    Set,
    /// Allocates, maps or pins memory.
    Alloc,
    /// Gives memory back.
    Free,
    /// Waits for the device, or makes a stream wait.
    Sync,
    /// Loads, links or prepares code of the device or a graph.
    Load,
    /// Starts the driver or makes a context.
    Context,
}

impl CudaClass {
    /// What such calls are called, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launches",
            Self::Copy => "copies",
            Self::Set => "memory sets",
            Self::Alloc => "allocations",
            Self::Free => "frees",
            Self::Sync => "synchronisations",
            Self::Load => "loads of code",
            Self::Context => "starts of the driver",
        }
    }
}

/// A function of the CUDA driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaFunction(u16);

impl CudaFunction {
    /// The function that the probes know by this number.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        (usize::from(number) < FUNCTIONS.len()).then_some(Self(number))
    }

    /// Its name, as the driver exports it (`cuMemcpyHtoDAsync_v2`).
    pub fn name(self) -> &'static str {
        FUNCTIONS[usize::from(self.0)].name
    }

    /// What it is for.
    pub fn class(self) -> CudaClass {
        FUNCTIONS[usize::from(self.0)].class
    }
}

/// A call of a function of the CUDA driver by a recorded thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaCall {
    /// Position of the thread in [`Recording::threads`](crate::Recording::threads).
    pub thread: u32,
    /// The function.
    pub function: CudaFunction,
    /// When it was entered.
    pub begin: TraceTime,
    /// When it returned; for an unfinished call, the end of its thread or of the recording.
    pub end: TraceTime,
    /// Bytes copied, set, allocated or freed, where the arguments say it.
    pub bytes: Option<u64>,
    /// Handle of the stream, where an argument names one; 0 is the default stream.
    pub stream: Option<u64>,
    /// What it returned (`CUresult`); 0 is success.
    pub result: u32,
    /// How many recorded calls of the thread were open around it.
    pub depth: u32,
    /// Whether it had not returned.
    pub unfinished: bool,
}
