//! The signals that end a recording in order.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;

/// Those that end it: a key, a service manager, and a terminal that closes. What ignored one of them
/// (`nohup`) goes on ignoring it.
pub(super) fn ending() -> impl Iterator<Item = i32> {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}

/// Bit `n - 1` is set if this process ignores signal `n`.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
