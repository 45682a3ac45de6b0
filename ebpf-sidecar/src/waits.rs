//! Stacks of addresses as waits with names, each held once.

use crate::recording::WaitId;
use crate::symbols::{Function, KernelSymbols};
use crate::wait::{self, Wait};
use rustc_hash::FxHashMap;

/// The waits of one recording.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    symbols: KernelSymbols,
    list: Vec<Wait>,
    by_addresses: FxHashMap<Vec<u64>, Option<WaitId>>,
    by_wait: FxHashMap<Wait, WaitId>,
}

impl Waits {
    /// None yet; named by `symbols`.
    pub(crate) fn new(symbols: KernelSymbols) -> Self {
        Self {
            symbols,
            ..Self::default()
        }
    }

    /// The wait on this kernel stack, the innermost address first. `None` without a stack, or when
    /// no function on it has a name.
    pub(crate) fn of_addresses(&mut self, addresses: Vec<u64>) -> Option<WaitId> {
        if let Some(&id) = self.by_addresses.get(&addresses) {
            return id;
        }
        let functions = addresses.iter().filter_map(|&ip| self.symbols.at(ip));
        let functions: Vec<Function<'_>> = functions.collect();
        let wait = (!functions.is_empty()).then(|| wait::classify(&functions));
        let id = wait.map(|wait| self.id(wait));
        self.by_addresses.insert(addresses, id);
        id
    }

    /// The wait in these functions, the innermost first.
    pub(crate) fn of_names(&mut self, names: &[String]) -> Option<WaitId> {
        let functions = names.iter().map(|name| Function { name, module: "" });
        let functions: Vec<Function<'_>> = functions.collect();
        (!functions.is_empty()).then(|| self.id(wait::classify(&functions)))
    }

    /// All of them, and the names that they came from.
    pub(crate) fn into_list(self) -> (Vec<Wait>, KernelSymbols) {
        (self.list, self.symbols)
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
