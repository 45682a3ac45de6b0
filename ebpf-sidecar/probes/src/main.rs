//! The eBPF programs of gpustall's sidecar: what tracked threads do when they do not run.
//!
//! Most programs are BTF tracepoints. Structures of the kernel are read by plain loads at offsets
//! that the user side takes from the running kernel's BTF and puts into globals ([`settings`]).
//!
//! | file | subject |
//! |---|---|
//! | `switch.rs` | a thread leaves a CPU, a thread comes onto one |
//! | `interval.rs` | the end of a stretch off CPU: totals and record |
//! | `wake.rs` | a thread is woken, by whom |
//! | `life.rs` | threads begin, change their program or name |
//! | `interrupt.rs` | whether the CPU is in an interrupt, and which kind |
//! | `tracked.rs` | which threads are tracked |
//! | `threads.rs` | what is known of each |
//! | `output.rs` | the ring buffer, and the counts of what it lost |
//! | `task.rs` | fields of `task_struct` |
//! | `sample.rs` | what a running thread runs |
//! | `memory.rs` | reclaim, compaction, migration, kills for want of memory |
//! | `pages.rs` | pages that are allocated |
//! | `disk.rs` | requests to block devices |
//! | `request.rs` | fields of `request` |
//! | `cuda.rs` | calls into the CUDA driver |
//! | `registers.rs` | arguments and results of a program's functions |
//! | `settings.rs` | globals |

#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod cuda;
mod disk;
mod interrupt;
mod interval;
mod life;
mod memory;
mod output;
mod pages;
mod request;
mod registers;
mod sample;
mod settings;
mod switch;
mod task;
mod threads;
mod tracked;
mod wake;

/// Some helpers are only given to programs under a licence compatible with the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
