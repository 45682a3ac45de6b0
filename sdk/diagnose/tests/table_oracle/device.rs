//! The model of a run with devices, and the trace of it.

use super::Span;
use crate::common::{Builder, PID, device};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, TrackKind};

/// Nanoseconds of a unit.
pub const UNIT: u64 = 1_000;
/// The thread that runs the steps and launches.
pub const MAIN: u32 = 100;

#[derive(Debug, Default)]
pub struct Job {
    pub end: u64,
    pub devices: u64,
    pub steps: Vec<Span>,
    /// The loader's calls, the first of the epoch first.
    pub waits: Vec<Span>,
    pub phases: Vec<(&'static str, Span)>,
    pub calls: Vec<Call>,
    pub ops: Vec<Op>,
}

/// A call of the runtime.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub name: &'static str,
    /// That of the operation; a number of its own for others.
    pub id: u64,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Kernel,
    Collective,
    Pageable,
    Pinned,
    Memset,
}

/// An operation of a device.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub kind: Kind,
    pub device: u64,
    pub stream: u64,
    pub id: u64,
    pub span: Span,
}

impl Job {
    pub fn trace(&self) -> Trace {
        let mut b = Builder::new();
        b.unit = UNIT;
        let main = b.track(PID, MAIN, "main", TrackKind::Thread);
        for (n, &step) in self.steps.iter().enumerate() {
            b.step("train", 0, n as u64, MAIN, step);
        }
        for (n, &wait) in self.waits.iter().enumerate() {
            b.wait(main, "train", (0, n as u64), None, wait);
        }
        for &(name, span) in &self.phases {
            b.phase(main, name, span);
        }
        for call in &self.calls {
            b.call(main, call.name, call.id, call.span);
        }
        let mut streams = Vec::new();
        for device in 0..self.devices {
            for stream in [7, 8] {
                streams.push(b.stream(device, 10 * device + stream));
            }
        }
        for op in &self.ops {
            let mut on = streams.iter();
            let on = on.find(|on| (on.device, on.stream) == (op.device, op.stream));
            let on = *on.expect("a stream");
            match op.kind {
                Kind::Kernel => b.kernel(on, op.id, op.span),
                Kind::Collective => b.nccl(on, op.id, op.span),
                Kind::Pageable => b.copy(on, device::PAGEABLE, op.id, 4096, op.span),
                Kind::Pinned => b.copy(on, device::PINNED, op.id, 4096, op.span),
                Kind::Memset => b.op(on, cat::GPU_MEMSET, "Memset (Device)", op.id, 4096, op.span),
            }
        }
        b.build(self.end)
    }
}
