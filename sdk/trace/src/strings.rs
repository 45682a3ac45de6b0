//! Interned strings: a trace of a million events has a few hundred different names.

use std::collections::HashMap;
use std::sync::Arc;

/// A string of one [`Trace`](crate::Trace), by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Symbol(pub(crate) u32);

/// The strings of one trace, each held once.
#[derive(Debug, Clone, Default)]
pub struct Strings {
    list: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Symbol>,
}

impl Strings {
    /// The symbol of `text`, new if it was not there.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.by_text.get(text) {
            return symbol;
        }
        let symbol = Symbol(u32::try_from(self.list.len()).expect("fewer than 2^32 strings"));
        let text: Arc<str> = text.into();
        self.list.push(text.clone());
        self.by_text.insert(text, symbol);
        symbol
    }

    /// The symbol of `text`, if the trace has it.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.by_text.get(text).copied()
    }

    /// The text of `symbol`; empty for a symbol of another trace.
    pub fn get(&self, symbol: Symbol) -> &str {
        self.list
            .get(symbol.0 as usize)
            .map_or("", |text| text.as_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(AsRef::as_ref)
    }
}
