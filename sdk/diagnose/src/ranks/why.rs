//! Why a device came late to a collective.
//!
//! A device that is late at a collective may have lost its time long before: what it does while the others
//! wait is often plain compute, which began late. So the two are compared since they last met: each
//! did as much in that time, and what the late one has more of is why it is late. A device that waits in one
//! collective may go on computing under it, and be ahead at the next one too: what was not needed to
//! explain one wait is kept for the next, as long as one waits for the other in each.

use crate::cause::Cause;
use crate::charge::{Account, Stall};
use crate::device::{Collectives, Devices};
use crate::piece::{Piece, PieceKind};
use gpustall_trace::{Interval, Nanos, TraceTime};
use std::collections::{BTreeMap, HashMap};

/// The time that one device waited in one collective for another one to begin it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Position of the device that waited.
    pub(crate) waiting: usize,
    /// Position of the device that it waited for.
    pub(crate) late: usize,
    /// Exposed time that it waited.
    pub(crate) lost: Nanos,
    /// The same by what the late device had more of since both last met: a cause, or `None` for compute. They
    /// add up to `lost`.
    pub(crate) why: BTreeMap<Option<Cause>, Nanos>,
}

/// A device's account as parts, by start; what lies between them is compute.
struct Laid(Vec<(Interval, Cause)>);

impl Laid {
    fn of(account: &Account) -> Self {
        let parts = |stall: &Stall| {
            let cause = stall.cause;
            let parts = stall.parts.clone().into_iter();
            parts.map(move |part| (part, cause))
        };
        let mut parts: Vec<_> = account.stalls.iter().flat_map(parts).collect();
        parts.sort_by_key(|(part, _)| part.start);
        Self(parts)
    }

    /// How `span` was spent.
    fn spent(&self, span: Interval) -> BTreeMap<Option<Cause>, i128> {
        let mut spent: BTreeMap<Option<Cause>, i128> = BTreeMap::new();
        let mut rest = i128::from(span.len().get());
        let first = self.0.partition_point(|(part, _)| part.end <= span.start);
        let meets = self.0[first..]
            .iter()
            .take_while(|(part, _)| part.start < span.end);
        for &(part, cause) in meets {
            let length = i128::from(part.intersection(span).len().get());
            *spent.entry(Some(cause)).or_default() += length;
            rest -= length;
        }
        spent.insert(None, rest);
        spent
    }
}

/// One entry for each device that waited in each collective; their losses add up to what is charged to
/// stragglers.
pub(crate) fn waited(
    devices: &Devices,
    collectives: &Collectives,
    accounts: &[Account],
    starts: &[TraceTime],
) -> Vec<Waited> {
    let mut by: BTreeMap<(usize, usize), (Nanos, TraceTime)> = BTreeMap::new();
    let mut of_slice: HashMap<usize, (usize, usize)> = HashMap::new();
    for (waiting, late) in collectives.late.iter().enumerate() {
        for (&op, arrival) in late {
            if let Some(op) = devices
                .list
                .get(waiting)
                .and_then(|device| device.ops.get(op))
            {
                of_slice.insert(op.slice, (arrival.of, waiting));
            }
        }
    }
    for piece in accounts.iter().flat_map(stragglers) {
        if let Some(&key) = piece.slice.and_then(|slice| of_slice.get(&slice)) {
            let (lost, until) = by.entry(key).or_default();
            *lost += piece.span.len();
            *until = piece.span.end.max(*until);
        }
    }
    if by.is_empty() {
        return Vec::new();
    }
    let laid: Vec<Laid> = accounts.iter().map(Laid::of).collect();
    let mut meetings: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    let mut runs: HashMap<(usize, usize), Run> = HashMap::new();
    let mut list = Vec::with_capacity(by.len());
    for ((of, waiting), (lost, until)) in by {
        let Some(late) = collectives.list.get(of).map(|collective| collective.last) else {
            continue;
        };
        let pair = (waiting.min(late), waiting.max(late));
        let met = meetings
            .entry(pair)
            .or_insert_with(|| met(collectives, pair));
        let position = met.partition_point(|&other| other < of);
        let start = |device: usize| starts.get(device).copied().unwrap_or_default();
        let last = position.checked_sub(1).and_then(|last| met.get(last));
        let last = last.and_then(|&last| collectives.list.get(last));
        let since = last.map_or(start(waiting).max(start(late)), |last| last.end);
        let run = runs.entry((waiting, late)).or_default();
        if run.next != Some(position) {
            *run = Run {
                since,
                ..Run::default()
            };
        }
        run.next = Some(position + 1);
        let span = Interval::new(run.since, until);
        run.since = span.end;
        let why = match (laid.get(waiting), laid.get(late)) {
            (Some(here), Some(there)) => {
                run.add(&here.spent(span), &there.spent(span));
                run.explain(lost)
            }
            _ => BTreeMap::from([(Some(Cause::Unknown), lost)]),
        };
        list.push(Waited {
            waiting,
            late,
            lost,
            why,
        });
    }
    list
}

