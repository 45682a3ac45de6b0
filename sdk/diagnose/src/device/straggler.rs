//! Collectives of several devices: which kernels are one, and which device began it last.

use super::ops::{Device, Op, OpKind};
use gpustall_trace::{Interval, Symbol, TraceTime};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// When the last device began a collective that runs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: TraceTime,
    /// Position in [`Collectives::list`].
    pub(crate) of: usize,
}

/// For the collectives of a device, by position of the operation.
pub(crate) type Late = HashMap<usize, Arrival>;

/// Kernels of several devices that are one exchange.
#[derive(Debug, Clone)]
pub(crate) struct Collective {
    /// Positions of the devices, and of their operations; by device.
    pub(crate) ops: Vec<(usize, usize)>,
    /// The device that began it last.
    pub(crate) last: usize,
    /// The end that came first: no device can end before all have begun.
    pub(crate) end: TraceTime,
}

/// The collectives of a trace.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    /// By their ends.
    pub(crate) list: Vec<Collective>,
    /// Of each device.
    pub(crate) late: Vec<Late>,
}

impl Collectives {
    /// Finds them. The n-th kernel of one name on each device is one collective if all devices ran
    /// equally many; else those that overlap the most, each the other's best. They must overlap.
    pub(crate) fn of(devices: &[Device]) -> Self {
        let mut found = Self {
            list: Vec::new(),
            late: vec![Late::new(); devices.len()],
        };
        if devices.len() < 2 {
            return found;
        }
        let by_name: Vec<HashMap<Symbol, Vec<usize>>> = devices.iter().map(collectives).collect();
        let names: BTreeSet<Symbol> = by_name.iter().flat_map(|of| of.keys().copied()).collect();
        for name in names {
            let runs: Vec<(usize, &[usize])> = (by_name.iter().enumerate())
                .filter_map(|(device, of)| Some((device, of.get(&name)?.as_slice())))
                .collect();
            let count = runs.first().map_or(0, |(_, ops)| ops.len());
            match runs.iter().all(|(_, ops)| ops.len() == count) {
                _ if runs.len() < 2 => {}
                true => (0..count).for_each(|n| {
                    let ops = runs
                        .iter()
                        .filter_map(|(device, of)| Some((*device, *of.get(n)?)));
                    found.add(devices, ops.collect());
                }),
                false => overlapping(devices, &runs, |ops| found.add(devices, ops)),
            }
        }
        found.finish(devices);
        found
    }

    fn add(&mut self, devices: &[Device], ops: Vec<(usize, usize)>) {
        let starts = || {
            ops.iter()
                .map(|&(device, op)| (devices[device].ops[op].span.start, device))
        };
        let ends = ops
            .iter()
            .map(|&(device, op)| devices[device].ops[op].span.end);
        let last = starts().max_by_key(|&(start, device)| (start, std::cmp::Reverse(device)));
        let (Some((start, last)), Some(end)) = (last, ends.min()) else {
            return;
        };
        if ops.len() > 1 && start < end {
            self.list.push(Collective { ops, last, end });
        }
    }

    fn finish(&mut self, devices: &[Device]) {
        self.list.sort_by_key(|of| of.end);
        for (of, collective) in self.list.iter().enumerate() {
            let span = |&(device, op): &(usize, usize)| devices[device].ops[op].span;
            let at = collective.ops.iter().map(|op| span(op).start).max();
            for &(device, op) in &collective.ops {
                let at = at.unwrap_or_default();
                self.late[device].insert(op, Arrival { at, of });
            }
        }
    }
}

fn collectives(device: &Device) -> HashMap<Symbol, Vec<usize>> {
    let mut of: HashMap<Symbol, Vec<usize>> = HashMap::new();
    for (i, op) in device.ops.iter().enumerate() {
        if op.kind == OpKind::Communication {
            of.entry(op.name).or_default().push(i);
        }
    }
    of
}

/// Of devices that did not run equally many: each kernel of the device that ran the most, with that of
/// each other device that overlaps it the most, if it is that one's best too.
fn overlapping(
    devices: &[Device],
    runs: &[(usize, &[usize])],
    mut each: impl FnMut(Vec<(usize, usize)>),
) {
    let most = runs
        .iter()
        .max_by_key(|(device, ops)| (ops.len(), std::cmp::Reverse(*device)));
    let Some(&(first, own)) = most else { return };
    let mut together: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for &(other, theirs) in runs.iter().filter(|(device, _)| *device != first) {
        let (a, b) = (&devices[first].ops, &devices[other].ops);
        for &op in own {
            let best = best(&a[op], theirs, b);
            let back = best.and_then(|best| self::best(&b[best], own, a));
            if let Some(best) = best.filter(|_| back == Some(op)) {
                together
                    .entry(op)
                    .or_insert(vec![(first, op)])
                    .push((other, best));
            }
        }
    }
    for mut ops in together.into_values() {
        ops.sort_unstable();
        each(ops);
    }
}

/// Which of `list` (positions in `ops`, by start) overlaps `op` the most; the first of several.
fn best(op: &Op, list: &[usize], ops: &[Op]) -> Option<usize> {
    let before = list.partition_point(|&i| ops[i].span.start < op.span.start);
    // Collectives of one name follow each other on a device: one that began before may reach in.
    let near = &list[before.saturating_sub(REACH_BACK)..];
    let meets = near
        .iter()
        .take_while(|&&i| ops[i].span.start < op.span.end);
    let shared = |i: usize| Interval::intersection(ops[i].span, op.span).len();
    let best = meets.max_by_key(|&&i| (shared(i), std::cmp::Reverse(i)));
    best.copied().filter(|&i| shared(i).get() > 0)
}

/// Kernels that began before one, of which it is looked whether they reach into it.
const REACH_BACK: usize = 16;
