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
    let claims: Vec<Claim> = device
        .ops
        .iter()
        .map(|op| Claim {
            span: op.span,
            rank: rank(op),
        })
        .collect();
    let mut shares = Shares::default();
    let mut gaps: Vec<Gap> = Vec::new();
    let mut last: Option<Part> = None;
    for part in partition(ground, &claims) {
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
