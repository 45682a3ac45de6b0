//! How the probes record, and what they do unless told otherwise.

use gpustall_trace::Nanos;
use std::time::Duration;

/// How the probes record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Off-CPU intervals below this length are only counted in the totals of their thread.
    pub threshold: Nanos,
    /// Off-CPU intervals below this length have no kernel stack: what they waited for is not known.
    pub stack_threshold: Nanos,
    /// Size of the ring buffer, bytes; a power of two and at least a page.
    pub ring_bytes: u32,
    /// Most threads tracked at one time.
    pub max_threads: u32,
    /// How often each CPU is looked at, Hz, to see what the tracked thread on it runs; 0 for never.
    pub sample_hz: u32,
    /// Whether the pages that each thread allocates are counted. Slows every allocation of a page on
    /// the machine.
    pub page_allocs: bool,
    /// Most intervals (about 100 bytes each), most samples, and most CUDA calls, kept in memory; what comes after
    /// them is counted as lost, and stays in the totals.
    pub max_intervals: usize,
    /// Whether calls of the CUDA driver are recorded.
    pub cuda_calls: bool,
}

impl Options {
    /// Below this length a wait hardly shows among a training step's milliseconds.
    pub const DEFAULT_THRESHOLD: Nanos = Nanos::new(20_000);
    /// Walking a stack doubles what an interval costs.
    pub const DEFAULT_STACK_THRESHOLD: Nanos = Nanos::new(20_000);
    /// Room for about 25,000 intervals with stacks: 500 ms at 50,000 a second.
    pub const DEFAULT_RING_BYTES: u32 = 8 << 20;
    /// Not a divisor of the kernel's tick, so that what happens at every tick is not seen too often.
    pub const DEFAULT_SAMPLE_HZ: u32 = 199;
    /// About 5 MB of kernel memory.
    pub const DEFAULT_MAX_THREADS: u32 = 16_384;
    /// About 200 MB.
    pub const DEFAULT_MAX_INTERVALS: usize = 2_000_000;
    /// How often the ring buffer must be emptied: the probes wake nobody when they write.
    pub const DRAIN_EVERY: Duration = Duration::from_millis(20);
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: Self::DEFAULT_THRESHOLD,
            stack_threshold: Self::DEFAULT_STACK_THRESHOLD,
            ring_bytes: Self::DEFAULT_RING_BYTES,
            max_threads: Self::DEFAULT_MAX_THREADS,
            sample_hz: Self::DEFAULT_SAMPLE_HZ,
            page_allocs: false,
            max_intervals: Self::DEFAULT_MAX_INTERVALS,
            cuda_calls: true,
        }
    }
}
