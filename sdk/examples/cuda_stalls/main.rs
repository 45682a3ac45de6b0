//! Four ways to starve a CUDA device, in a program that uses cudarc, each with its fix: copies from
//! pageable memory, a readback every step, many small kernels, device memory allocated every step.
//!
//! ```text
//! cargo run --release -p gpustall --no-default-features --features cuda --example cuda_stalls
//! cuda_stalls readback            # one of pageable, readback, launches, allocations
//! cuda_stalls readback --fixed    # only with the fix
//! ```
//!
//! Each way runs as it is and with the fix, each time in a session; the last table has what the first
//! report predicted, and what was measured. `--steps N`, `--out DIRECTORY`, `--report` prints the
//! reports.
#![allow(
    unsafe_code,
    reason = "kernels are launched without the compiler knowing their arguments"
)]

mod gpu;

use cudarc::driver::sys::is_culib_present;
use gpu::{Case, Gpu};
use std::error::Error;
use std::path::PathBuf;

/// Each with what it must be found as, and how many of its steps are run for one of `--steps`: some are
/// short.
const CASES: [(&str, Case, &str, usize); 4] = [
    ("pageable", Case::Pageable, "transfer.pageable", 1),
    ("readback", Case::Readback, "sync.readback", 20),
    ("launches", Case::Launches, "host.launch-bound", 1),
    ("allocations", Case::Allocations, "alloc.device", 4),
];

struct Args {
    cases: Vec<String>,
    fixed: bool,
    report: bool,
    steps: usize,
    out: PathBuf,
}

impl Args {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut args = Self {
            cases: Vec::new(),
            fixed: false,
            report: false,
            steps: 50,
            out: PathBuf::from("target/cuda_stalls"),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--fixed" => args.fixed = true,
                "--report" => args.report = true,
                "--steps" => args.steps = words.next().ok_or("--steps needs a number")?.parse()?,
                "--out" => args.out = words.next().ok_or("--out needs a directory")?.into(),
                name if CASES.iter().any(|(case, ..)| *case == name) => args.cases.push(word),
                _ => return Err(format!("what is `{word}`? See the top of this file").into()),
            }
        }
        Ok(args)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse()?;
    // SAFETY: it only tries to load the driver.
    if !unsafe { is_culib_present() } {
        return Err("there is no CUDA driver here".into());
    }
    std::fs::create_dir_all(&args.out)?;
    // What starting CUDA costs is in a trace of its own.
    let start = args.out.join("start.trace.json.gz");
    let start = gpustall::session("start").output(start).start()?;
    let gpu = Gpu::new()?;
    start.finish()?;
    println!(
        "case         planted             found               share      step  predicted   measured  off by"
    );
    for (name, case, planted, times) in CASES {
        let steps = args.steps * times;
        if !args.cases.is_empty() && !args.cases.iter().any(|of| of == name) {
            continue;
        }
        let record = |fixed: bool| -> Result<_, Box<dyn Error>> {
            let title = if fixed {
                format!("{name}-fixed")
            } else {
                name.to_owned()
            };
            let output = args.out.join(format!("{title}.trace.json.gz"));
            let session = gpustall::session(title).output(output).start()?;
            let took = gpu.run(case, steps, fixed)?;
            let step = took.as_secs_f64() * 1e3 / steps as f64;
            let summary = session.finish()?;
            if args.report {
                println!("{summary}\n");
            }
            Ok((step, summary))
        };
        let before = (!args.fixed).then(|| record(false)).transpose()?;
        let (after, _) = record(true)?;
        let Some((step, summary)) = before else {
            println!("{name:<12} fixed: {after:.3} ms a step");
            continue;
        };
        print!("{name:<12} {planted:<19} ");
        let finding = summary.report().and_then(|report| report.findings.first());
        let predicted = finding.and_then(|of| Some((of.step_ns?, of.predicted_step_ns?)));
        let (Some(finding), Some((now, then))) = (finding, predicted) else {
            println!("nothing   {step:>9.3} ms, fixed {after:.3} ms");
            continue;
        };
        let gain = (now - then.min(now)) as f64 / 1e6;
        println!(
            "{:<19} {:>4.0} % {step:>6.3} ms {:>7.3} ms {after:>7.3} ms {:>5.0} %",
            finding.cause.to_string(),
            finding.share * 100.0,
            then as f64 / 1e6,
            100.0 * (gain - (step - after)).abs() / (step - after).abs(),
        );
    }
    Ok(())
}
