//! The table of precedence, asked moment by moment.
//!
//! Written from the definitions in `docs/causes.md`; it shares no code with the engine and knows
//! no intervals beyond those of the events.

#![allow(missing_docs, unreachable_pub, reason = "it is part of one test")]

mod host;

use crate::state_oracle::Kernel;
use host::Host;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    Kernel,
    Nccl,
    Pageable,
    Pinned,
    ToHost,
    Memset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Submit(OpKind),
    Sync,
    Alloc,
    Compile,
    StreamWait,
    Query,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Data,
    Metrics,
    Checkpoint,
    Forward,
    Operator,
}

#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub device: u64,
    pub stream: u64,
    pub kind: OpKind,
    pub start: u64,
    pub end: u64,
    pub id: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub thread: usize,
    pub kind: CallKind,
    pub start: u64,
    pub end: u64,
    pub id: u64,
}

/// A random run; thread 0 runs the steps.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub ops: Vec<Op>,
    pub calls: Vec<Call>,
    pub marks: Vec<(usize, Mark, u64, u64)>,
    /// Start of the one step, if there is one.
    pub steps: Option<u64>,
    /// What the scheduler says of the threads.
    pub kernel: Kernel,
}

impl Run {
    pub fn op(
        &mut self,
        device: u64,
        stream: u64,
        kind: OpKind,
        (start, end): (u64, u64),
        call: Option<(usize, u64, u64)>,
    ) {
        let id = self.ops.len() as u64 + 1;
        self.ops.push(Op {
            device,
            stream,
            kind,
            start,
            end,
            id,
        });
        if let Some((thread, before, length)) = call {
            let at = start.saturating_sub(before);
            self.calls.push(Call {
                thread,
                kind: CallKind::Submit(kind),
                start: at,
                end: at + length,
                id,
            });
        }
    }

    pub fn call(&mut self, thread: usize, kind: CallKind, (start, end): (u64, u64)) {
        self.calls.push(Call {
            thread,
            kind,
            start,
            end,
            id: 0,
        });
    }

    /// Puts everything in order, and keeps the calls of one thread from overlapping.
    pub fn finish(&mut self) {
        self.calls
            .sort_by_key(|call| (call.start, Reverse(call.end)));
        let mut free = [0, 0];
        self.calls.retain_mut(|call| {
            let fits = call.start >= free[call.thread] && call.start < call.end;
            if fits {
                free[call.thread] = call.end;
            }
            fits
        });
        self.ops.sort_by_key(|op| (op.start, Reverse(op.end)));
        // Of marks with the same times one is enough.
        self.marks
            .sort_by_key(|&(thread, _, start, end)| (thread, start, Reverse(end)));
        self.marks
            .dedup_by_key(|&mut (thread, _, start, end)| (thread, start, end));
    }

    fn call_of(&self, op: &Op) -> Option<(usize, &Call)> {
        let calls = self.calls.iter().enumerate();
        calls.into_iter().find(|(_, call)| call.id == op.id)
    }
}

/// Moments by cause, and by device compute, communication, copies and idle.
pub struct Expected {
    pub charges: BTreeMap<String, u64>,
    pub devices: Vec<[u64; 4]>,
}

pub fn charges(run: &Run, end: u64, unit: u64) -> Expected {
    let mut expected = Expected {
        charges: BTreeMap::new(),
        devices: Vec::new(),
    };
    let last = run.ops.iter().map(|op| op.end).max().unwrap_or(0);
    let first = run.ops.iter().map(|op| op.start).min().unwrap_or(0);
    let window = match run.steps {
        Some(step) if last > step => (step, last),
        Some(step) => (step, end),
        None => (first, last),
    };
    for device in 0..2 {
        let own: Vec<&Op> = run.ops.iter().filter(|op| op.device == device).collect();
        if own.is_empty() {
            continue;
        }
        let host = Host::new(run, &own, window, unit);
        let mut shares = [0; 4];
        let mut state = State::default();
        for t in window.0..window.1 {
            let runs = |kinds: &[OpKind]| {
                own.iter()
                    .any(|op| op.start <= t && t < op.end && kinds.contains(&op.kind))
            };
            let copies = [
                OpKind::Pageable,
                OpKind::Pinned,
                OpKind::ToHost,
                OpKind::Memset,
            ];
            let share = if runs(&[OpKind::Kernel]) {
                0
            } else if runs(&[OpKind::Nccl]) {
                1
            } else if runs(&copies) {
                2
            } else {
                3
            };
            shares[share] += 1;
            let cause = match share {
                0 => "compute",
                _ => cause(run, &own, &host, window, t, &mut state),
            };
            *expected.charges.entry(cause.to_owned()).or_insert(0) += 1;
        }
        expected.devices.push(shares);
    }
    expected
}

/// What is remembered from one moment to the next.
#[derive(Default)]
struct State {
    /// Start of the stall that was looked at.
    stall: Option<u64>,
    /// Who launched last, or is taken to have.
    launcher: Option<usize>,
    /// Moments that the host had been ahead, less those charged to that.
    lead: u64,
    /// End of the wait in which the device ran out of work in this stall.
    drained: Option<u64>,
}

