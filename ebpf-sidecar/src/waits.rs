//! Stacks of addresses as waits with names, each held once.

use crate::recording::WaitId;
use crate::symbols::{Function, KernelSymbols};
use crate::wait::{self, Wait, WaitClass};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The waits of one recording.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    symbols: Arc<KernelSymbols>,
    list: Vec<Wait>,
    by_addresses: FxHashMap<Vec<u64>, Option<WaitId>>,
    by_wait: FxHashMap<Wait, WaitId>,
}

impl Waits {
    /// None yet; named by `symbols`.
    pub(crate) fn new(symbols: Arc<KernelSymbols>) -> Self {
        Self {
            symbols,
            ..Self::default()
        }
    }

    /// The wait on this kernel stack, the innermost address first. `None` without a stack, or when
    /// no function on it has a name.
    pub(crate) fn of_addresses(&mut self, addresses: &[u64]) -> Option<WaitId> {
        if let Some(&id) = self.by_addresses.get(addresses) {
            return id;
        }
        let functions = addresses.iter().filter_map(|&ip| self.symbols.at(ip));
        let functions: Vec<Function<'_>> = functions.collect();
        let wait = (!functions.is_empty()).then(|| wait::classify(&functions));
        let id = wait.map(|wait| self.id(wait));
        self.by_addresses.insert(addresses.to_vec(), id);
        id
    }

    /// The wait in these functions, the innermost first.
    pub(crate) fn of_names(&mut self, names: &[String]) -> Option<WaitId> {
        let functions = names.iter().map(|name| Function { name, module: "" });
        let functions: Vec<Function<'_>> = functions.collect();
        (!functions.is_empty()).then(|| self.id(wait::classify(&functions)))
    }

    /// The names that they come from.
    pub(crate) fn symbols(&self) -> &KernelSymbols {
        &self.symbols
    }

    /// All of them; none is known afterwards.
    pub(crate) fn take(&mut self) -> Vec<Wait> {
        self.by_addresses.clear();
        self.by_wait.clear();
        std::mem::take(&mut self.list)
    }

    /// What kind of thing was waited for in the wait with this id.
    pub(crate) fn class(&self, id: WaitId) -> Option<WaitClass> {
        self.list.get(id.0 as usize).map(|wait| wait.class)
    }

    fn id(&mut self, wait: Wait) -> WaitId {
        if let Some(&id) = self.by_wait.get(&wait) {
            return id;
        }
        let id = WaitId(self.list.len() as u32);
        self.list.push(wait.clone());
        self.by_wait.insert(wait, id);
        id
    }
}
