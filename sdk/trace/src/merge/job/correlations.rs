//! What joins calls to operations: numbers that every process counts from 1.

use super::super::Part;
use super::apart::Space;
use crate::vocab::{arg, cat};
use crate::{Pid, Symbol, Trace, Value};
use std::collections::HashMap;

/// Arguments that hold such a number.
const KEYS: [&str; 3] = [arg::CORRELATION, arg::WAIT_ON_RECORD, arg::EXTERNAL_ID];

/// Raises the numbers of each process above those of the processes before.
pub(super) fn number(parts: &mut [Part], spaces: &[Space]) {
    let mut added: HashMap<(Space, Pid), u64> = HashMap::new();
    let mut largest: HashMap<(Space, Pid), u64> = HashMap::new();
    let process = |part: &Part, space: &Space| (*space, part.trace.meta.pid);
    for (part, space) in parts.iter().zip(spaces) {
        let largest = largest.entry(process(part, space)).or_default();
        *largest = self::largest(&part.trace).max(*largest);
    }
    let mut next = 0_u64;
    for (part, space) in parts.iter_mut().zip(spaces) {
        let of = process(part, space);
        let own = largest.get(&of).copied().unwrap_or(0);
        if own == 0 {
            continue;
        }
        let add = *added.entry(of).or_insert_with(|| {
            let add = next;
            next = next.saturating_add(own);
            add
        });
        if add > 0 {
            raise(&mut part.trace, add);
        }
    }
}

fn keys(trace: &Trace) -> Vec<Symbol> {
    let found = KEYS.iter().filter_map(|key| trace.strings.find(key));
    found.collect()
}

fn largest(trace: &Trace) -> u64 {
    let keys = keys(trace);
    let slices = trace.slices.iter().flat_map(|slice| slice.args.iter());
    let numbers = slices.filter(|(key, _)| keys.contains(key));
    let ac2g = trace.strings.find(cat::AC2G);
    let arrows = (trace.flows.iter())
        .filter(|flow| Some(flow.cat) == ac2g)
        .map(|flow| flow.id);
    let numbers = numbers
        .filter_map(|(_, value)| value.as_u64())
        .chain(arrows);
    // A foreign file may hold any number.
    numbers.filter(|n| *n <= u64::MAX >> 8).max().unwrap_or(0)
}

fn raise(trace: &mut Trace, add: u64) {
    let keys = keys(trace);
    for (key, value) in trace
        .slices
        .iter_mut()
        .flat_map(|slice| slice.args.iter_mut())
    {
        // 0 stands for none.
        if keys.contains(key)
            && let Some(number) = value.as_u64().filter(|number| *number > 0)
        {
            *value = Value::U64(number.saturating_add(add));
        }
    }
    // Arrows from calls to operations have the number that joins them.
    if let Some(ac2g) = trace.strings.find(cat::AC2G) {
        let arrows = trace.flows.iter_mut().filter(|flow| flow.cat == ac2g);
        arrows.for_each(|flow| flow.id = flow.id.wrapping_add(add));
    }
}
