//! The functions of the CUDA driver that are recorded: what each is for, and which of its arguments
//! say how many bytes and which stream.

use super::call::CudaClass;
use gpustall_wire::cuda::{Cookie, Size, Stream};

/// A function of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its name, as the library exports it.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) class: CudaClass,
    size: Size,
    stream: Stream,
}

impl Function {
    /// What the probes at function number `n` are told.
    pub(crate) const fn cookie(&self, n: u16) -> Cookie {
        Cookie::new(n, self.size, self.stream)
    }
}

const NO_SIZE: Size = Size::None;
const NO_STREAM: Stream = Stream::None;

const fn arg(n: u8) -> Stream {
    Stream::Arg(n)
}

/// Argument `arg` counts bytes.
const fn bytes(arg: u8) -> Size {
    Size::Count { arg, log2: 0 }
}

/// Argument `arg` counts elements of 2^`log2` bytes.
const fn elements(arg: u8, log2: u8) -> Size {
    Size::Count { arg, log2 }
}

/// Arguments `width` and `width + 1` span an area of elements of 2^`log2` bytes.
const fn area(width: u8, log2: u8) -> Size {
    Size::Area {
        width,
        height: width + 1,
        log2,
    }
}

/// Rows of name, class, size and stream. A suffix behind the name adds the same function for the default
/// stream of the calling thread.
macro_rules! functions {
    ($($name:literal $($suffix:literal)?: $class:ident, $size:expr, $stream:expr;)+) => {
        &[$(
            Function { name: $name, class: CudaClass::$class, size: $size, stream: $stream },
            $(Function {
                name: concat!($name, $suffix), class: CudaClass::$class, size: $size, stream: $stream,
            },)?
        )+]
    };
}

