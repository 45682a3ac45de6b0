//! Calls into the CUDA driver: what a probe is told of the function that it stands at, and what it
//! reports.

/// Most calls of one thread that can be open inside each other; a power of two.
pub const MAX_NESTED: usize = 8;

/// Value of [`CudaCall::bytes`] and [`CudaCall::stream`] that says: not known.
pub const UNKNOWN: u64 = u64::MAX;

/// Where a function's arguments say how many bytes it is about. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Nowhere.
    None,
    /// An argument, in elements of 2^`log2` bytes.
    Count {
        /// The argument.
        arg: u8,
        /// Binary logarithm of the bytes of an element.
        log2: u8,
    },
    /// The product of two arguments, in elements of 2^`log2` bytes.
    Area {
        /// One argument.
        width: u8,
        /// The other.
        height: u8,
        /// Binary logarithm of the bytes of an element.
        log2: u8,
    },
    /// Argument 0 points to a `CUDA_MEMCPY2D`.
    Copy2d,
    /// Argument 0 points to a `CUDA_MEMCPY3D` or `CUDA_MEMCPY3D_PEER`.
    Copy3d,
}

/// Where a function's arguments name a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Nowhere.
    None,
    /// An argument in a register: 0 to 5.
    Arg(u8),
    /// Argument 8, which lies on the stack (`cuLaunchKernel`).
    Ninth,
    /// Argument 0 points to a `CUlaunchConfig`.
    Config,
}

/// Codes of [`Size`] in a cookie.
pub mod size_code {
    /// [`Size::Count`](super::Size::Count)
    pub const COUNT: u64 = 1;
    /// [`Size::Area`](super::Size::Area)
    pub const AREA: u64 = 2;
    /// [`Size::Copy2d`](super::Size::Copy2d)
    pub const COPY_2D: u64 = 3;
    /// [`Size::Copy3d`](super::Size::Copy3d)
    pub const COPY_3D: u64 = 4;
}

/// Codes of [`Stream`] in a cookie.
pub mod stream_code {
    /// [`Stream::Arg`](super::Stream::Arg)
    pub const ARG: u64 = 1;
    /// [`Stream::Ninth`](super::Stream::Ninth)
    pub const NINTH: u64 = 2;
    /// [`Stream::Config`](super::Stream::Config)
    pub const CONFIG: u64 = 3;
}

/// What the two probes of a function get as their attach cookie: its number and where its arguments
/// say what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie(pub u64);

impl Cookie {
    /// The cookie of function number `function`.
    pub const fn new(function: u16, size: Size, stream: Stream) -> Self {
        let (code, a, b, log2) = match size {
            Size::None => (0, 0, 0, 0),
            Size::Count { arg, log2 } => (size_code::COUNT, arg, 0, log2),
            Size::Area {
                width,
                height,
                log2,
            } => (size_code::AREA, width, height, log2),
            Size::Copy2d => (size_code::COPY_2D, 0, 0, 0),
            Size::Copy3d => (size_code::COPY_3D, 0, 0, 0),
        };
        let (stream_code, c) = match stream {
            Stream::None => (0, 0),
            Stream::Arg(arg) => (stream_code::ARG, arg),
            Stream::Ninth => (stream_code::NINTH, 0),
            Stream::Config => (stream_code::CONFIG, 0),
        };
        let size = code << 16 | (a as u64) << 20 | (b as u64) << 24 | (log2 as u64) << 28;
        Self(function as u64 | size | stream_code << 32 | (c as u64) << 36)
    }

    /// Number of the function.
    #[inline(always)]
    pub const fn function(self) -> u32 {
        self.0 as u32 & 0xffff
    }

    #[inline(always)]
    const fn nibble(self, at: u32) -> u64 {
        self.0 >> at & 0xf
    }

    /// A code of [`size_code`]; 0 for none.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        self.nibble(16)
    }

    /// The first argument that the size comes from.
    #[inline(always)]
    pub const fn first(self) -> u64 {
        self.nibble(20)
    }

    /// The second one.
    #[inline(always)]
    pub const fn second(self) -> u64 {
        self.nibble(24)
    }

    /// Binary logarithm of the bytes of an element.
    #[inline(always)]
    pub const fn log2(self) -> u64 {
        self.nibble(28)
    }

    /// A code of [`stream_code`]; 0 for none.
    #[inline(always)]
    pub const fn stream(self) -> u64 {
        self.nibble(32)
    }

    /// The argument that is the stream.
    #[inline(always)]
    pub const fn stream_arg(self) -> u64 {
        self.nibble(36)
    }
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct OpenCall {
    /// Number of the function.
    pub function: u64,
    /// When it began, ns.
    pub begin_ns: u64,
    /// Bytes that it is about, or [`UNKNOWN`].
    pub bytes: u64,
    /// Handle of its stream, or [`UNKNOWN`].
    pub stream: u64,
    /// Stack pointer at its first instruction: calls inside it have smaller ones.
    pub stack: u64,
}

/// The open calls of one thread: a value of the map of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct OpenCalls {
    /// How many of `calls` are open, the outermost first.
    pub depth: u64,
    /// The calls.
    pub calls: [OpenCall; MAX_NESTED],
}

/// A call of a tracked thread that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct CudaCall {
    /// [`CUDA_CALL`](crate::codes::kind::CUDA_CALL).
    pub kind: u32,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Number of the function.
    pub function: u32,
    /// When it began, ns.
    pub begin_ns: u64,
    /// When it returned, ns.
    pub end_ns: u64,
    /// Bytes that it is about, or [`UNKNOWN`].
    pub bytes: u64,
    /// Handle of its stream, or [`UNKNOWN`].
    pub stream: u64,
    /// What it returned (`CUresult`); 0 is success.
    pub result: u32,
    /// How many calls of the thread were open around it.
    pub depth: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    #[test]
    fn a_cookie_says_what_it_was_made_of() {
        let area = Size::Area {
            width: 3,
            height: 4,
            log2: 2,
        };
        let cookie = Cookie::new(0xabcd, area, Stream::Arg(5));
        assert_eq!(cookie.function(), 0xabcd);
        assert_eq!(cookie.size(), size_code::AREA);
        assert_eq!((cookie.first(), cookie.second(), cookie.log2()), (3, 4, 2));
        assert_eq!(
            (cookie.stream(), cookie.stream_arg()),
            (stream_code::ARG, 5)
        );
        let plain = Cookie::new(7, Size::None, Stream::None);
        assert_eq!(plain.0, 7);
    }

    #[test]
    fn no_type_has_padding() {
        assert_eq!(size_of::<OpenCall>(), 5 * 8);
        assert_eq!(size_of::<OpenCalls>(), 8 + MAX_NESTED * 40);
        assert_eq!(size_of::<CudaCall>(), 4 * 4 + 4 * 8 + 2 * 4);
        assert!(MAX_NESTED.is_power_of_two());
    }
}
