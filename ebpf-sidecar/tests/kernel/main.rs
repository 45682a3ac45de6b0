//! Planted workloads recorded by real eBPF, compared with what was planted and with what the kernel
//! itself counts. They need root; without it each says that it was skipped, and with `CI` set in the
//! environment a skip is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cgroup;
mod client;
mod cuda;
mod cuda_job;
mod disk;
#[path = "../fake_cuda/mod.rs"]
mod fake_cuda;
mod faults;
mod harness;
mod host;
mod kernel_work;
mod life;
mod losses;
mod off_cpu;
mod samples;
mod scale;
mod serve;
mod serve_clients;
mod serve_harness;
mod serve_users;
mod totals;
mod workload;