/// The collectives that both devices took part in, ascending.
fn met(collectives: &Collectives, (a, b): (usize, usize)) -> Vec<usize> {
    let takes = |ops: &[(usize, usize)], device| ops.iter().any(|&(of, _)| of == device);
    let list = collectives.list.iter().enumerate();
    let both = list.filter(|(_, of)| takes(&of.ops, a) && takes(&of.ops, b));
    both.map(|(at, _)| at).collect()
}

/// The pieces of an account in which it waited for another device.
fn stragglers(account: &Account) -> impl Iterator<Item = &Piece> {
    let stalls = account
        .stalls
        .iter()
        .filter(|stall| stall.cause == Cause::CommStraggler);
    let pieces = stalls.flat_map(|stall| &stall.pieces);
    pieces.filter(|piece| piece.kind == PieceKind::Straggler)
}

/// Collectives one after the other, in each of which one device waits for one other.
#[derive(Default)]
struct Run {
    /// Position of the one that would go on with it, among those that both take part in.
    next: Option<usize>,
    /// Until when both have been compared.
    since: TraceTime,
    /// What the late device has more of, less what explained earlier waits.
    more: BTreeMap<Option<Cause>, i128>,
}

impl Run {
    /// Adds how both spent some time. What `here` waited for others is no part of the comparison.
    fn add(&mut self, here: &BTreeMap<Option<Cause>, i128>, there: &BTreeMap<Option<Cause>, i128>) {
        for (&cause, ns) in there {
            *self.more.entry(cause).or_default() += ns;
        }
        let own = here
            .iter()
            .filter(|(cause, _)| **cause != Some(Cause::CommStraggler));
        for (&cause, ns) in own {
            *self.more.entry(cause).or_default() -= ns;
        }
    }

    /// Divides `lost` by what the late device has more of, in proportion, and takes that off.
    fn explain(&mut self, lost: Nanos) -> BTreeMap<Option<Cause>, Nanos> {
        let excess = self.more.iter().filter(|&(_, ns)| *ns > 0);
        let excess: Vec<(Option<Cause>, i128)> = excess.map(|(cause, ns)| (*cause, *ns)).collect();
        let all: i128 = excess.iter().map(|&(_, ns)| ns).sum();
        if all == 0 {
            return BTreeMap::from([(Some(Cause::Unknown), lost)]);
        }
        let mut left = lost;
        let mut why = BTreeMap::new();
        for &(cause, ns) in &excess {
            let part = i128::from(lost.get()) * ns / all;
            let part = Nanos::new(u64::try_from(part).unwrap_or(0)).min(left);
            left = left - part;
            why.insert(cause, part);
        }
        // What rounding left over goes to the largest.
        let largest = excess.iter().max_by_key(|&&(cause, ns)| (ns, cause));
        if let Some(part) = largest.and_then(|(cause, _)| why.get_mut(cause)) {
            *part += left;
        }
        why.retain(|_, part| *part > Nanos::ZERO);
        for (cause, part) in &why {
            *self.more.entry(*cause).or_default() -= i128::from(part.get());
        }
        why
    }
}
