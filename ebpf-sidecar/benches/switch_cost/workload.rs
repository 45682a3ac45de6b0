//! Threads that switch at a given rate, in a process of its own.
//!
//! Two pairs, each on one CPU; the two of a pair hand a byte to each other through pipes, and each
//! handing over is a switch. Before every fourth the thread works for 30 us, so that a quarter of the
//! intervals off CPU are longer than the default threshold. Now and then a pair sleeps to keep its rate.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const RATE: &str = "GPUSTALL_BENCH_RATE";
const PAIRS: u32 = 2;
const WORK: Duration = Duration::from_micros(30);
const WORK_EVERY: u64 = 4;
/// Turns between two looks at the clock.
const TURNS: u64 = 50;

/// The process; it ends when this is dropped.
pub(crate) struct Workload(Child);

impl Workload {
    /// Starts it with so many switches a second, and waits until it runs.
    pub(crate) fn start(rate: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(RATE, rate.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the process of the workload: runs it until its standard input ends. False in the benchmark.
pub(crate) fn run_if_asked() -> bool {
    let Ok(rate) = std::env::var(RATE) else {
        return false;
    };
    let rate: u32 = rate.parse().unwrap();
    let cpus = thread::available_parallelism().unwrap().get();
    for n in 0..PAIRS {
        pair(n as usize % cpus, f64::from(rate) / f64::from(PAIRS));
    }
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    true
}

fn pair(cpu: usize, rate: f64) {
    let (from_a, to_b) = pipe().unwrap();
    let (from_b, to_a) = pipe().unwrap();
    // Each turn of the pair is two switches.
    let period = Duration::from_secs_f64(2.0 * TURNS as f64 / rate);
    thread::spawn(move || turns(cpu, from_b, to_b, 0, Some(period)));
    thread::spawn(move || turns(cpu, from_a, to_a, WORK_EVERY / 2, None));
}

/// One of a pair; the one with a period begins and keeps the rate.
fn turns(
    cpu: usize,
    mut from: PipeReader,
    mut to: PipeWriter,
    first: u64,
    period: Option<Duration>,
) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
    let mut due = Instant::now();
    let mut byte = [0];
    for turn in first.. {
        if period.is_none() {
            from.read_exact(&mut byte).unwrap();
        }
        if turn % WORK_EVERY == 0 {
            let until = Instant::now() + WORK;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        to.write_all(&byte).unwrap();
        let Some(period) = period else { continue };
        from.read_exact(&mut byte).unwrap();
        if turn % TURNS == TURNS - 1 {
            due += period;
            match due.checked_duration_since(Instant::now()) {
                Some(left) => thread::sleep(left),
                // Behind: what was missed is not made up for.
                None => due = Instant::now(),
            }
        }
    }
}
