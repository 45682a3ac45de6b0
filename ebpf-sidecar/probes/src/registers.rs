//! Registers of a program at a probe in it: arguments, stack pointer, result.
//!
//! One object serves both architectures: the user side says which one runs, and the verifier drops the
//! branch of the other. The loads are written in assembly so that the compiler does not join the
//! branches: the context may only be read at offsets that stand in the instruction.

use crate::settings::ARM64;
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_probe_read_user;
use core::arch::asm;

/// The saved registers that a uprobe gets as its context.
pub(crate) struct Registers<'a, C>(pub(crate) &'a C);

/// Offsets in `struct pt_regs` of x86_64, bytes.
mod x86_64 {
    pub(super) const R9: i32 = 64;
    pub(super) const R8: i32 = 72;
    pub(super) const RAX: i32 = 80;
    pub(super) const RCX: i32 = 88;
    pub(super) const RDX: i32 = 96;
    pub(super) const RSI: i32 = 104;
    pub(super) const RDI: i32 = 112;
    pub(super) const RSP: i32 = 152;
}

/// Offset of the stack pointer in `struct user_pt_regs` of aarch64, bytes; register n lies at 8 n.
const ARM64_SP: i32 = 248;

macro_rules! load {
    ($at:expr, $offset:expr) => {{
        let value: u64;
        // SAFETY: a load from the context at a fixed offset, which the verifier checks.
        unsafe {
            asm!("{value} = *(u64 *)({at} + {offset})", value = out(reg) value, at = in(reg) $at,
                offset = const $offset, options(readonly, nostack, preserves_flags));
        }
        value
    }};
}

impl<C: EbpfContext> Registers<'_, C> {
    /// Argument `n`, 0 to 5, of the function at whose start the probe stands.
    #[inline(always)]
    pub(crate) fn arg(&self, n: u64) -> u64 {
        let at = self.0.as_ptr();
        if ARM64.load() != 0 {
            return match n {
                0 => load!(at, 0),
                1 => load!(at, 8),
                2 => load!(at, 16),
                3 => load!(at, 24),
                4 => load!(at, 32),
                _ => load!(at, 40),
            };
        }
        match n {
            0 => load!(at, x86_64::RDI),
            1 => load!(at, x86_64::RSI),
            2 => load!(at, x86_64::RDX),
            3 => load!(at, x86_64::RCX),
            4 => load!(at, x86_64::R8),
            _ => load!(at, x86_64::R9),
        }
    }

    /// Argument 8 of that function: the first one on the stack of aarch64; on x86_64 the third, behind
    /// the return address.
    #[inline(always)]
    pub(crate) fn ninth(&self) -> Option<u64> {
        let behind = if ARM64.load() != 0 { 0 } else { 8 + 2 * 8 };
        user(self.stack() + behind)
    }

    /// The stack pointer.
    #[inline(always)]
    pub(crate) fn stack(&self) -> u64 {
        let at = self.0.as_ptr();
        if ARM64.load() != 0 {
            load!(at, ARM64_SP)
        } else {
            load!(at, x86_64::RSP)
        }
    }

    /// What the function returned, at a probe of its return.
    #[inline(always)]
    pub(crate) fn result(&self) -> u32 {
        let at = self.0.as_ptr();
        let register = if ARM64.load() != 0 {
            load!(at, 0)
        } else {
            load!(at, x86_64::RAX)
        };
        register as u32
    }
}

/// The eight bytes at an address of the program; `None` when they are not in memory.
#[inline(always)]
pub(crate) fn user(address: u64) -> Option<u64> {
    // SAFETY: the helper copes with any address.
    unsafe { bpf_probe_read_user(address as *const u64) }.ok()
}
