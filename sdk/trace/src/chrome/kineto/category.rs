//! What the categories of PyTorch's profiler stand for, in the words of [`vocab`](crate::vocab).

use crate::vocab::cat;

/// Where the slices of a category belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// On the thread that the event names.
    Thread,
    /// On the stream: kernels, copies, memsets.
    Stream,
    /// Beside the stream: user annotations as the device saw them.
    Annotations,
    /// Beside the stream: what it, or the host for it, waited for.
    Waits,
}

/// A category of PyTorch's profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Category {
    /// Its name in [`vocab`](crate::vocab).
    pub(super) name: &'static str,
    /// Where its slices belong.
    pub(super) place: Place,
    /// Only versions up to 2021 spell it so.
    pub(super) legacy: bool,
}

/// Names of the operators that PyTorch, before it had a category for them, put around a stretch of
/// the user's program.
const ANNOTATIONS: [&[u8]; 3] = [b"ProfilerStep#", b"enumerate(DataLoader)#", b"Optimizer."];

/// The category that a slice or flow is given as `name_in_file`; `None` if PyTorch has none such.
#[inline]
pub(super) fn category(name_in_file: &[u8], slice_name: &[u8]) -> Option<Category> {
    let (name, place, legacy) = match name_in_file {
        b"kernel" => (cat::KERNEL, Place::Stream, false),
        b"gpu_memcpy" => (cat::GPU_MEMCPY, Place::Stream, false),
        b"gpu_memset" => (cat::GPU_MEMSET, Place::Stream, false),
        b"gpu_user_annotation" => (cat::GPU_USER_ANNOTATION, Place::Annotations, false),
        b"cuda_sync" => (cat::CUDA_SYNC, Place::Waits, false),
        // Those of AMD's devices stand under CUDA's names, those of others under their own.
        b"cuda_runtime" | b"xpu_runtime" | b"privateuse1_runtime" => {
            (cat::CUDA_RUNTIME, Place::Thread, false)
        }
        b"cuda_driver" | b"xpu_driver" | b"privateuse1_driver" => {
            (cat::CUDA_DRIVER, Place::Thread, false)
        }
        b"cpu_op" => (cat::CPU_OP, Place::Thread, false),
        b"user_annotation" => (cat::USER_ANNOTATION, Place::Thread, false),
        b"python_function" => (cat::PYTHON_FUNCTION, Place::Thread, false),
        b"overhead" => (cat::OVERHEAD, Place::Thread, false),
        b"ac2g" => (cat::AC2G, Place::Thread, false),
        b"fwdbwd" => (cat::FWDBWD, Place::Thread, false),
        b"Kernel" => (cat::KERNEL, Place::Stream, true),
        b"Memcpy" => (cat::GPU_MEMCPY, Place::Stream, true),
        b"Memset" => (cat::GPU_MEMSET, Place::Stream, true),
        b"Runtime" => (cat::CUDA_RUNTIME, Place::Thread, true),
        b"Operator" => match ANNOTATIONS
            .iter()
            .any(|start| slice_name.starts_with(start))
        {
            true => (cat::USER_ANNOTATION, Place::Thread, true),
            false => (cat::CPU_OP, Place::Thread, true),
        },
        b"async" | b"async_cpu_to_gpu" => (cat::AC2G, Place::Thread, true),
        b"forward_backward" => (cat::FWDBWD, Place::Thread, true),
        _ => return None,
    };
    Some(Category {
        name,
        place,
        legacy,
    })
}
