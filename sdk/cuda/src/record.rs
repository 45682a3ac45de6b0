//! One activity record of CUPTI, read.
#![allow(
    unsafe_code,
    reason = "reads records at the places that CUPTI hands out"
)]

use crate::layout;
use std::ffi::{CStr, c_void};

/// From when to when, nanoseconds of `CLOCK_MONOTONIC`; both 0 if the device did not say.
pub(crate) type Span = (u64, u64);

/// Where an operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
}

/// What CUPTI recorded. Names of kernels are as the compiler mangled them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Record<'a> {
    Kernel {
        place: Place,
        span: Span,
        correlation: u32,
        name: &'a [u8],
        graph_node: u64,
    },
    Copy {
        place: Place,
        span: Span,
        correlation: u32,
        /// `CUpti_ActivityMemcpyKind`.
        kind: u8,
        /// `CUpti_ActivityMemoryKind` of source and target.
        memory: (u8, u8),
        bytes: u64,
    },
    Set {
        place: Place,
        span: Span,
        correlation: u32,
        /// `CUpti_ActivityMemoryKind`.
        memory: u16,
        bytes: u64,
    },
    Wait {
        /// `CUpti_ActivitySynchronizationType`.
        what: u32,
        span: Span,
        correlation: u32,
        context: u32,
        stream: u32,
        event: u32,
    },
    Event {
        correlation: u32,
        context: u32,
        stream: u32,
        event: u32,
    },
    Overhead {
        what: u32,
        span: Span,
    },
    Context {
        context: u32,
        device: u32,
    },
    /// A kind that is not read, or one that a newer CUPTI added.
    Other,
}

/// Reads the record at `at`.
///
/// # Safety
///
/// `at` must be a record that `cuptiActivityGetNextRecord` gave, in a buffer that lives for `'a`.
pub(crate) unsafe fn read<'a>(at: *const c_void) -> Record<'a> {
    // SAFETY: every record begins with its kind; records of a kind are at least as long as the
    // struct of that kind, and aligned to 8 bytes.
    unsafe {
        match *at.cast::<u32>() {
            layout::KERNEL => {
                let record = &*at.cast::<layout::Kernel>();
                Record::Kernel {
                    place: Place {
                        device: record.device,
                        context: record.context,
                        stream: record.stream,
                    },
                    span: (record.start, record.end),
                    correlation: record.correlation,
                    name: match record.name.is_null() {
                        true => b"",
                        // The names of kernels live as long as the process.
                        false => CStr::from_ptr(record.name).to_bytes(),
                    },
                    graph_node: record.graph_node,
                }
            }
            layout::MEMCPY => {
                let record = &*at.cast::<layout::Memcpy>();
                Record::Copy {
                    place: Place {
                        device: record.device,
                        context: record.context,
                        stream: record.stream,
                    },
                    span: (record.start, record.end),
                    correlation: record.correlation,
                    kind: record.copy_kind,
                    memory: (record.source, record.target),
                    bytes: record.bytes,
                }
            }
            layout::PEER_COPY => {
                let record = &*at.cast::<layout::PeerCopy>();
                Record::Copy {
                    place: Place {
                        device: record.device,
                        context: record.context,
                        stream: record.stream,
                    },
                    span: (record.start, record.end),
                    correlation: record.correlation,
                    kind: record.copy_kind,
                    memory: (record.source, record.target),
                    bytes: record.bytes,
                }
            }
            layout::MEMSET => {
                let record = &*at.cast::<layout::Memset>();
                Record::Set {
                    place: Place {
                        device: record.device,
                        context: record.context,
                        stream: record.stream,
                    },
                    span: (record.start, record.end),
                    correlation: record.correlation,
                    memory: record.memory,
                    bytes: record.bytes,
                }
            }
            layout::SYNCHRONIZATION => {
                let record = &*at.cast::<layout::Synchronization>();
                Record::Wait {
                    what: record.what,
                    span: (record.start, record.end),
                    correlation: record.correlation,
                    context: record.context,
                    stream: record.stream,
                    event: record.event,
                }
            }
            layout::CUDA_EVENT => {
                let record = &*at.cast::<layout::CudaEvent>();
                Record::Event {
                    correlation: record.correlation,
                    context: record.context,
                    stream: record.stream,
                    event: record.event,
                }
            }
            layout::OVERHEAD => {
                let record = &*at.cast::<layout::Overhead>();
                Record::Overhead {
                    what: record.what,
                    span: (record.start, record.end),
                }
            }
            layout::CONTEXT => {
                let record = &*at.cast::<layout::Context>();
                Record::Context {
                    context: record.context,
                    device: record.device,
                }
            }
            _ => Record::Other,
        }
    }
}