fn cause(
    run: &Run,
    own: &[&Op],
    host: &Host<'_>,
    window: (u64, u64),
    t: u64,
    state: &mut State,
) -> &'static str {
    let computes = |t: u64| {
        let mut kernels = own.iter().filter(|op| op.kind == OpKind::Kernel);
        kernels.any(|op| op.start <= t && t < op.end)
    };
    let a = (window.0..=t)
        .rev()
        .take_while(|&t| !computes(t))
        .last()
        .unwrap_or(t);
    let b = (t..window.1).find(|&t| computes(t)).unwrap_or(window.1);
    let next = own
        .iter()
        .find(|op| op.kind == OpKind::Kernel && op.start >= b);
    let launch = next.and_then(|op| run.call_of(op));
    let inside = |op: &&&Op| op.kind != OpKind::Kernel && op.start < b && op.end > a;
    if state.stall != Some(a) {
        state.stall = Some(a);
        let mut submitters = own
            .iter()
            .filter(inside)
            .rev()
            .filter_map(|op| run.call_of(op));
        let launcher = launch
            .or_else(|| submitters.next())
            .map(|(_, call)| call.thread)
            .or(state.launcher)
            .or(run.steps.map(|_| 0));
        state.launcher = launcher;
        // The operation that ended where the stall began; of several, the engine's: the one that
        // would be charged last.
        let before = own
            .iter()
            .filter(|op| op.kind == OpKind::Kernel && op.start < a && op.end == a && a > window.0)
            .max_by_key(|op| op.start);
        state.drained = None;
        if let (Some(before), Some(launcher)) = (before, launcher) {
            let submit = run.call_of(before).map_or(0, |(_, call)| call.start);
            for thread in host.threads(launcher) {
                let wait = host.wait_at(thread, a).filter(|wait| submit <= wait.start);
                if let Some(wait) = wait {
                    state.drained = Some(wait.end);
                    state.lead = a - wait.start;
                    break;
                }
            }
        }
    }
    let l = launch.map_or(b, |(_, call)| call.end);
    // 1: what the next kernel depends on.
    let running = || own.iter().filter(|op| op.start <= t && t < op.end);
    let depends = |op: &Op| match next {
        None => true,
        Some(kernel) => host.depends(op, kernel, launch, (a, b)),
    };
    if running()
        .filter(|op| depends(op))
        .any(|op| op.kind == OpKind::Pageable || op.kind == OpKind::ToHost)
    {
        return "transfer.pageable";
    }
    if running()
        .filter(|op| depends(op))
        .any(|op| op.kind == OpKind::Pinned || op.kind == OpKind::Memset)
    {
        return "transfer.bandwidth";
    }
    let late = |op: &Op| op.kind == OpKind::Nccl && (depends(op) || t >= l);
    if running()
        .filter(|op| late(op))
        .any(|op| host.straggles(op, t))
    {
        return "comm.straggler";
    }
    if running().any(|op| late(op)) {
        return "comm.exposed";
    }
    // 2: submitted and not running.
    if t >= l {
        let waits = launch.is_some_and(|(at, call)| {
            host.event_wait(at, call.thread, next.map_or(0, |op| op.stream))
        });
        return if waits {
            "gpu.dependency"
        } else {
            "gpu.launch-latency"
        };
    }
    // 3: not submitted.
    let staging = state.launcher.is_some_and(|launcher| {
        launcher == 1
            && run.steps.is_some()
            && host.explains(launcher, t).is_none()
            && host.stages(launcher, (a, b), t, depends)
    });
    if let Some(launcher) = state.launcher
        && let Some(held) = host.held_up(launcher, staging, t)
        && (held == "host.preempted" || (next.is_some() && run.steps.is_some()))
    {
        return held;
    }
    let explained = state
        .launcher
        .and_then(|launcher| host.explains(launcher, t));
    if let Some(cause) = explained {
        if cause == "sync.readback" {
            state.lead = state.lead.saturating_sub(1);
        }
        return cause;
    }
    if staging {
        return "transfer.staging";
    }
    let refills = state.drained.is_some_and(|end| end <= t) || state.lead > 0;
    if next.is_none() {
        return charge_rest(state, "unknown", host.stands_out(t), refills);
    }
    if run.steps.is_none() {
        return charge_rest(state, "host", host.stands_out(t), refills);
    }
    if host.stands_out(t) {
        return "host.compute";
    }
    let cause = if refills {
        "sync.readback"
    } else {
        "host.launch-bound"
    };
    charge_rest(state, cause, false, refills)
}

/// Time that the lead would have covered uses it up, whatever it is called.
fn charge_rest(
    state: &mut State,
    cause: &'static str,
    stands_out: bool,
    refills: bool,
) -> &'static str {
    if refills && !stands_out {
        state.lead = state.lead.saturating_sub(1);
    }
    cause
}
