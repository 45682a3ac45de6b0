//! Which devices of a collective waited for the last one to begin.

use super::ops::{Device, OpKind};
use gpustall_trace::{Symbol, TraceTime};
use std::collections::{BTreeSet, HashMap};

/// For the collectives of a device, by position of the operation, when the last device began it.
pub(crate) type Late = HashMap<usize, TraceTime>;

/// For each device. The n-th kernel of one name on each device is one collective if all devices
/// ran equally many and all of them overlap.
pub(crate) fn late(devices: &[Device]) -> Vec<Late> {
    let mut late = vec![Late::new(); devices.len()];
    if devices.len() < 2 {
        return late;
    }
    let by_name: Vec<HashMap<Symbol, Vec<usize>>> = devices.iter().map(collectives).collect();
    let names: BTreeSet<Symbol> = by_name.iter().flat_map(|of| of.keys().copied()).collect();
    for name in names {
        let runs: Vec<(usize, &Vec<usize>)> = by_name
            .iter()
            .enumerate()
            .filter_map(|(device, of)| Some((device, of.get(&name)?)))
            .collect();
        let count = runs.first().map_or(0, |(_, ops)| ops.len());
        if runs.len() < 2 || runs.iter().any(|(_, ops)| ops.len() != count) {
            continue;
        }
        for n in 0..count {
            let spans = || {
                runs.iter()
                    .map(|(device, ops)| devices[*device].ops[ops[n]].span)
            };
            let start = spans().map(|span| span.start).max().unwrap_or_default();
            let end = spans().map(|span| span.end).min().unwrap_or_default();
            if start < end {
                for (device, ops) in &runs {
                    late[*device].insert(ops[n], start);
                }
            }
        }
    }
    late
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
