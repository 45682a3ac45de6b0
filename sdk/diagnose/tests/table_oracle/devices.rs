//! The table of devices: which row matches in a unit of time. Waits for the device are not drawn, and
//! no stretch is long enough for row 17.

use super::device::{Call, Job, Kind, MAIN, Op, RUNNER, UNIT};
use super::scheduler::{On, State};
use super::{Charges, Span, holds};

impl Job {
    /// What is charged to every cause.
    pub fn charges(&self) -> Charges {
        let mut charges = Charges::new();
        for device in 0..self.devices {
            if !self.ops.iter().any(|op| op.device == device) {
                continue;
            }
            let operated = self.ops.iter().map(|op| op.span.1).max().unwrap_or(0);
            let until = self.host.until().max(operated).min(self.host.end);
            for t in self.trainer().steps[0].span.0..until {
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
        let submitted = next.and_then(|op| self.call_of(op)).map(|call| call.span.1);
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
        if let Some(kernel) = next.filter(|_| submitted.is_some_and(|at| at <= t)) {
            return match self.told_to_wait(kernel) {
                true => "gpu.dependency",
                false => "gpu.launch-latency",
            };
        }
        self.host_cause((device, t), next)
    }

    /// The call that submitted an operation, if it was recorded.
    pub fn call_of(&self, op: &Op) -> Option<&Call> {
        self.calls.iter().find(|call| call.id == op.id)
    }

    /// Whether the next kernel depends on a copy or a collective.
    fn needs(&self, next: Option<&Op>, op: &Op) -> bool {
        let Some(kernel) = next else {
            return true;
        };
        if op.span.1 > kernel.span.0 {
            return false;
        }
        if op.stream == kernel.stream {
            return true;
        }
        // When a kernel was launched of which the call is missing, nobody knows.
        let (Some(from), Some(to)) = (self.call_of(op), self.call_of(kernel)) else {
            return false;
        };
        let (from, to) = (from.span, to.span);
        let waited = op.kind == Kind::Pageable && op.span.1 <= from.1 && from.1 <= to.0;
        waited
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
        let start = |op: &Op| self.call_of(op).map(|call| call.span.0);
        let Some(to) = start(kernel) else {
            return false;
        };
        let on_stream = |op: &&Op| (op.device, op.stream) == (kernel.device, kernel.stream);
        let before = self.ops.iter().filter(on_stream).filter_map(start);
        let from = before.filter(|&start| start < to).max().unwrap_or(0);
        self.calls.iter().any(|call| {
            call.name == "cudaStreamWaitEvent" && from <= call.span.0 && call.span.0 <= to
        })
    }

    /// Rows 7 to 18.
    fn host_cause(&self, (device, t): (u64, u64), next: Option<&Op>) -> &'static str {
        let call = self.calls.iter().find(|call| holds(call.span, t));
        // While the launcher is in a call, what the feeder does does not count.
        let asked = call.is_some() && self.runner;
        let trainer = self.trainer();
        let mut waits = trainer.waits.iter();
        let wait = waits.find(|wait| !asked && holds(wait.span, t));
        let phases = trainer.phases.iter().filter(|of| !asked && holds(of.1, t));
        let mut marked = phases.filter_map(|of| match of.0 {
            "metrics" => Some("host.metrics"),
            "checkpoint" => Some("host.checkpoint"),
            _ => None,
        });
        let marked = marked.next_back();
        let in_call = call.and_then(|call| self.of_call(call));
        let idle = call.is_none() && wait.is_none() && marked.is_none();
        let stages = self.runner && idle && self.between_copies((device, t), next);
        // Asked, and without a CPU to begin.
        if self.runner && idle && self.only_lacks_a_cpu(t) {
            return "host.preempted";
        }
        let thread = if asked || stages { RUNNER } else { MAIN };
        let state = self.host.state(thread, t);
        if state == State::WaitsForCpu && (wait.is_none() || in_call.is_some()) {
            return "host.preempted";
        }
        if let Some(cause) = in_call {
            return cause;
        }
        if stages {
            return "transfer.staging";
        }
        if let Some(wait) = wait {
            return self.host.wait_cause(trainer, wait, t);
        }
        if let Some(cause) = marked {
            return cause;
        }
        if next.is_none() {
            return "unknown";
        }
        match state {
            State::Blocked(on) if !asked && on != On::OwnThreads && on != On::Driver => {
                "host.blocked"
            }
            _ => "host.launch-bound",
        }
    }

    /// Whether the launcher waits for a CPU, and its next work begins in that wait or less than 1 ms
    /// after it, before another one.
    fn only_lacks_a_cpu(&self, t: u64) -> bool {
        let waits = |t: u64| t < self.host.end && self.host.state(RUNNER, t) == State::WaitsForCpu;
        if !waits(t) {
            return false;
        }
        let begins = |t: u64| {
            let starts = self.calls.iter().any(|call| call.span.0 == t);
            starts
                && !self
                    .calls
                    .iter()
                    .any(|call| call.span.0 < t && t <= call.span.1)
        };
        let mut at = t + 1;
        while waits(at) {
            if begins(at) {
                return true;
            }
            at += 1;
        }
        let end = at;
        while at < self.host.end && (at - end) * super::device::UNIT < 1_000_000 && !waits(at) {
            if begins(at) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The cause of a call that rows 8, 9 and 11 name.
    fn of_call(&self, call: &Call) -> Option<&'static str> {
        match call.name {
            "cudaMalloc" | "cudaFree" => return Some("alloc.device"),
            "cuModuleLoadData" => return Some("host.compile"),
            _ => {}
        }
        let op = self.ops.iter().find(|op| op.id == call.id);
        op.filter(|op| op.kind == Kind::Pageable)
            .map(|_| "transfer.pageable")
    }

    /// Whether a unit lies between two such copies as row 12 says.
    fn between_copies(&self, (device, t): (u64, u64), next: Option<&Op>) -> bool {
        let stall = self.stall(device, t);
        let copies = || {
            self.ops.iter().filter(|op| {
                op.device == device
                    && op.kind == Kind::Pinned
                    && op.span.0 < stall.1
                    && op.span.1 > stall.0
                    && self.needs(next, op)
            })
        };
        copies().any(|op| op.span.1 <= t) && copies().any(|op| op.span.0 > t)
    }

    /// The stretch around a unit in which the device does not compute.
    fn stall(&self, device: u64, t: u64) -> Span {
        let kernels = || {
            let ops = self.ops.iter().filter(|op| op.device == device);
            ops.filter(|op| op.kind == Kind::Kernel)
        };
        let from = kernels().filter(|op| op.span.1 <= t).map(|op| op.span.1);
        let to = kernels().filter(|op| op.span.0 > t).map(|op| op.span.0);
        let end = to.min().unwrap_or(self.host.end);
        (from.max().unwrap_or(0), end)
    }
}
