//! Running a plant in a process of its own, on a machine that has time for it.

use super::Plant;
use crate::sidecar::Sidecar;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// CPUs that other programs may have used, on average, while a plant ran: beyond that the run says
/// more of them than of the plant, and is made again.
const FOREIGN_CPUS: f64 = 0.2;

/// How often a run is made on a machine that others keep busy.
const ATTEMPTS: usize = 5;

/// What a plant said of itself, and the report in the trace that it wrote.
#[derive(Debug)]
pub struct Ran {
    /// `lost_ns` and `trained_ns`, see [`truth`](super::truth).
    pub truth: Value,
    /// What gpustall says of it.
    pub report: Value,
    /// Whether others kept the machine busy each time: then this run is no test.
    pub disturbed: bool,
}

impl Ran {
    /// A number of the plant's own.
    pub fn truth_ns(&self, of: &str) -> f64 {
        self.truth[of].as_f64().unwrap()
    }
}

/// Runs a plant with these changes; `program` is the binary `plant`.
pub fn run(program: &str, plant: &Plant, sidecar: Option<&Sidecar>, changes: &[&str]) -> Ran {
    let mut ran = None;
    for _ in 0..ATTEMPTS {
        let (begun, busy, own) = (Instant::now(), busy_seconds(), children_seconds());
        let mut this = once(program, plant, sidecar, changes);
        let foreign = busy_seconds() - busy - (children_seconds() - own);
        let cpus = foreign / begun.elapsed().as_secs_f64();
        this.disturbed = cpus >= FOREIGN_CPUS;
        let disturbed = this.disturbed;
        ran = Some(this);
        if !disturbed {
            break;
        }
        println!("{}: others used {cpus:.2} CPUs", plant.name);
    }
    ran.unwrap()
}

fn once(program: &str, plant: &Plant, sidecar: Option<&Sidecar>, changes: &[&str]) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(plant.name).arg(directory.path()).args(changes);
    command.env_remove("GPUSTALL");
    match sidecar {
        Some(sidecar) => command.env("GPUSTALL_SIDECAR", sidecar.socket()),
        None => command.env("GPUSTALL_SIDECAR", "off"),
    };
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", plant.name);
    Ran {
        truth: serde_json::from_slice(&output.stdout).unwrap(),
        report: report(directory.path(), plant),
        disturbed: false,
    }
}

fn report(directory: &Path, plant: &Plant) -> Value {
    let trace = directory.join(format!("{}.trace.json.gz", plant.name));
    gpustall_trace::read(&trace).unwrap().trace.report.unwrap()
}

/// CPU time that anything on the machine used, or that was taken from it, since it started.
fn busy_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.map(|field| field.parse().unwrap()).collect();
    // user nice system idle iowait irq softirq steal
    let idle = ticks[3] + ticks[4];
    (ticks[..8].iter().sum::<f64>() - idle) / rustix::param::clock_ticks_per_second() as f64
}

/// CPU time of the processes that this one started and waited for, and of what those waited for.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name, in parentheses, may hold blanks; cutime and cstime are fields 16 and 17.
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
