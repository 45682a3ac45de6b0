//! What ran on each device, and which call submitted it.

use crate::id_map::IdMap;
use crate::names::integer;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Slice, Symbol};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A device, by its number.
pub(crate) type DeviceKey = u64;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// A kernel that is not NCCL's.
    Kernel,
    /// A kernel of NCCL.
    Communication,
    /// A copy.
    Copy {
        pageable: bool,
        to_host: bool,
        on_device: bool,
    },
    /// A memset.
    Set,
}

/// An operation on a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) span: Interval,
    pub(crate) stream: u64,
    pub(crate) correlation: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) name: Symbol,
    /// Position of its slice in the trace.
    pub(crate) slice: usize,
    /// Position in [`Calls`](super::calls::Calls) of the call that submitted it.
    pub(crate) call: Option<usize>,
}

/// The operations of one device, by start, the longer first.
pub(crate) struct Device {
    pub(crate) key: DeviceKey,
    pub(crate) ops: Vec<Op>,
}

/// The devices of a trace, by their numbers. Operations are cut to the recording.
pub(crate) fn devices(timeline: &Timeline<'_>) -> Vec<Device> {
    let names = &timeline.names;
    let mut by_device: BTreeMap<DeviceKey, Vec<Op>> = BTreeMap::new();
    let mut communicates: IdMap<Symbol, bool> = IdMap::default();
    for (i, slice) in timeline.trace.slices.iter().enumerate() {
        let cat = Some(slice.cat);
        let kind = if cat == names.cat.kernel {
            let nccl = communicates
                .entry(slice.name)
                .or_insert_with(|| is_nccl(timeline.trace.text(slice.name)));
            if *nccl {
                OpKind::Communication
            } else {
                OpKind::Kernel
            }
        } else if cat == names.cat.gpu_memcpy {
            copy(timeline.trace.text(slice.name))
        } else if cat == names.cat.gpu_memset {
            OpKind::Set
        } else {
            continue;
        };
        let op = op(timeline, kind, i, slice);
        if !op.span.is_empty() {
            let number = integer(&slice.args, names.key.device).unwrap_or(0);
            by_device.entry(number).or_default().push(op);
        }
    }
    by_device
        .into_iter()
        .map(|(key, mut ops)| {
            ops.sort_by_key(|op| (op.span.start, Reverse(op.span.end)));
            Device { key, ops }
        })
        .collect()
}

fn op(timeline: &Timeline<'_>, kind: OpKind, slice_at: usize, slice: &Slice) -> Op {
    let key = &timeline.names.key;
    Op {
        kind,
        span: timeline.clip(slice.span),
        stream: integer(&slice.args, key.stream).unwrap_or(u64::MAX),
        correlation: integer(&slice.args, key.correlation).filter(|&id| id != 0),
        bytes: integer(&slice.args, key.bytes).unwrap_or(0),
        name: slice.name,
        slice: slice_at,
        call: None,
    }
}

fn is_nccl(name: &str) -> bool {
    let head = name.as_bytes();
    head.windows(4)
        .any(|four| four.eq_ignore_ascii_case(b"nccl"))
}

/// What the name of a copy says, in the words of CUPTI: `Memcpy HtoD (Pageable -> Device)`. Where they
/// are not NVIDIA's, the host is an `M`, and whether its memory is pinned is not said.
fn copy(name: &str) -> OpKind {
    let any = |words: &[&str]| words.iter().any(|word| name.contains(word));
    OpKind::Copy {
        pageable: name.contains("Pageable"),
        to_host: any(&["DtoH", "D2M", "D2H", "DeviceToHost"]),
        on_device: any(&["DtoD", "PtoP", "D2D", "DeviceToDevice"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_an_operation_does() {
        assert!(is_nccl(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        ));
        assert!(!is_nccl("sm90_xmma_fprop"));
        let (yes, no) = (true, false);
        let name = "Memcpy DtoH (Device -> Pageable)";
        assert_eq!(
            copy(name),
            OpKind::Copy {
                pageable: yes,
                to_host: yes,
                on_device: no
            }
        );
        let name = "Memcpy HtoD (Pinned -> Device)";
        assert_eq!(
            copy(name),
            OpKind::Copy {
                pageable: no,
                to_host: no,
                on_device: no
            }
        );
    }
}
