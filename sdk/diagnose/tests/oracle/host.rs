//! What the host does in one moment.

use super::{Call, CallKind, Mark, Op, OpKind, Run};
use crate::state_oracle::{Kernel, State};
use std::cmp::Reverse;

pub struct Host<'a> {
    run: &'a Run,
    own: Vec<&'a Op>,
    /// Moments that lie in a stretch without a launch that stands out.
    outstanding: Vec<(u64, u64)>,
    unit: u64,
}

impl<'a> Host<'a> {
    pub fn new(run: &'a Run, own: &[&'a Op], window: (u64, u64), unit: u64) -> Self {
        let mut host = Self {
            run,
            own: own.to_vec(),
            outstanding: Vec::new(),
            unit,
        };
        host.outstanding = host.find_outstanding(window, unit);
        host
    }

    /// The launcher and its feeder.
    pub fn threads(&self, launcher: usize) -> Vec<usize> {
        match self.run.steps {
            Some(_) if launcher != 0 => vec![launcher, 0],
            _ => vec![launcher],
        }
    }

    fn find_outstanding(&self, window: (u64, u64), unit: u64) -> Vec<(u64, u64)> {
        let submits = |call: &&Call| {
            matches!(call.kind, CallKind::Submit(_)) && self.own.iter().any(|op| op.id == call.id)
        };
        let mut gaps = Vec::new();
        let mut free = window.0;
        for call in self.run.calls.iter().filter(submits) {
            let gap = (free, call.start.min(window.1));
            if gap.0 < gap.1 {
                let open = |&t: &u64| {
                    self.explains(call.thread, t).is_none()
                        && self.held_up(call.thread, false, t).is_none()
                };
                gaps.push((gap, (gap.0..gap.1).filter(open).count() as u64 * unit));
            }
            free = free.max(call.end);
        }
        let mut lengths: Vec<u64> = gaps.iter().map(|&(_, own)| own).collect();
        let from = |gap: u64| (8 * gap).clamp(1_000_000, 10_000_000);
        let usual = from(percentile(&mut lengths, 50));
        lengths.retain(|&own| own < usual);
        let limit = from(percentile(&mut lengths, 95));
        let outstanding = gaps.iter().filter(|&&(_, own)| own >= limit);
        outstanding.map(|&(gap, _)| gap).collect()
    }

    pub fn stands_out(&self, t: u64) -> bool {
        self.outstanding
            .iter()
            .any(|&(start, end)| start <= t && t < end)
    }

    /// What marks or calls say about the host behind a launcher, if they say anything.
    pub fn explains(&self, launcher: usize, t: u64) -> Option<&'static str> {
        if let Some(cause) = self.marked(launcher, t) {
            return Some(cause);
        }
        let feeder = self.threads(launcher).get(1).copied()?;
        match self.works(launcher, t) {
            true => None,
            false => self.marked(feeder, t),
        }
    }

    /// Whether a thread is in any call or operator.
    fn works(&self, thread: usize, t: u64) -> bool {
        let called = self
            .run
            .calls
            .iter()
            .any(|call| call.thread == thread && call.start <= t && t < call.end);
        called
            || self.run.marks.iter().any(|&(of, mark, start, end)| {
                of == thread && mark == Mark::Operator && start <= t && t < end
            })
    }

    /// What holds up the thread that counts: the launcher while it does anything, else its feeder.
    pub fn held_up(&self, launcher: usize, staging: bool, t: u64) -> Option<&'static str> {
        let threads = self.threads(launcher);
        let feeder = threads.get(1).copied();
        let launches = staging
            || self.marked(launcher, t).is_some()
            // A thread that is its own feeder may be in an operator and still do nothing known.
            || (feeder.is_some() && self.works(launcher, t));
        let thread = match launches {
            true => launcher,
            false => feeder.unwrap_or(launcher),
        };
        let asleep = feeder.is_some_and(|feeder| self.marked(feeder, t).is_none());
        if !launches && asleep && self.only_lacks_a_cpu(launcher, t) {
            return Some("host.preempted");
        }
        let does = launches || feeder.is_some_and(|feeder| self.marked(feeder, t).is_some());
        match self.run.kernel.state(thread, t) {
            State::Waits => Some("host.preempted"),
            state if !does && Kernel::holds_up(state) => Some("host.blocked"),
            _ => None,
        }
    }

    /// Whether a thread waits for a CPU, and its next work begins in that wait or less than 1 ms after
    /// it, before another one.
    fn only_lacks_a_cpu(&self, thread: usize, t: u64) -> bool {
        let waits = |t: u64| self.run.kernel.state(thread, t) == State::Waits;
        let starts = self.run.calls.iter().filter(|call| call.thread == thread);
        let operators = self.run.marks.iter();
        let operators = operators.filter(|of| of.0 == thread && of.1 == Mark::Operator);
        let starts = starts
            .map(|call| call.start)
            .chain(operators.map(|of| of.2));
        // Work that goes on when other work begins is one piece.
        let mut starts = starts.filter(|&at| at > t && !self.works(thread, at - 1));
        let Some(begin) = waits(t).then(|| starts.by_ref().min()).flatten() else {
            return false;
        };
        let back = (t..=begin).find(|&at| !waits(at)).unwrap_or(begin);
        back >= begin || (!(back..begin).any(waits) && (begin - back) * self.unit < 1_000_000)
    }

    fn marked(&self, thread: usize, t: u64) -> Option<&'static str> {
        let in_call = |call: &&Call| call.thread == thread && call.start <= t && t < call.end;
        let call = self
            .run
            .calls
            .iter()
            .filter(in_call)
            .find_map(|call| match call.kind {
                CallKind::Alloc => Some("alloc.device"),
                CallKind::Compile => Some("host.compile"),
                CallKind::Sync | CallKind::Submit(OpKind::ToHost) => Some("sync.readback"),
                CallKind::Submit(OpKind::Pageable) => Some("transfer.pageable"),
                _ => None,
            });
        call.or_else(|| {
            // Waits that lie in each other are one wait.
            let data = |&(of, mark, start, end): &(usize, Mark, u64, u64)| {
                of == thread
                    && mark == Mark::Data
                    && !self.run.marks.iter().any(|&(other, mark, s, e)| {
                        other == of
                            && mark == Mark::Data
                            && (s, e) != (start, end)
                            && s <= start
                            && end <= e
                    })
            };
            let marks = self.run.marks.iter().filter(|&&(of, mark, start, end)| {
                of == thread
                    && start <= t
                    && t < end
                    && match mark {
                        Mark::Data => data(&(of, mark, start, end)),
                        Mark::Metrics | Mark::Checkpoint => true,
                        Mark::Forward | Mark::Operator => false,
                    }
            });
            let inner = marks.max_by_key(|&&(_, _, start, end)| (start, Reverse(end)));
            inner.map(|(_, mark, ..)| match mark {
                Mark::Data => "data",
                Mark::Metrics => "host.metrics",
                _ => "host.checkpoint",
            })
        })
    }

    fn waits(&self, thread: usize) -> impl Iterator<Item = &Call> {
        self.run.calls.iter().filter(move |call| {
            call.thread == thread
                && matches!(call.kind, CallKind::Sync | CallKind::Submit(OpKind::ToHost))
        })
    }

    /// The wait for the device that a thread had entered before `t` and had not left.
    pub fn wait_at(&self, thread: usize, t: u64) -> Option<&Call> {
        self.waits(thread)
            .find(|wait| wait.start < t && t <= wait.end)
    }

    /// Whether a kernel depends on an operation.
    pub fn depends(
        &self,
        op: &Op,
        kernel: &Op,
        launch: Option<(usize, &Call)>,
        (a, _): (u64, u64),
    ) -> bool {
        if op.end > kernel.start {
            return false;
        }
        if op.stream == kernel.stream {
            return true;
        }
        let Some((at, launch)) = launch else {
            return false;
        };
        let submit = self.run.call_of(op).map(|(_, call)| call);
        let since = submit.map_or(a, |call| call.start);
        let event = self.run.calls[..at].iter().any(|call| {
            call.thread == launch.thread && call.kind == CallKind::StreamWait && call.start >= since
        });
        let waited = self.threads(launch.thread).into_iter().any(|thread| {
            let blocking = submit.is_some_and(|call| {
                call.thread == thread
                    && matches!(
                        call.kind,
                        CallKind::Submit(OpKind::ToHost | OpKind::Pageable)
                    )
                    && call.end >= op.end
                    && call.end <= launch.start
            });
            let first = self.waits(thread).find(|wait| wait.end >= op.end);
            blocking || first.is_some_and(|wait| wait.start <= op.end && wait.end <= launch.start)
        });
        event || waited
    }

    /// Whether another device has not yet begun the collective that runs on this one.
    pub fn straggles(&self, op: &Op, t: u64) -> bool {
        let of = |device: u64| {
            let ops = self.run.ops.iter();
            let nccl = ops.filter(move |op| op.device == device && op.kind == OpKind::Nccl);
            nccl.collect::<Vec<&Op>>()
        };
        let (mine, other) = (of(op.device), of(1 - op.device));
        let shared = |a: &Op, b: &Op| a.end.min(b.end).saturating_sub(a.start.max(b.start));
        let partner = if mine.len() == other.len() {
            let n = mine.iter().position(|of| of.id == op.id);
            n.and_then(|n| other.get(n).copied())
        } else {
            // Those that share the most time, the first of several, each the other's best.
            let best = |of: &Op, list: &[&'a Op]| -> Option<&'a Op> {
                let most = list.iter().map(|b| shared(of, b)).max()?;
                list.iter().copied().find(|b| shared(of, b) == most)
            };
            let partner = best(op, &other);
            partner.filter(|partner| best(partner, &mine).is_some_and(|back| back.id == op.id))
        };
        partner.is_some_and(|other| shared(op, other) > 0 && t < other.start)
    }

    /// Whether a stream was told to wait between the work submitted to it before and a call.
    pub fn event_wait(&self, at: usize, thread: usize, stream: u64) -> bool {
        for call in self.run.calls[..at]
            .iter()
            .rev()
            .filter(|call| call.thread == thread)
        {
            match call.kind {
                CallKind::StreamWait => return true,
                CallKind::Submit(_) => {
                    let op = self.own.iter().find(|op| op.id == call.id);
                    if op.is_some_and(|op| op.stream == stream) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Whether a runner that does nothing recorded is between two pinned copies of its own.
    pub fn stages(
        &self,
        launcher: usize,
        (a, b): (u64, u64),
        t: u64,
        depends: impl Fn(&Op) -> bool,
    ) -> bool {
        let idle = |t: u64| {
            let calls = !self
                .run
                .calls
                .iter()
                .any(|call| call.thread == launcher && call.start <= t && t < call.end);
            calls
                && !self.run.marks.iter().any(|&(thread, mark, start, end)| {
                    thread == launcher && mark == Mark::Operator && start <= t && t < end
                })
        };
        let copies = || {
            self.own.iter().filter(|op| {
                op.kind == OpKind::Pinned
                    && op.start < b
                    && op.end > a
                    && depends(op)
                    && self
                        .run
                        .call_of(op)
                        .is_some_and(|(_, call)| call.thread == launcher)
            })
        };
        idle(t) && copies().any(|copy| copy.end <= t) && copies().any(|copy| copy.start > t)
    }
}

fn percentile(lengths: &mut [u64], percent: usize) -> u64 {
    lengths.sort_unstable();
    let rank = (lengths.len() * percent).div_ceil(100).max(1);
    lengths.get(rank - 1).copied().unwrap_or(0)
}