/// All of them; the probes know each by its position. Parameters as in `cuda.h` of CUDA 12 and 13.
pub(crate) const FUNCTIONS: &[Function] = functions! {
    "cuLaunchKernel" "_ptsz": Launch, NO_SIZE, Stream::Ninth;
    "cuLaunchKernelEx" "_ptsz": Launch, NO_SIZE, Stream::Config;
    "cuLaunchCooperativeKernel" "_ptsz": Launch, NO_SIZE, Stream::Ninth;
    "cuLaunchCooperativeKernelMultiDevice": Launch, NO_SIZE, NO_STREAM;
    "cuLaunchHostFunc" "_ptsz": Launch, NO_SIZE, arg(0);
    "cuGraphLaunch" "_ptsz": Launch, NO_SIZE, arg(1);

    "cuMemcpy" "_ptds": Copy, bytes(2), NO_STREAM;
    "cuMemcpyAsync" "_ptsz": Copy, bytes(2), arg(3);
    "cuMemcpyPeer" "_ptds": Copy, bytes(4), NO_STREAM;
    "cuMemcpyPeerAsync" "_ptsz": Copy, bytes(4), arg(5);
    "cuMemcpyHtoD_v2" "_ptds": Copy, bytes(2), NO_STREAM;
    "cuMemcpyHtoDAsync_v2" "_ptsz": Copy, bytes(2), arg(3);
    "cuMemcpyDtoH_v2" "_ptds": Copy, bytes(2), NO_STREAM;
    "cuMemcpyDtoHAsync_v2" "_ptsz": Copy, bytes(2), arg(3);
    "cuMemcpyDtoD_v2" "_ptds": Copy, bytes(2), NO_STREAM;
    "cuMemcpyDtoDAsync_v2" "_ptsz": Copy, bytes(2), arg(3);
    "cuMemcpyDtoA_v2" "_ptds": Copy, bytes(3), NO_STREAM;
    "cuMemcpyAtoD_v2" "_ptds": Copy, bytes(3), NO_STREAM;
    "cuMemcpyHtoA_v2" "_ptds": Copy, bytes(3), NO_STREAM;
    "cuMemcpyHtoAAsync_v2" "_ptsz": Copy, bytes(3), arg(4);
    "cuMemcpyAtoH_v2" "_ptds": Copy, bytes(3), NO_STREAM;
    "cuMemcpyAtoHAsync_v2" "_ptsz": Copy, bytes(3), arg(4);
    "cuMemcpyAtoA_v2" "_ptds": Copy, bytes(4), NO_STREAM;
    "cuMemcpy2D_v2" "_ptds": Copy, Size::Copy2d, NO_STREAM;
    "cuMemcpy2DUnaligned_v2" "_ptds": Copy, Size::Copy2d, NO_STREAM;
    "cuMemcpy2DAsync_v2" "_ptsz": Copy, Size::Copy2d, arg(1);
    "cuMemcpy3D_v2" "_ptds": Copy, Size::Copy3d, NO_STREAM;
    "cuMemcpy3DAsync_v2" "_ptsz": Copy, Size::Copy3d, arg(1);
    "cuMemcpy3DPeer" "_ptds": Copy, Size::Copy3d, NO_STREAM;
    "cuMemcpy3DPeerAsync" "_ptsz": Copy, Size::Copy3d, arg(1);
    "cuMemcpyBatchAsync" "_ptsz": Copy, NO_SIZE, NO_STREAM;
    "cuMemcpyBatchAsync_v2" "_ptsz": Copy, NO_SIZE, NO_STREAM;
    "cuMemPrefetchAsync" "_ptsz": Copy, bytes(1), arg(3);
    "cuMemPrefetchAsync_v2" "_ptsz": Copy, bytes(1), arg(4);

    "cuMemsetD8_v2" "_ptds": Set, bytes(2), NO_STREAM;
    "cuMemsetD16_v2" "_ptds": Set, elements(2, 1), NO_STREAM;
    "cuMemsetD32_v2" "_ptds": Set, elements(2, 2), NO_STREAM;
    "cuMemsetD2D8_v2" "_ptds": Set, area(3, 0), NO_STREAM;
    "cuMemsetD2D16_v2" "_ptds": Set, area(3, 1), NO_STREAM;
    "cuMemsetD2D32_v2" "_ptds": Set, area(3, 2), NO_STREAM;
    "cuMemsetD8Async" "_ptsz": Set, bytes(2), arg(3);
    "cuMemsetD16Async" "_ptsz": Set, elements(2, 1), arg(3);
    "cuMemsetD32Async" "_ptsz": Set, elements(2, 2), arg(3);
    "cuMemsetD2D8Async" "_ptsz": Set, area(3, 0), arg(5);
    "cuMemsetD2D16Async" "_ptsz": Set, area(3, 1), arg(5);
    "cuMemsetD2D32Async" "_ptsz": Set, area(3, 2), arg(5);

    "cuMemAlloc_v2": Alloc, bytes(1), NO_STREAM;
    "cuMemAllocPitch_v2": Alloc, area(2, 0), NO_STREAM;
    "cuMemAllocManaged": Alloc, bytes(1), NO_STREAM;
    "cuMemAllocAsync" "_ptsz": Alloc, bytes(1), arg(2);
    "cuMemAllocFromPoolAsync" "_ptsz": Alloc, bytes(1), arg(3);
    "cuMemAllocHost_v2": Alloc, bytes(1), NO_STREAM;
    "cuMemHostAlloc": Alloc, bytes(1), NO_STREAM;
    "cuMemHostRegister_v2": Alloc, bytes(1), NO_STREAM;
    "cuMemCreate": Alloc, bytes(1), NO_STREAM;
    "cuMemAddressReserve": Alloc, bytes(1), NO_STREAM;
    "cuMemMap": Alloc, bytes(1), NO_STREAM;
    "cuMemSetAccess": Alloc, bytes(1), NO_STREAM;
    "cuArrayCreate_v2": Alloc, NO_SIZE, NO_STREAM;
    "cuArray3DCreate_v2": Alloc, NO_SIZE, NO_STREAM;

    "cuMemFree_v2": Free, NO_SIZE, NO_STREAM;
    "cuMemFreeAsync" "_ptsz": Free, NO_SIZE, arg(1);
    "cuMemFreeHost": Free, NO_SIZE, NO_STREAM;
    "cuMemHostUnregister": Free, NO_SIZE, NO_STREAM;
    "cuMemRelease": Free, NO_SIZE, NO_STREAM;
    "cuMemAddressFree": Free, bytes(1), NO_STREAM;
    "cuMemUnmap": Free, bytes(1), NO_STREAM;
    "cuMemPoolTrimTo": Free, NO_SIZE, NO_STREAM;
    "cuArrayDestroy": Free, NO_SIZE, NO_STREAM;

    "cuStreamSynchronize" "_ptsz": Sync, NO_SIZE, arg(0);
    "cuCtxSynchronize": Sync, NO_SIZE, NO_STREAM;
    "cuCtxSynchronize_v2": Sync, NO_SIZE, NO_STREAM;
    "cuEventSynchronize": Sync, NO_SIZE, NO_STREAM;
    "cuStreamWaitEvent" "_ptsz": Sync, NO_SIZE, arg(0);

    "cuModuleLoad": Load, NO_SIZE, NO_STREAM;
    "cuModuleLoadData": Load, NO_SIZE, NO_STREAM;
    "cuModuleLoadDataEx": Load, NO_SIZE, NO_STREAM;
    "cuModuleLoadFatBinary": Load, NO_SIZE, NO_STREAM;
    "cuLibraryLoadData": Load, NO_SIZE, NO_STREAM;
    "cuLibraryLoadFromFile": Load, NO_SIZE, NO_STREAM;
    "cuFuncLoad": Load, NO_SIZE, NO_STREAM;
    "cuLinkCreate_v2": Load, NO_SIZE, NO_STREAM;
    "cuLinkAddData_v2": Load, bytes(3), NO_STREAM;
    "cuLinkAddFile_v2": Load, NO_SIZE, NO_STREAM;
    "cuLinkComplete": Load, NO_SIZE, NO_STREAM;
    "cuGraphInstantiateWithFlags": Load, NO_SIZE, NO_STREAM;
    "cuGraphInstantiateWithParams" "_ptsz": Load, NO_SIZE, NO_STREAM;
    "cuGraphUpload" "_ptsz": Load, NO_SIZE, arg(1);

    "cuInit": Context, NO_SIZE, NO_STREAM;
    "cuDevicePrimaryCtxRetain": Context, NO_SIZE, NO_STREAM;
    "cuCtxCreate_v2": Context, NO_SIZE, NO_STREAM;
    "cuCtxCreate_v4": Context, NO_SIZE, NO_STREAM;
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_function_has_one_row() {
        let names: HashSet<_> = FUNCTIONS.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), FUNCTIONS.len());
        assert!(FUNCTIONS.iter().all(|f| f.name.starts_with("cu")));
        assert!(u16::try_from(FUNCTIONS.len()).is_ok());
    }

    /// The probes read arguments 0 to 5 from registers.
    #[test]
    fn no_row_names_an_argument_that_the_probes_cannot_read() {
        for function in FUNCTIONS {
            let size = match function.size {
                Size::Count { arg, .. } => arg,
                Size::Area { width, height, .. } => width.max(height),
                _ => 0,
            };
            let stream = match function.stream {
                Stream::Arg(n) => n,
                _ => 0,
            };
            assert!(size <= 5 && stream <= 5, "{}", function.name);
        }
    }
}
