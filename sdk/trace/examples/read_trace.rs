//! Prints what a trace of any kind holds, and what reading it cost.
//!
//! `cargo run --release -p gpustall-trace --example read_trace -- FILE...`

use gpustall_trace::read_any;
use std::collections::BTreeMap;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        let begun = Instant::now();
        let outcome = read_any(path.as_ref())?;
        let seconds = begun.elapsed().as_secs_f64();
        let trace = &outcome.trace;
        let mut by_cat: BTreeMap<&str, usize> = BTreeMap::new();
        for slice in &trace.slices {
            *by_cat.entry(trace.text(slice.cat)).or_default() += 1;
        }
        let row = serde_json::json!({
            "source": format!("{:?}", outcome.source),
            "name": trace.meta.name,
            "recorder": trace.meta.recorder,
            "length_ns": trace.length().get(),
            "slices": by_cat,
            "instants": trace.instants.len(),
            "counters": trace.counters.len(),
            "flows": trace.flows.len(),
            "async_slices": trace.async_slices.len(),
            "processes": trace.processes.len(),
            "tracks": trace.tracks.len(),
            "warnings": outcome.warnings,
            "seconds": seconds,
            "peak_rss_bytes": peak_rss_bytes(),
        });
        println!("{row}");
    }
    Ok(())
}

/// Most memory that this process had so far, bytes; `None` where the system does not say.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
