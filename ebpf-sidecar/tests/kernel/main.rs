//! Planted workloads recorded by real eBPF, compared with what was planted and with what the kernel
//! itself counts. They need root; without it each says that it was skipped, and with `CI` set in the
//! environment a skip is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cuda;
mod cuda_job;
#[path = "../fake_cuda/mod.rs"]
mod fake_cuda;
mod harness;
mod life;
mod losses;
mod off_cpu;
mod samples;
mod scale;
mod totals;
mod workload;
