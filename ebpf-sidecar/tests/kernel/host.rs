//! The machine as a whole is what the kernel counts of it.

use crate::harness::{Job, drain_for, record, turn};
use gpustall_sidecar::{HostSample, Options};
use std::time::Duration;

/// Busy and all ticks of the machine's CPUs since it started.
fn ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().next().unwrap();
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .map(|f| f.parse().unwrap())
        .collect();
    // The last two, guests, are in the first two already.
    let all: u64 = fields[..8].iter().sum();
    (all - fields[3] - fields[4], all)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    assert!(!values.is_empty());
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_cpu_on_which_two_threads_spin_is_busy_and_waited_for() {
    let Some(_turn) = turn() else { return };
    let job = Job::start("spinners");
    let mut recorder = record(job.pid(), &Options::default());
    let before = ticks();
    drain_for(&mut recorder, Duration::from_secs(3));
    let after = ticks();
    let recording = recorder.finish();
    let samples: &[HostSample] = &recording.host;
    // Five a second, fewer where the test itself waits for a CPU.
    assert!(
        (5..=16).contains(&samples.len()),
        "{} samples",
        samples.len()
    );
    assert!(samples.is_sorted_by_key(|s| s.at));

    let first = samples.iter().flat_map(|s| &s.cpus);
    let first = first.filter(|(cpu, _)| *cpu == 0);
    let busy = mean(first.map(|&(_, share)| share.into()));
    assert!(busy > 0.9, "the CPU of the spinners was busy {busy}");

    let cpus = samples.last().unwrap().cpus.len() as f64;
    let counted = (after.0 - before.0) as f64 / (after.1 - before.1) as f64 * cpus;
    let busy = mean(samples.iter().filter_map(HostSample::cpus_busy));
    assert!(
        (busy - counted).abs() < 0.15 * cpus,
        "{busy}, counted {counted}"
    );

    assert!(mean(samples.iter().map(|s| s.run_queue.unwrap() as f64)) >= 1.5);
    let available = samples.last().unwrap().memory_available.unwrap();
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    let ratio = available as f64 / (kib * 1024) as f64;
    assert!((0.8..1.25).contains(&ratio), "{available}, now {kib} KiB");

    if std::path::Path::new("/proc/pressure/cpu").exists() {
        let waited = samples.iter().map(|s| s.pressure[0].unwrap().into());
        assert!(mean(waited) > 0.5);
    } else {
        let said = |note: &&String| note.contains("/proc/pressure");
        assert!(recording.notes.iter().any(|note| said(&note)));
    }
}
