//! Numbers that must stay different: batches, flows, async slices.

use crate::{Pid, Symbol, Trace, Value, vocab};
use std::collections::HashMap;

/// The largest numbers of the recordings before.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    batch: Option<u64>,
    flows: HashMap<(Symbol, Symbol), u64>,
    asyncs: HashMap<(Pid, Symbol), u64>,
}

/// What is added to the numbers of one recording.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) batch: u64,
    flows: HashMap<(Symbol, Symbol), u64>,
    asyncs: HashMap<(Pid, Symbol), u64>,
}

impl Added {
    pub(super) fn flow(&self, cat: Symbol, name: Symbol) -> u64 {
        self.flows.get(&(cat, name)).copied().unwrap_or(0)
    }

    pub(super) fn slice(&self, pid: Pid, cat: Symbol) -> u64 {
        self.asyncs.get(&(pid, cat)).copied().unwrap_or(0)
    }
}

impl Numbers {
    /// What to add to those of `part`, whose symbols and processes become those of the merged trace.
    /// Batches are one space of numbers: arguments, flows and async slices.
    pub(super) fn add(
        &mut self,
        part: &Trace,
        symbol: impl Fn(Symbol) -> Symbol,
        pid: impl Fn(Pid) -> Pid,
    ) -> Added {
        let cat = part.strings.find(vocab::cat::BATCH);
        let batch = largest_batch(part);
        let mut added = Added {
            batch: match batch {
                Some(_) => self.batch.map_or(0, |last| last.wrapping_add(1)),
                None => 0,
            },
            ..Added::default()
        };
        let mut flows: HashMap<_, u64> = HashMap::new();
        for flow in &part.flows {
            let largest = flows.entry((flow.cat, flow.name)).or_default();
            *largest = flow.id.max(*largest);
        }
        for ((of, name), largest) in flows {
            let key = (symbol(of), symbol(name));
            let before = self.flows.get(&key).map_or(0, |last| last.wrapping_add(1));
            let more = if Some(of) == cat { added.batch } else { before };
            added.flows.insert(key, more);
            self.flows.insert(key, largest.wrapping_add(more));
        }
        let mut asyncs: HashMap<_, u64> = HashMap::new();
        for slice in &part.async_slices {
            let largest = asyncs.entry((slice.pid, slice.cat)).or_default();
            *largest = slice.id.max(*largest);
        }
        for ((of, slice_cat), largest) in asyncs {
            let key = (pid(of), symbol(slice_cat));
            let before = self.asyncs.get(&key).map_or(0, |last| last.wrapping_add(1));
            let more = if Some(slice_cat) == cat {
                added.batch
            } else {
                before
            };
            added.asyncs.insert(key, more);
            self.asyncs.insert(key, largest.wrapping_add(more));
        }
        if let Some(largest) = batch {
            self.batch = Some(largest.wrapping_add(added.batch));
        }
        added
    }
}

/// The largest number of a batch.
fn largest_batch(part: &Trace) -> Option<u64> {
    let key = part.strings.find(vocab::arg::BATCH)?;
    let of_args = |args: &[(Symbol, Value)]| {
        let batches = args.iter().filter(|(k, _)| *k == key);
        batches.filter_map(|(_, value)| value.as_u64()).max()
    };
    let flows = part.flows.iter().filter(|flow| flow.cat == key);
    let asyncs = part.async_slices.iter();
    (part.slices.iter().filter_map(|slice| of_args(&slice.args)))
        .chain(
            part.instants
                .iter()
                .filter_map(|instant| of_args(&instant.args)),
        )
        .chain(asyncs.clone().filter_map(|slice| of_args(&slice.args)))
        .chain(
            asyncs
                .filter(|slice| slice.cat == key)
                .map(|slice| slice.id),
        )
        .chain(flows.map(|flow| flow.id))
        .max()
}
