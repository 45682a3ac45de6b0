//! The account of one device: compute, exposed communication, exposed copies, idle.

use super::ops::{Device, Op, OpKind};
use crate::partition::{Claim, Part, partition};
use gpustall_trace::{Interval, Nanos};

/// How a device spent the window. The four add up to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) compute: Nanos,
    pub(crate) comm: Nanos,
    pub(crate) copy: Nanos,
    pub(crate) idle: Nanos,
}

impl Shares {
    /// The window.
    pub(crate) fn all(&self) -> Nanos {
        self.compute + self.comm + self.copy + self.idle
    }
}

/// What a device does at a moment: of what runs on its streams, what counts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Compute,
    Communication,
    Copy,
    Idle,
}

impl State {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Compute, Self::Communication, Self::Copy, Self::Idle];

    /// In the words of the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "exposed communication",
            Self::Copy => "exposed copy",
            Self::Idle => "idle",
        }
    }

    fn of(kind: Option<OpKind>) -> Self {
        match kind {
            Some(OpKind::Kernel) => Self::Compute,
            Some(OpKind::Communication) => Self::Communication,
            Some(OpKind::Copy { .. } | OpKind::Set) => Self::Copy,
            None => Self::Idle,
        }
    }
}

/// The states of a device over `ground` (disjoint, in order): disjoint, in order, covering it.
pub(crate) fn states(device: &Device, ground: &[Interval]) -> Vec<(Interval, State)> {
    let mut states: Vec<(Interval, State)> = Vec::new();
    for part in partition(ground, &claims(device)) {
        let op = part.claim.and_then(|op| device.ops.get(op));
        let state = State::of(op.map(|op| op.kind));
        match states.last_mut() {
            Some((last, same)) if *same == state && last.end == part.span.start => {
                last.end = part.span.end;
            }
            _ => states.push((part.span, state)),
        }
    }
    states
}

fn claims(device: &Device) -> Vec<Claim> {
    let claim = |op: &Op| Claim {
        span: op.span,
        rank: rank(op),
    };
    device.ops.iter().map(claim).collect()
}

/// A maximal stretch in which a device did not compute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) span: Interval,
    /// Position of the kernel that ended with its start, if one did.
    pub(crate) before: Option<usize>,
}

/// Which part of the account an operation belongs to: the higher wins.
fn rank(op: &Op) -> u8 {
    match op.kind {
        OpKind::Kernel => 2,
        OpKind::Communication => 1,
        OpKind::Copy { .. } | OpKind::Set => 0,
    }
}

/// Divides `ground` (disjoint, in order) of a device over the union of its streams.
pub(crate) fn account(device: &Device, ground: &[Interval]) -> (Shares, Vec<Gap>) {
    let mut shares = Shares::default();
    let mut gaps: Vec<Gap> = Vec::new();
    let mut last: Option<Part> = None;
    for part in partition(ground, &claims(device)) {
        let kind = part
            .claim
            .and_then(|op| device.ops.get(op))
            .map(|op| op.kind);
        let length = part.span.len();
        match kind {
            Some(OpKind::Kernel) => shares.compute += length,
            Some(OpKind::Communication) => shares.comm += length,
            Some(OpKind::Copy { .. } | OpKind::Set) => shares.copy += length,
            None => shares.idle += length,
        }
        if kind != Some(OpKind::Kernel) {
            match gaps.last_mut() {
                Some(gap) if gap.span.end == part.span.start && joined(last, part) => {
                    gap.span.end = part.span.end;
                }
                _ => gaps.push(Gap {
                    span: part.span,
                    before: last
                        .filter(|last| last.span.end == part.span.start)
                        .and_then(|last| last.claim),
                }),
            }
        }
        last = Some(part);
    }
    (shares, gaps)
}

/// Whether a part goes on where the last one ended.
fn joined(last: Option<Part>, part: Part) -> bool {
    last.is_some_and(|last| last.span.end == part.span.start)
}
