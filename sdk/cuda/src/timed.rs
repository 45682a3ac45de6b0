//! Operations that were timed without CUPTI, by CUDA's own events.

use crate::calls::Calls;
use crate::emit::{Emitter, EventSink};
use crate::record::Place;
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{MonoTime, Pid, Tid, ValueRef};

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// A kernel.
    Kernel,
    /// A copy of so many bytes; its name says from where to where, as in CUPTI's words
    /// (`Memcpy HtoD (Pinned -> Device)`).
    Copy(u64),
    /// A memset of so many bytes.
    Set(u64),
}

/// An operation, and the call that submitted it.
#[derive(Debug, Clone, Copy)]
pub struct TimedOperation<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it did.
    pub kind: OperationKind,
    /// Number of the device.
    pub device: u32,
    /// Number of the stream; made up, but the same for all its operations.
    pub stream: u32,
    /// From when to when.
    pub span: (MonoTime, MonoTime),
    /// What joins it to the call; unique in the process.
    pub correlation: u32,
    /// The thread that called, and when the call began.
    pub call: (Tid, MonoTime),
}

/// Writes operations that were timed without CUPTI by the same conventions.
#[derive(Debug)]
pub struct TimedOperations(Emitter);

impl TimedOperations {
    /// Of process `pid`, in a trace that starts at `start`.
    pub fn new(pid: Pid, start: MonoTime) -> Self {
        Self(Emitter::new(pid, start, Calls::default()))
    }

    /// Writes one operation.
    pub fn write(&mut self, operation: &TimedOperation<'_>, sink: &mut dyn EventSink) {
        let place = Place {
            device: operation.device,
            context: 0,
            stream: operation.stream,
        };
        let (start, end) = operation.span;
        let span = (start.as_nanos(), end.as_nanos());
        let (cat, bytes) = match operation.kind {
            OperationKind::Kernel => (cat::KERNEL, None),
            OperationKind::Copy(bytes) => (cat::GPU_MEMCPY, Some(bytes)),
            OperationKind::Set(bytes) => (cat::GPU_MEMSET, Some(bytes)),
        };
        let moved = (arg::BYTES, ValueRef::U64(bytes.unwrap_or(0)));
        let more = if bytes.is_some() { &[moved][..] } else { &[] };
        let number = operation.correlation;
        self.0.submitted(number, operation.call);
        self.0
            .operation((cat, operation.name), place, span, number, more, sink);
    }
}
