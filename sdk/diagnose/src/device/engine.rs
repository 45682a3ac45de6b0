//! The sweep over the stalls of one device.

use super::Host;
use super::account::{Gap, account};
use super::depends::{self, Next};
use super::facts::DeviceFacts;
use super::ops::{Device, OpKind};
use super::pieces::{Charged, Scene};
use super::rhythm::Rhythm;
use super::straggler::Late;
use crate::cause::Cause;
use crate::charge::{Account, Source, Stall};
use crate::ranks;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, TraceTime, TrackId};
use std::collections::BTreeMap;

/// Of operations that overlap a stall, no more than this many are looked at, the latest.
const MAX_OVERLAPPING: usize = 64;

/// What charges the window of one device.
pub(crate) struct Engine<'a> {
    timeline: &'a Timeline<'a>,
    host: &'a Host<'a>,
    device: &'a Device,
    late: &'a Late,
    /// From when to when, and that without the pauses.
    window: (Interval, &'a [Interval]),
    /// Position of the device.
    at: usize,
    rhythm: Rhythm,
    /// Positions of the kernels that are not NCCL's, by start.
    kernels: Vec<usize>,
    /// Who launched last.
    launcher: Option<TrackId>,
    /// How far the host had been ahead when it waited for the device, less what is charged to it.
    lead: Nanos,
}

