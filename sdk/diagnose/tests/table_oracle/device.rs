//! The model of a run with devices, and the trace of it.

use super::Span;
use super::host::{Run, Trainer};
use crate::common::{Builder, device};
use gpustall_trace::Trace;
use gpustall_trace::vocab::cat;

/// Nanoseconds of a unit, with devices.
pub const UNIT: u64 = 1_000;
/// The thread that runs the steps.
pub const MAIN: u32 = 100;
/// The thread that launches, where that is another one.
pub const RUNNER: u32 = 150;

#[derive(Debug, Default)]
pub struct Job {
    /// The thread that runs the steps, its loader, and what the scheduler says of all threads.
    pub host: Run,
    /// Whether another thread than the one that runs the steps makes the calls.
    pub runner: bool,
    pub devices: u64,
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
    /// The thread that makes the calls.
    pub fn launcher(&self) -> u32 {
        if self.runner { RUNNER } else { MAIN }
    }

    pub fn trainer(&self) -> &Trainer {
        &self.host.trainers[0]
    }

    pub fn trace(&self) -> Trace {
        let mut b = Builder::new();
        b.unit = UNIT;
        let tracks = self.host.draw(&mut b);
        let launcher = tracks.iter().find(|of| of.0 == self.launcher());
        let launcher = launcher.expect("a track").1;
        for call in &self.calls {
            b.call(launcher, call.name, call.id, call.span);
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
        b.build(self.host.end)
    }
}
