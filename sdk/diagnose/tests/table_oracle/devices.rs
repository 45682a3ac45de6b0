//! The table of devices: which row matches in a unit of time. Of its rows those that ask the
//! scheduler, staging and waits for the device are not drawn, and no stretch is long enough for
//! row 17.

use super::device::{Call, Job, Kind, Op, UNIT};
use super::{Charges, holds};

impl Job {
    /// What is charged to every cause.
    pub fn charges(&self) -> Charges {
        let mut charges = Charges::new();
        for device in 0..self.devices {
            if !self.ops.iter().any(|op| op.device == device) {
                continue;
            }
            for t in self.steps[0].0..self.end {
                let cause = self.cause(device, t);
                *charges.entry(cause.to_string()).or_default() += UNIT;
            }
        }
        charges
    }

    fn cause(&self, device: u64, t: u64) -> &'static str {
        let of: Vec<&Op> = self.ops.iter().filter(|op| op.device == device).collect();
        let kernels = || of.iter().filter(|op| op.kind == Kind::Kernel);
        if kernels().any(|op| holds(op.span, t)) {
            return "compute";
        }
        let next = kernels().filter(|op| op.span.0 > t);
        let next = next.min_by_key(|op| op.span.0).copied();
        let runs = |kinds: &[Kind]| {
            of.iter()
                .copied()
                .find(|op| holds(op.span, t) && kinds.contains(&op.kind) && self.needs(next, op))
        };
        if runs(&[Kind::Pageable]).is_some() {
            return "transfer.pageable";
        }
        if runs(&[Kind::Pinned, Kind::Memset]).is_some() {
            return "transfer.bandwidth";
        }
        let submitted = next.map(|op| self.call_of(op).span.1);
        let collectives = || {
            of.iter().copied().filter(|op| {
                op.kind == Kind::Collective
                    && holds(op.span, t)
                    && (self.needs(next, op) || submitted.is_some_and(|at| at <= t))
            })
        };
        if collectives().any(|op| self.late_elsewhere(op, t)) {
            return "comm.straggler";
        }
        if collectives().next().is_some() {
            return "comm.exposed";
        }
        if let Some(kernel) = next.filter(|op| self.call_of(op).span.1 <= t) {
            return match self.told_to_wait(kernel) {
                true => "gpu.dependency",
                false => "gpu.launch-latency",
            };
        }
        self.host_cause(t, next)
    }

    pub fn call_of(&self, op: &Op) -> &Call {
        let mut calls = self.calls.iter();
        calls.find(|call| call.id == op.id).expect("a call")
    }

    /// Whether the next kernel depends on a copy or a collective.
    fn needs(&self, next: Option<&Op>, op: &Op) -> bool {
        let Some(kernel) = next else {
            return true;
        };
        if op.span.1 > kernel.span.0 {
            return false;
        }
        let (from, to) = (self.call_of(op).span, self.call_of(kernel).span);
        let waited = op.kind == Kind::Pageable && op.span.1 <= from.1 && from.1 <= to.0;
        waited
            || op.stream == kernel.stream
            || self.calls.iter().any(|call| {
                call.name == "cudaStreamWaitEvent" && from.0 <= call.span.0 && call.span.0 <= to.0
            })
    }

    /// Whether the same collective has not begun on another device.
    fn late_elsewhere(&self, op: &Op, t: u64) -> bool {
        let of = |device: u64| {
            let mut of: Vec<&Op> = self
                .ops
                .iter()
                .filter(|op| op.kind == Kind::Collective && op.device == device)
                .collect();
            of.sort_by_key(|op| op.span.0);
            of
        };
        let number = of(op.device).iter().position(|o| o.id == op.id);
        let number = number.expect("it is one of them");
        let mut others = (0..self.devices).filter(|&device| device != op.device);
        others.any(|device| of(device).get(number).is_some_and(|other| other.span.0 > t))
    }

    fn told_to_wait(&self, kernel: &Op) -> bool {
        let to = self.call_of(kernel).span.0;
        let before = self.ops.iter().filter(|op| {
            (op.device, op.stream) == (kernel.device, kernel.stream) && self.call_of(op).span.0 < to
        });
        let from = before.map(|op| self.call_of(op).span.0).max().unwrap_or(0);
        self.calls.iter().any(|call| {
            call.name == "cudaStreamWaitEvent" && from <= call.span.0 && call.span.0 <= to
        })
    }

    fn host_cause(&self, t: u64, next: Option<&Op>) -> &'static str {
        let call = self.calls.iter().find(|call| holds(call.span, t));
        match call.map(|call| call.name) {
            Some("cudaMalloc" | "cudaFree") => return "alloc.device",
            Some("cuModuleLoadData") => return "host.compile",
            _ => {}
        }
        let op = call.and_then(|call| self.ops.iter().find(|op| op.id == call.id));
        if op.is_some_and(|op| op.kind == Kind::Pageable) {
            return "transfer.pageable";
        }
        if let Some(n) = self.waits.iter().position(|&wait| holds(wait, t)) {
            return if n == 0 { "data.startup" } else { "data" };
        }
        let mut phases = self.phases.iter();
        match phases.find(|phase| holds(phase.1, t)).map(|phase| phase.0) {
            Some("metrics") => "host.metrics",
            Some("checkpoint") => "host.checkpoint",
            _ if next.is_none() => "unknown",
            _ => "host.launch-bound",
        }
    }
}