impl<'a> Engine<'a> {
    /// For the device at position `at`.
    pub(crate) fn new(
        timeline: &'a Timeline<'a>,
        host: &'a Host<'a>,
        device: &'a Device,
        late: Option<&'a Late>,
        window: (Interval, &'a [Interval]),
        at: usize,
    ) -> Self {
        static NONE: std::sync::LazyLock<Late> = std::sync::LazyLock::new(Late::new);
        let compute = |&i: &usize| device.ops[i].kind == OpKind::Kernel;
        Self {
            timeline,
            host,
            device,
            late: late.unwrap_or(&NONE),
            window,
            at,
            rhythm: Rhythm::of(host, device, window.0),
            kernels: (0..device.ops.len()).filter(compute).collect(),
            launcher: None,
            lead: Nanos::ZERO,
        }
    }

    /// The device's account.
    pub(crate) fn account(mut self) -> Account {
        let (shares, gaps) = account(self.device, self.window.1);
        let mut stalls = Vec::with_capacity(gaps.len());
        // Operations that may reach into the stall that is looked at.
        let mut active: Vec<usize> = Vec::new();
        let mut next_op = 0;
        for gap in gaps {
            while let Some(op) = self.device.ops.get(next_op) {
                if op.span.start >= gap.span.end {
                    break;
                }
                if op.kind != OpKind::Kernel {
                    active.push(next_op);
                }
                next_op += 1;
            }
            if active.len() > 4 * MAX_OVERLAPPING {
                active.drain(..active.len() - MAX_OVERLAPPING);
            }
            active.retain(|&op| self.device.ops[op].span.end > gap.span.start);
            let from = active.len().saturating_sub(MAX_OVERLAPPING);
            self.stall(gap, &active[from..], &mut stalls);
        }
        stalls.sort_by_key(Stall::start);
        let facts = DeviceFacts::of(self.host, self.device, &self.rhythm, self.window.0);
        Account {
            name: ranks::device_name(self.timeline.trace, self.device.key),
            compute: shares.compute,
            device: Some((shares, facts)),
            stalls,
        }
    }

    fn stall(&mut self, gap: Gap, active: &[usize], stalls: &mut Vec<Stall>) {
        let next = self.next(gap.span.end);
        let call = next.and_then(|next| next.call);
        let launch = call.and_then(|call| self.host.calls.get(call));
        let submitted = launch.map_or(gap.span.end, |launch| launch.span.end);
        let launcher = launch
            .map(|launch| launch.track)
            .or_else(|| self.last_submitter(active))
            .or(self.launcher)
            .or_else(|| self.host.first_trainer());
        self.launcher = launcher;
        let known = (self.host, self.device, self.late);
        let mut dependencies = Vec::new();
        for &op in active {
            depends::add(&mut dependencies, known, op, next, (gap.span, submitted));
        }
        let drained_in = launcher.and_then(|launcher| self.drained(gap, launcher));
        if let Some(wait) = drained_in {
            self.lead = gap.span.start.since(wait.start);
        }
        let mut scene = Scene {
            host: self.host,
            device: self.device,
            rhythm: &self.rhythm,
            stall: gap.span,
            next,
            launcher,
            submitted,
            event_wait: next.is_some_and(|n| depends::event_wait(self.host, self.device, n)),
            steps_known: !self.timeline.steps.is_empty(),
            dependencies,
            drained_in,
            lead: self.lead,
        };
        let pieces = scene.pieces();
        self.lead = scene.lead;
        let kernel = next
            .and_then(|next| self.device.ops.get(next.op))
            .filter(|kernel| kernel.span.start == gap.span.end)
            .map(|kernel| kernel.slice);
        let trainer = self.host.trainer(launcher);
        let launch = launch
            .filter(|_| kernel.is_some())
            .map(|launch| launch.slice);
        let drained = drained_in.is_some();
        group(
            pieces,
            (self.at, trainer, drained),
            (kernel, launch),
            stalls,
        );
    }

    /// The first kernel that begins at `time` or later.
    fn next(&self, time: TraceTime) -> Option<Next> {
        let ops = &self.device.ops;
        let at = self
            .kernels
            .partition_point(|&op| ops[op].span.start < time);
        let &op = self.kernels.get(at)?;
        Some(Next {
            op,
            call: ops[op].call,
        })
    }

    fn last_submitter(&self, active: &[usize]) -> Option<TrackId> {
        let calls = active
            .iter()
            .rev()
            .filter_map(|&op| self.device.ops[op].call);
        calls
            .filter_map(|call| self.host.calls.get(call))
            .map(|call| call.track)
            .next()
    }

    /// The call in which the host waited for the device as this ran out of work, if it was
    /// entered while submitted work had not ended.
    fn drained(&self, gap: Gap, launcher: TrackId) -> Option<Interval> {
        let last = self.device.ops.get(gap.before?)?;
        let submitted = last.call.and_then(|call| self.host.calls.get(call));
        let threads = [Some(launcher), self.host.feeder(launcher)];
        threads
            .into_iter()
            .flatten()
            .filter_map(|thread| self.host.waiting(thread, gap.span.start))
            .find(|wait| submitted.is_none_or(|submit| submit.span.start <= wait.span.start))
            .map(|wait| wait.span)
    }
}

/// Groups the pieces of one stall by cause and source.
fn group(
    pieces: Vec<Charged>,
    (device, trainer, drained): (usize, usize, bool),
    (kernel, launch): (Option<usize>, Option<usize>),
    stalls: &mut Vec<Stall>,
) {
    let first = stalls.len();
    // Most stalls have few groups; the map is for those that have many.
    let mut many: BTreeMap<(Cause, Source), usize> = BTreeMap::new();
    for Charged {
        cause,
        source,
        piece,
    } in pieces
    {
        let known = match stalls.len() - first {
            0..=FEW_GROUPS => stalls[first..]
                .iter()
                .position(|stall| stall.cause == cause && stall.source == source)
                .map(|i| first + i),
            _ => many.get(&(cause, source)).copied(),
        };
        let at = known.unwrap_or(stalls.len());
        if known.is_none() {
            stalls.push(Stall {
                device,
                trainer,
                source,
                cause,
                parts: Vec::new(),
                lost: Nanos::ZERO,
                pieces: Vec::new(),
                kernel,
                launch,
                drained,
            });
            if stalls.len() - first > FEW_GROUPS {
                let groups = stalls[first..].iter().zip(first..);
                match many.is_empty() {
                    true => many = groups.map(|(s, i)| ((s.cause, s.source), i)).collect(),
                    false => _ = many.insert((cause, source), at),
                }
            }
        }
        let stall = &mut stalls[at];
        stall.lost += piece.span.len();
        match stall.parts.last_mut() {
            Some(last) if last.end == piece.span.start => last.end = piece.span.end,
            _ => stall.parts.push(piece.span),
        }
        if source == Source::Device {
            stall.pieces.push(piece);
        }
    }
}

/// A stall with at most this many groups is searched.
const FEW_GROUPS: usize = 8;
