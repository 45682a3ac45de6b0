//! What recording costs while threads switch: the CPU time of the recorder's process, and the time that
//! the probes take from the tasks they interrupt, as the kernel counts it. As root:
//!
//! ```sh
//! cargo bench -p gpustall-sidecar --bench switch_cost
//! ```
//!
//! A process of its own makes 10,000 and 50,000 switches a second. All ways to record it take turns.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod probes;
mod workload;

use gpustall_sidecar::{Options, Recorder};
use gpustall_trace::Nanos;
use probes::ProbeTimes;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};
use workload::Workload;

const ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_secs(2);
const RATES: [u32; 2] = [10_000, 50_000];

/// A way to record.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    tracked: bool,
    threshold: Nanos,
}

const WAYS: [Way; 3] = [
    Way {
        name: "tracked, default threshold",
        tracked: true,
        threshold: Options::DEFAULT_THRESHOLD,
    },
    Way {
        name: "tracked, every interval recorded",
        tracked: true,
        threshold: Nanos::ZERO,
    },
    Way {
        name: "not tracked",
        tracked: false,
        threshold: Options::DEFAULT_THRESHOLD,
    },
];

/// What one window showed, each a second of it.
#[derive(Clone, Default)]
struct Window {
    switches: f64,
    recorded: f64,
    /// Shares of one core.
    recorder: f64,
    probes: f64,
    by_probe: Vec<(String, f64, f64)>,
}

fn main() {
    if workload::run_if_asked() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "needs root");
        eprintln!("skipped: recording needs root");
        return;
    }
    let _stats = aya::sys::enable_stats(aya::sys::Stats::RunTime).unwrap();
    let detailed = std::env::args().any(|argument| argument == "--probes");
    println!("shares of one core, medians of {ROUNDS} windows of {WINDOW:?} that take turns");
    println!(
        "{:<34} {:>10} {:>10} {:>9} {:>8} {:>8} {:>12}",
        "", "switches/s", "recorded/s", "recorder", "probes", "together", "per 10,000/s"
    );
    for rate in RATES {
        let mut windows = WAYS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (way, windows) in WAYS.iter().zip(&mut windows) {
                windows.push(measure(way, rate));
            }
        }
        for (way, windows) in WAYS.iter().zip(&windows) {
            print(way, windows, detailed);
        }
    }
}

fn measure(way: &Way, rate: u32) -> Window {
    let job = Workload::start(rate);
    let mut recorder = Recorder::start(&Options {
        threshold: way.threshold,
        ..Options::default()
    })
    .unwrap();
    if way.tracked {
        recorder.track_process(job.pid()).unwrap();
    }
    // The recorder's start is not what is measured.
    drain(&mut recorder, Duration::from_millis(300));
    let (begun, cpu, switches) = (Instant::now(), cpu_time(), context_switches());
    let (recorded, times) = (recorder.progress().intervals, ProbeTimes::now());
    drain(&mut recorder, WINDOW);
    let seconds = begun.elapsed().as_secs_f64();
    let by_probe = ProbeTimes::now().since(&times);
    let share = |time: Duration| time.as_secs_f64() / seconds;
    let window = Window {
        switches: (context_switches() - switches) as f64 / seconds,
        recorded: (recorder.progress().intervals - recorded) as f64 / seconds,
        recorder: share(cpu_time() - cpu),
        probes: by_probe.iter().map(|(_, time, _)| share(*time)).sum(),
        by_probe: by_probe
            .into_iter()
            .map(|(name, time, runs)| (name, share(time), time.as_nanos() as f64 / runs as f64))
            .collect(),
    };
    let recording = recorder.finish();
    let lost = recording.lost_by_source();
    assert!(lost.is_empty(), "lost {lost:?}: the numbers would flatter");
    window
}

/// As `record` does it.
fn drain(recorder: &mut Recorder, length: Duration) {
    let until = Instant::now() + length;
    while Instant::now() < until {
        std::thread::sleep(Options::DRAIN_EVERY);
        recorder.drain();
    }
}

fn print(way: &Way, windows: &[Window], detailed: bool) {
    let of = |value: fn(&Window) -> f64| {
        let mut values: Vec<f64> = windows.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (switches, together) = (of(|w| w.switches), of(|w| w.recorder + w.probes));
    println!(
        "{:<34} {switches:>10.0} {:>10.0} {:>8.2}% {:>7.2}% {:>7.2}% {:>11.2}%",
        way.name,
        of(|w| w.recorded),
        100.0 * of(|w| w.recorder),
        100.0 * of(|w| w.probes),
        100.0 * together,
        100.0 * together / switches * 10_000.0,
    );
    if detailed {
        for (name, share, each) in &windows[0].by_probe {
            println!(
                "    {name:<30} {:>6.2}% {each:>8.0} ns a run",
                100.0 * share
            );
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Switches of all CPUs since the machine started.
fn context_switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.unwrap().trim().parse().unwrap()
}
