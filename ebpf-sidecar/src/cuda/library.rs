//! A file of the CUDA driver's library: which of the functions it exports, and where in the file.

use super::table::FUNCTIONS;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

/// The functions of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    /// Number of the function, and the offset of its first instruction in the file. No offset occurs
    /// twice: of several names of one function the first in the table is taken.
    pub(crate) found: Vec<(u16, u64)>,
    /// Numbers of those that the file does not export.
    pub(crate) missing: Vec<u16>,
}

/// Reads the table of dynamic symbols of a library.
///
/// # Errors
/// One sentence, when the file cannot be read or is no library.
pub(crate) fn exports(path: &Path) -> Result<Exports, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|e| said(&e))?;
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(|e| said(&e))?;
    let offset_of = |address: u64| {
        let within = |s: &object::Segment<'_, '_, _>| {
            (s.address()..s.address() + s.size()).contains(&address)
        };
        let segment = elf.segments().find(within)?;
        Some(address - segment.address() + segment.file_range().0)
    };
    let numbers: HashMap<&str, u16> = (0_u16..).zip(FUNCTIONS).map(|(n, f)| (f.name, n)).collect();
    let mut at: HashMap<u16, u64> = HashMap::new();
    for symbol in elf.dynamic_symbols().filter(|s| s.is_definition()) {
        let number = symbol.name().ok().and_then(|name| numbers.get(name));
        if let (Some(&number), Some(offset)) = (number, offset_of(symbol.address())) {
            at.insert(number, offset);
        }
    }
    let (mut exports, mut taken) = (Exports::default(), HashSet::new());
    for number in (0_u16..).take(FUNCTIONS.len()) {
        match at.get(&number) {
            None => exports.missing.push(number),
            Some(&offset) if taken.insert(offset) => exports.found.push((number, offset)),
            Some(_) => {}
        }
    }
    Ok(exports)
}
