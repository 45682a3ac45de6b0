//! A reader of BTF, the type information that the kernel carries: where members of its structures
//! lie, and which tracepoints it has with how many arguments.
//!
//! The probes have no relocations, so every offset they use is looked up here when they are loaded.
//! Format: <https://docs.kernel.org/bpf/btf.html>.

use std::collections::HashMap;

const MAGIC: u16 = 0xEB9F;
/// Length of a type's fixed part: name, info, size or type.
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

/// Kinds of types, as the format numbers them.
mod kind {
    pub(super) const PTR: u32 = 2;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNC_PROTO: u32 = 13;
}

/// Where a member lies in its structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Bits from the start of the structure.
    pub(crate) bit_offset: u32,
    /// Width of a bit-field, bits; 0 for other members.
    pub(crate) bits: u32,
}

/// Why bytes could not be read as BTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not BTF that this version understands: {0}")]
pub struct BtfError(&'static str);

/// The types of one kernel.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    bytes: Vec<u8>,
    strings: usize,
    /// Where each type begins, by its id less one.
    types: Vec<usize>,
    structs: HashMap<String, u32>,
    typedefs: HashMap<String, u32>,
}

impl KernelTypes {
    /// Reads the types in `bytes`, the content of `/sys/kernel/btf/vmlinux`.
    ///
    /// # Errors
    /// When the bytes are not little-endian BTF of version 1, or hold a kind of type that is
    /// unknown (its length is then unknown too).
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        if bytes.len() < 24 || u16::from_le_bytes([bytes[0], bytes[1]]) != MAGIC {
            return Err(BtfError("no magic number"));
        }
        let word = |at: usize| u32_at(&bytes, at).unwrap_or(0) as usize;
        let header = word(4);
        let (types_at, types_end) = (header + word(8), header + word(8) + word(12));
        let strings = header + word(16);
        if types_end > bytes.len() || strings > bytes.len() {
            return Err(BtfError("cut short"));
        }
        let mut all = Self {
            strings,
            types: Vec::new(),
            structs: HashMap::new(),
            typedefs: HashMap::new(),
            bytes,
        };
        let mut at = types_at;
        while at + TYPE_BYTES <= types_end {
            all.types.push(at);
            let id = all.types.len() as u32;
            let (kind, count) = all.kind(at);
            if let Some(name) = all.name(at).filter(|name| !name.is_empty()) {
                let name = name.to_owned();
                match kind {
                    kind::STRUCT => all.structs.entry(name).or_insert(id),
                    kind::TYPEDEF => all.typedefs.entry(name).or_insert(id),
                    _ => &mut 0,
                };
            }
            at += TYPE_BYTES + tail_bytes(kind, count).ok_or(BtfError("unknown kind of type"))?;
        }
        Ok(all)
    }

    /// Where `member` lies in `struct structure`, also inside unnamed structures and unions of it.
    pub(crate) fn member(&self, structure: &str, member: &str) -> Option<Member> {
        self.member_in(*self.structs.get(structure)?, member, 0)
    }

    /// How many arguments the tracepoint `name` has; `None` when the kernel does not have it.
    pub(crate) fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        // The first parameter is the probe's own data.
        Some(self.kind(self.prototype(name)?).1.saturating_sub(1))
    }

    /// Whether the first argument of the tracepoint `name` is a pointer.
    pub(crate) fn tracepoint_takes_pointer(&self, name: &str) -> bool {
        let first = || {
            const PARAMETER_BYTES: usize = 8;
            let parameter = self.prototype(name)? + TYPE_BYTES + PARAMETER_BYTES;
            self.place(u32_at(&self.bytes, parameter + 4)?)
        };
        self.tracepoint_arguments(name) > Some(0)
            && first().is_some_and(|at| self.kind(at).0 == kind::PTR)
    }

    /// Where the function type of the tracepoint `name` stands.
    fn prototype(&self, name: &str) -> Option<usize> {
        let typedef = *self.typedefs.get(&format!("btf_trace_{name}"))?;
        let pointer = self.place(self.target(typedef)?)?;
        let proto = self.place(u32_at(&self.bytes, pointer + 8)?)?;
        let kinds = (self.kind(pointer).0, self.kind(proto).0);
        (kinds == (kind::PTR, kind::FUNC_PROTO)).then_some(proto)
    }

    fn member_in(&self, id: u32, wanted: &str, base: u32) -> Option<Member> {
        let at = self.place(id)?;
        let (kind, count) = self.kind(at);
        if kind != kind::STRUCT && kind != kind::UNION {
            return None;
        }
        let has_bit_fields = u32_at(&self.bytes, at + 4)? >> 31 == 1;
        (0..count as usize).find_map(|n| {
            let member = at + TYPE_BYTES + n * MEMBER_BYTES;
            let raw = u32_at(&self.bytes, member + 8)?;
            let (offset, bits) = match has_bit_fields {
                true => (raw & 0xFF_FFFF, raw >> 24),
                false => (raw, 0),
            };
            let bit_offset = base + offset;
            match self.name(member)? {
                "" => self.member_in(u32_at(&self.bytes, member + 4)?, wanted, bit_offset),
                name => (name == wanted).then_some(Member { bit_offset, bits }),
            }
        })
    }

    /// Where type `id` begins.
    fn place(&self, id: u32) -> Option<usize> {
        self.types.get(id.checked_sub(1)? as usize).copied()
    }

    /// The type that type `id` refers to.
    fn target(&self, id: u32) -> Option<u32> {
        u32_at(&self.bytes, self.place(id)? + 8)
    }

    /// Kind of the type at `at`, and how many members or parameters follow it.
    fn kind(&self, at: usize) -> (u32, u32) {
        let info = u32_at(&self.bytes, at + 4).unwrap_or(0);
        ((info >> 24) & 0x1F, info & 0xFFFF)
    }

    /// The name whose offset stands at `at`.
    fn name(&self, at: usize) -> Option<&str> {
        let start = self.strings + u32_at(&self.bytes, at)? as usize;
        let text = self.bytes.get(start..)?;
        let end = text.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&text[..end]).ok()
    }
}

