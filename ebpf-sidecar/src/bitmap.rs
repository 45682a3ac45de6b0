//! The bitmap of tracked threads, shared with the probes through memory.

#![allow(
    unsafe_code,
    reason = "maps the memory of a BPF map, and shares it with the kernel"
)]

use gpustall_wire::{PID_LIMIT, TRACKED_WORD_BITS, TRACKED_WORDS};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const BYTES: usize = TRACKED_WORDS as usize * 8;

/// One bit a thread id. The probes set and clear bits in the same words, so all changes are atomic.
#[derive(Debug)]
pub(crate) struct TrackedBitmap(NonNull<AtomicU64>);

// SAFETY: the memory is only touched through atomics and stays mapped as long as the value lives.
unsafe impl Send for TrackedBitmap {}

impl TrackedBitmap {
    /// Maps the memory of the BPF array `map`, which has [`TRACKED_WORDS`] values of 8 bytes.
    pub(crate) fn map(map: impl AsFd) -> io::Result<Self> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let memory = unsafe { mmap(std::ptr::null_mut(), BYTES, flags, MapFlags::SHARED, map, 0) }?;
        NonNull::new(memory.cast())
            .map(Self)
            .ok_or_else(|| io::Error::other("mapped at address 0"))
    }

    /// Tracks the thread `tid`; nothing for an id that Linux never gives.
    pub(crate) fn set(&self, tid: u32) {
        if tid < PID_LIMIT {
            let word = self.word(tid / TRACKED_WORD_BITS);
            word.fetch_or(1 << (tid % TRACKED_WORD_BITS), Ordering::SeqCst);
        }
    }

    /// Whether the thread `tid` is tracked.
    pub(crate) fn has(&self, tid: u32) -> bool {
        tid < PID_LIMIT && {
            let word = self.word(tid / TRACKED_WORD_BITS).load(Ordering::SeqCst);
            word >> (tid % TRACKED_WORD_BITS) & 1 == 1
        }
    }

    /// No longer tracks the thread `tid`.
    pub(crate) fn clear(&self, tid: u32) {
        if tid < PID_LIMIT {
            let word = self.word(tid / TRACKED_WORD_BITS);
            word.fetch_and(!(1 << (tid % TRACKED_WORD_BITS)), Ordering::SeqCst);
        }
    }

    /// No longer tracks any thread. Takes some ten microseconds, where detaching takes longer.
    pub(crate) fn clear_all(&self) {
        for index in 0..TRACKED_WORDS {
            self.word(index).store(0, Ordering::SeqCst);
        }
    }

    fn word(&self, index: u32) -> &AtomicU64 {
        assert!(index < TRACKED_WORDS, "a word of the bitmap");
        // SAFETY: the word lies inside the mapping, aligned, and is only used atomically.
        unsafe { self.0.add(index as usize).as_ref() }
    }
}

impl Drop for TrackedBitmap {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; no reference into it outlives this value.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
