//! What the eBPF probes and their user side say to each other.
//!
//! [`record`] holds what the probes put into the ring buffer, [`thread`] the value of the map of
//! tracked threads, [`cuda`] both for calls into the CUDA driver, [`codes`] the numbers that both use. All types are `repr(C)` without padding,
//! so that the verifier sees every byte written and the user side may read any bytes as them.
//! All times are nanoseconds of `CLOCK_MONOTONIC` (`bpf_ktime_get_ns`).

#![no_std]

pub mod codes;
pub mod cuda;
pub mod plain;
pub mod record;
pub mod thread;

#[cfg(test)]
mod tests;

/// Version of everything in this crate: one more whenever a layout or the meaning of a code changes.
pub const WIRE_VERSION: u32 = 2;

/// Thread ids below this limit can be tracked: the largest `pid_max` that Linux allows.
pub const PID_LIMIT: u32 = 4 * 1024 * 1024;

/// Bits in one word of the bitmap of tracked threads.
pub const TRACKED_WORD_BITS: u32 = 64;

/// Words in the bitmap of tracked threads, one bit a thread id.
pub const TRACKED_WORDS: u32 = PID_LIMIT / TRACKED_WORD_BITS;

/// Most addresses kept of one stack.
pub const MAX_FRAMES: usize = 32;