/// Bytes that follow the fixed part of a type.
fn tail_bytes(kind: u32, count: u32) -> Option<usize> {
    let count = count as usize;
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of `struct outer { u32 first; struct { u64 plain; unsigned flag:1; }; }`, and of a
    /// tracepoint `thing` with two arguments.
    fn sample() -> Vec<u8> {
        let strings = b"\0outer\0first\0plain\0flag\0btf_trace_thing\0";
        let at = |name: &str| {
            let text = std::str::from_utf8(strings).expect("ASCII");
            text.find(&format!("\0{name}\0")).expect("a name") as u32 + 1
        };
        let info = |kind: u32, count: u32, flag: u32| kind << 24 | count | flag << 31;
        let types: Vec<u32> = [
            vec![at("outer"), info(4, 2, 0), 24],
            vec![at("first"), 0, 0],
            vec![0, 2, 64],
            vec![0, info(4, 2, 1), 16],
            vec![at("plain"), 0, 0],
            vec![at("flag"), 0, 1 << 24 | 65],
            vec![at("btf_trace_thing"), info(8, 0, 0), 4],
            vec![0, info(2, 0, 0), 5],
            vec![0, info(13, 3, 0), 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let mut bytes = vec![0x9F, 0xEB, 1, 0];
        let lengths = [24, 0, types.len() as u32 * 4, types.len() as u32 * 4];
        for word in lengths
            .into_iter()
            .chain([strings.len() as u32])
            .chain(types)
        {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_also_in_unnamed_structures_and_as_bit_fields() {
        let types = KernelTypes::parse(sample()).expect("valid");
        let member = |name| types.member("outer", name).map(|m| (m.bit_offset, m.bits));
        assert_eq!(member("first"), Some((0, 0)));
        assert_eq!(member("plain"), Some((64, 0)));
        assert_eq!(member("flag"), Some((129, 1)));
        assert_eq!(member("absent"), None);
        assert_eq!(types.member("absent", "first"), None);
    }

    #[test]
    fn a_tracepoint_has_the_arguments_after_the_probes_own() {
        let types = KernelTypes::parse(sample()).expect("valid");
        assert_eq!(types.tracepoint_arguments("thing"), Some(2));
        assert_eq!(types.tracepoint_arguments("nothing"), None);
    }

    #[test]
    fn other_bytes_and_unknown_kinds_are_refused() {
        assert!(KernelTypes::parse(b"ELF".to_vec()).is_err());
        let mut cut = sample();
        cut.truncate(40);
        assert!(KernelTypes::parse(cut).is_err());
        let mut unknown = sample();
        unknown[24 + 7] = 31;
        assert!(KernelTypes::parse(unknown).is_err());
    }

    /// Against structures whose shape has not changed in decades, where the kernel shows its types.
    #[test]
    fn the_running_kernel_is_read() {
        let Ok(bytes) = std::fs::read(crate::kernel::KERNEL_BTF) else {
            eprintln!("skipped: this kernel shows no BTF");
            return;
        };
        let types = KernelTypes::parse(bytes).expect("the kernel's own BTF");
        let offset = |s, m| types.member(s, m).map(|m| m.bit_offset);
        assert_eq!(offset("list_head", "next"), Some(0));
        assert_eq!(offset("list_head", "prev"), Some(64));
        let tid = offset("task_struct", "pid").expect("a thread id");
        assert_eq!(offset("task_struct", "tgid"), Some(tid + 32));
        let iowait = types.member("task_struct", "in_iowait").expect("a flag");
        assert_eq!(iowait.bits, 1);
        assert_eq!(types.tracepoint_arguments("sched_waking"), Some(1));
        assert!(types.tracepoint_takes_pointer("sched_waking"));
        assert!(!types.tracepoint_takes_pointer("softirq_entry"));
    }
}
