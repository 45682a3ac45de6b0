//! What operations are called in a trace: the words of Kineto, which tools for PyTorch know.

use std::collections::HashMap;
use std::sync::Arc;

/// Longest name of a kernel that is kept, in bytes. Templates make names of many thousands.
const LONGEST: usize = 1024;

/// Different names that are remembered, at most.
const REMEMBERED: usize = 1 << 16;

/// The readable names of kernels, each worked out once.
#[derive(Debug, Default)]
pub(crate) struct KernelNames(HashMap<Box<[u8]>, Arc<str>>);

impl KernelNames {
    /// The readable name of the kernel that the compiler called `mangled`.
    pub(crate) fn of(&mut self, mangled: &[u8]) -> Arc<str> {
        if let Some(known) = self.0.get(mangled) {
            return known.clone();
        }
        let name: Arc<str> = readable(mangled).into();
        if self.0.len() < REMEMBERED {
            self.0.insert(mangled.into(), name.clone());
        }
        name
    }
}

fn readable(mangled: &[u8]) -> String {
    let options = cpp_demangle::DemangleOptions::new();
    let demangled = match mangled {
        b"" => Some("kernel without a name".to_owned()),
        [b'_', b'Z', ..] => cpp_demangle::Symbol::new(mangled)
            .ok()
            .and_then(|symbol| symbol.demangle_with_options(&options).ok()),
        _ => None,
    };
    let mut name = demangled.unwrap_or_else(|| String::from_utf8_lossy(mangled).into_owned());
    if name.len() > LONGEST {
        let mut end = LONGEST;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str("...");
    }
    name
}

/// The name of a copy: `Memcpy HtoD (Pageable -> Device)`. `kind` is a
/// `CUpti_ActivityMemcpyKind`, the others are a `CUpti_ActivityMemoryKind`.
pub(crate) fn copy(kind: u8, source: u8, target: u8) -> &'static str {
    // The usual ones are constants: names are looked up for every copy.
    match (kind, source, target) {
        (1, 1, 3) => "Memcpy HtoD (Pageable -> Device)",
        (1, 2, 3) => "Memcpy HtoD (Pinned -> Device)",
        (2, 3, 1) => "Memcpy DtoH (Device -> Pageable)",
        (2, 3, 2) => "Memcpy DtoH (Device -> Pinned)",
        (8, 3, 3) => "Memcpy DtoD (Device -> Device)",
        (10, 3, 3) => "Memcpy PtoP (Device -> Device)",
        _ => unusual_copy(kind, source, target),
    }
}

fn unusual_copy(kind: u8, source: u8, target: u8) -> &'static str {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<BTreeMap<[u8; 3], &str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = [kind, source, target];
    if let Some(name) = names.get(&key) {
        return name;
    }
    let direction = match kind {
        1 => "HtoD",
        2 => "DtoH",
        3 => "HtoA",
        4 => "AtoH",
        5 => "AtoA",
        6 => "AtoD",
        7 => "DtoA",
        8 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    };
    let (source, target) = (memory(source.into()), memory(target.into()));
    let name = format!("Memcpy {direction} ({source} -> {target})");
    // At most one for each of the few kinds that CUPTI has.
    let name: &'static str = name.leak();
    names.insert(key, name);
    name
}

/// What a `CUpti_ActivityMemoryKind` stands for.
pub(crate) fn memory(kind: u16) -> &'static str {
    match kind {
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Device Static",
        7 => "Managed Static",
        _ => "Unknown",
    }
}

/// The name of a memset of memory of this kind.
pub(crate) fn set(memory_kind: u16) -> &'static str {
    match memory_kind {
        1 => "Memset (Pageable)",
        2 => "Memset (Pinned)",
        3 => "Memset (Device)",
        4 => "Memset (Array)",
        5 => "Memset (Managed)",
        6 => "Memset (Device Static)",
        7 => "Memset (Managed Static)",
        _ => "Memset (Unknown)",
    }
}

/// What was waited for, by its `CUpti_ActivitySynchronizationType`.
pub(crate) fn wait(what: u32) -> &'static str {
    match what {
        1 => "Event Sync",
        2 => "Stream Wait Event",
        3 => "Stream Sync",
        4 => "Context Sync",
        _ => "Unknown Sync",
    }
}

/// What the profiler took time for, by its `CUpti_ActivityOverheadKind`.
pub(crate) fn overhead(what: u32) -> &'static str {
    match (what, what >> 16) {
        (1, _) => "Driver Compiler",
        (_, 1) => "Activity Buffer Flush",
        (_, 2) => "Instrumentation",
        (_, 3) => "Resource",
        (_, 4) => "Runtime Triggered Module Loading",
        (_, 5) => "Lazy Function Loading",
        (_, 6) => "Command Buffer Full",
        (_, 7) => "Activity Buffer Request",
        (_, 8) => "UVM Activity Init",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_their_readable_names() {
        let mut names = KernelNames::default();
        let mangled = b"_ZN2at6native13reduce_kernelILi512EEEvi";
        assert_eq!(
            &*names.of(mangled),
            "void at::native::reduce_kernel<512>(int)"
        );
        assert_eq!(&*names.of(b"saxpy"), "saxpy");
        assert_eq!(&*names.of(b"_Znot_a_name\xff"), "_Znot_a_name\u{fffd}");
        assert_eq!(&*names.of(b""), "kernel without a name");
        assert_eq!(names.of(&[b'k'; 5000]).len(), LONGEST + 3);
    }

    #[test]
    fn copies_are_called_as_kineto_calls_them() {
        assert_eq!(copy(1, 1, 3), "Memcpy HtoD (Pageable -> Device)");
        assert_eq!(copy(2, 3, 5), "Memcpy DtoH (Device -> Managed)");
        assert_eq!(copy(99, 99, 99), "Memcpy Unknown (Unknown -> Unknown)");
        assert_eq!(copy(2, 3, 5).as_ptr(), copy(2, 3, 5).as_ptr());
    }
}
