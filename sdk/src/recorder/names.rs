//! Names given at run time (loaders, their counters), kept for the life of the process.

use parking_lot::Mutex;
use std::collections::HashSet;

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// `name` for ever. Each different name is kept once; programs have a handful.
pub(crate) fn keep(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    let names = names.get_or_insert_with(HashSet::new);
    if let Some(&kept) = names.get(name) {
        return kept;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    kept
}
