//! Names of the kernel's functions, from `/proc/kallsyms`.

use std::io;

/// A function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Function<'a> {
    /// Its name, without what the compiler appended (`.isra.0`).
    pub(crate) name: &'a str,
    /// The module that it belongs to; empty for the kernel itself.
    pub(crate) module: &'a str,
}

/// All functions, by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    text: String,
    /// Address, and where the name and the module stand in `text`.
    functions: Vec<(u64, Place, Place)>,
}

/// Start and end in the text.
type Place = (u32, u32);

impl KernelSymbols {
    /// Those of the running kernel. Empty when the kernel hides addresses from this process.
    pub(crate) fn of_running_kernel() -> io::Result<Self> {
        Ok(Self::parse(std::fs::read_to_string("/proc/kallsyms")?))
    }

    /// Reads lines `address type name [module]`.
    pub(crate) fn parse(text: String) -> Self {
        let mut functions = Vec::new();
        let place = |part: &str| {
            let start = part.as_ptr() as usize - text.as_ptr() as usize;
            (start as u32, (start + part.len()) as u32)
        };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            let module = words.next().map_or((0, 0), |module| {
                place(module.trim_start_matches('[').trim_end_matches(']'))
            });
            functions.push((address, place(name), module));
        }
        // Where two names stand at one address, the one listed first is kept.
        functions.sort_by_key(|f| f.0);
        functions.dedup_by_key(|f| f.0);
        Self { text, functions }
    }

    /// Whether no function has a name.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that `address` lies in.
    pub(crate) fn at(&self, address: u64) -> Option<Function<'_>> {
        let after = self.functions.partition_point(|f| f.0 <= address);
        let (_, name, module) = *self.functions.get(after.checked_sub(1)?)?;
        let part = |(start, end): Place| &self.text[start as usize..end as usize];
        Some(Function {
            name: part(name),
            module: part(module),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000200 t second.isra.0
ffffffff81000100 T first
ffffffff81000180 d data_is_no_function
ffffffffc0000000 t ioctl\t[nvidia]
";

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = KernelSymbols::parse(TEXT.to_owned());
        let name = |address| symbols.at(address).map(|f| (f.name, f.module));
        assert_eq!(name(0xffffffff810000ff), None);
        assert_eq!(name(0xffffffff81000100), Some(("first", "")));
        assert_eq!(name(0xffffffff810001ff), Some(("first", "")));
        assert_eq!(name(0xffffffff81000200), Some(("second", "")));
        assert_eq!(name(0xffffffffc0000010), Some(("ioctl", "nvidia")));
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let text = "0000000000000000 T first\n".to_owned();
        let symbols = KernelSymbols::parse(text);
        assert!(symbols.is_empty() && symbols.at(5).is_none());
    }
}
