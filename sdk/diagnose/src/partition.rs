//! Charging time: every nanosecond of a stretch goes to exactly one claim, or to none.

use gpustall_trace::{Interval, TraceTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of time that something claims.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// From when to when.
    pub(crate) span: Interval,
    /// The higher rank wins; of equal ranks the innermost: the later start, then the earlier
    /// end, then the later in the list.
    pub(crate) rank: u8,
}

/// A part of the ground and who it was charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// From when to when; never empty.
    pub(crate) span: Interval,
    /// Position of the claim that won it; `None` where there was no claim.
    pub(crate) claim: Option<usize>,
}

/// Cuts `ground` (disjoint, in order) by `claims`. The parts are disjoint, in order, and cover
/// the ground exactly. Takes `n log n` for `n` claims.
pub(crate) fn partition(ground: &[Interval], claims: &[Claim]) -> Vec<Part> {
    let mut order: Vec<usize> = (0..claims.len())
        .filter(|&i| !claims[i].span.is_empty())
        .collect();
    order.sort_by_key(|&i| claims[i].span.start);
    let mut next = 0;
    let mut active = BinaryHeap::new();
    let mut parts: Vec<Part> = Vec::new();
    for piece in ground {
        let mut at = piece.start;
        while at < piece.end {
            while let Some(&i) = order.get(next).filter(|&&i| claims[i].span.start <= at) {
                let Claim { span, rank } = claims[i];
                active.push((rank, span.start, Reverse(span.end), i));
                next += 1;
            }
            while active.peek().is_some_and(|top| top.2.0 <= at) {
                active.pop();
            }
            let mut until = piece.end;
            if let Some(&i) = order.get(next) {
                until = until.min(claims[i].span.start);
            }
            if let Some(top) = active.peek() {
                until = until.min(top.2.0);
            }
            push(&mut parts, at, until, active.peek().map(|top| top.3));
            at = until;
        }
    }
    parts
}

fn push(parts: &mut Vec<Part>, start: TraceTime, end: TraceTime, claim: Option<usize>) {
    match parts.last_mut() {
        Some(last) if last.claim == claim && last.span.end == start => last.span.end = end,
        _ => parts.push(Part {
            span: Interval::new(start, end),
            claim,
        }),
    }
}

/// `ground` (disjoint, in order) without `holes` (any order, may overlap).
pub(crate) fn without(ground: &[Interval], holes: &[Interval]) -> Vec<Interval> {
    let claims: Vec<Claim> = holes.iter().map(|&span| Claim { span, rank: 0 }).collect();
    partition(ground, &claims)
        .into_iter()
        .filter(|part| part.claim.is_none())
        .map(|part| part.span)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> Interval {
        Interval::new(TraceTime::from_nanos(start), TraceTime::from_nanos(end))
    }

    /// Who wins one nanosecond, straight from the definition of rank.
    fn winner(claims: &[Claim], at: u64) -> Option<usize> {
        let at = TraceTime::from_nanos(at);
        (0..claims.len())
            .filter(|&i| claims[i].span.contains(at))
            .max_by_key(|&i| {
                let Claim { span, rank } = claims[i];
                (rank, span.start, Reverse(span.end), i)
            })
    }

    proptest! {
        #[test]
        fn every_nanosecond_goes_to_the_claim_that_the_rule_names(
            ground in prop::collection::vec((0u64..8, 0u64..8), 0..5),
            claims in prop::collection::vec((0u64..60, 0u64..30, 0u8..3), 0..12),
        ) {
            let mut at = 0;
            let ground: Vec<Interval> = ground.into_iter().map(|(gap, len)| {
                let piece = span(at + gap, at + gap + len);
                at += gap + len;
                piece
            }).collect();
            let claims: Vec<Claim> = claims.into_iter()
                .map(|(start, len, rank)| Claim { span: span(start, start + len), rank })
                .collect();
            let mut charged = std::collections::BTreeMap::new();
            for part in partition(&ground, &claims) {
                prop_assert!(!part.span.is_empty());
                for t in part.span.start.as_nanos()..part.span.end.as_nanos() {
                    prop_assert!(charged.insert(t, part.claim).is_none());
                }
            }
            let expected: std::collections::BTreeMap<u64, Option<usize>> = ground.iter()
                .flat_map(|g| g.start.as_nanos()..g.end.as_nanos())
                .map(|t| (t, winner(&claims, t)))
                .collect();
            prop_assert_eq!(charged, expected);
        }
    }
}
