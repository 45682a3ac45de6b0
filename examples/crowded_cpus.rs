//! Workers that augment what they read, and a trainer, on too few CPUs: nobody gets one in time.
//!
//! ```text
//! cargo run --release --example crowded_cpus -- --cpus 2
//! cargo run --release --example crowded_cpus -- --before target/crowded_cpus/cpus-2.trace.json.gz
//! ```
//!
//! The second run may use every CPU, and compares with what the report of the first one predicted.

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::{Dataset, DatasetError};
use clap::Parser;
use gpustall::{Report, instrument}; // gpustall
use gpustall_examples::device::On;
use gpustall_examples::fix::{Fix, HEADING, Prediction};
use gpustall_examples::mlp::{Trainer, warm_up};
use gpustall_examples::rows::{Row, RowBatcher, Rows};
use gpustall_examples::ways::Way;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::PathBuf;

/// Trains a two-layer MLP on augmented rows, on a given number of CPUs.
#[derive(Parser)]
struct Args {
    /// CPUs to use, at most; all that the process may use if it is not given.
    #[arg(long)]
    cpus: Option<usize>,
    /// Workers of the loader.
    #[arg(long, default_value_t = 6)]
    workers: usize,
    /// Steps of the one epoch.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Rows in one batch.
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Rounds of augmentation of a row: about a microsecond each.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// The trace of a run before, whose prediction is to be compared with this one.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Print the report, too.
    #[arg(long)]
    report: bool,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Directory for the traces.
    #[arg(long, default_value = "target/crowded_cpus")]
    out: PathBuf,
}

/// Rows that are worked on when they are read.
struct Augmented {
    rows: Rows,
    rounds: usize,
}

impl Dataset<Row> for Augmented {
    fn get(&self, index: usize) -> Result<Row, DatasetError> {
        let mut row = self.rows.get(index)?;
        for _ in 0..self.rounds {
            for feature in &mut row.features {
                *feature = (*feature * 1.001).sin();
            }
        }
        Ok(row)
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Keeps this process on the first `count` of its CPUs, as `taskset` does; returns how many it has.
fn keep_on(count: Option<usize>) -> anyhow::Result<usize> {
    let all = sched_getaffinity(None)?;
    let mut some = CpuSet::new();
    let mine = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
    mine.take(count.unwrap_or(usize::MAX))
        .for_each(|cpu| some.set(cpu));
    sched_setaffinity(None, &some)?;
    Ok(some.count() as usize)
}

fn train(args: &Args) -> anyhow::Result<usize> {
    let mut trainer = Trainer::new(&args.device.device().autodiff());
    let data = Augmented {
        rows: Rows::generate(args.steps * args.batch_size),
        rounds: args.rounds,
    };
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch_size)
        .num_workers(args.workers)
        .set_device(args.device.device());
    let loader = instrument::loader("train", builder.build(instrument::dataset(data))); // gpustall
    let mut steps = 0;
    for batch in loader.iter() {
        trainer = trainer.step(batch?);
        steps += 1;
    }
    Ok(steps)
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    anyhow::ensure!(
        args.cpus != Some(0) && args.workers > 0 && args.steps > 0 && args.batch_size > 0,
        "--cpus, --workers, --steps and --batch-size must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;
    let cpus = keep_on(args.cpus)?;
    let device = args.device.device();
    warm_up(args.batch_size, &args.out, &device)?;
    let way = Way::run(&format!("cpus-{cpus}"), &args.out, &device, || train(&args))?;
    println!(
        "{} workers on {cpus} CPUs: {:.2} ms a step",
        args.workers,
        way.step_ns() / 1e6
    );
    match args.report {
        true => println!("{}", way.summary),
        false => println!("  {}", way.report().map_or("", |report| &report.verdict)),
    }
    if let Some(trace) = &args.before {
        let trace = gpustall::trace::read(trace)?.trace;
        let report = trace
            .report
            .ok_or_else(|| anyhow::anyhow!("that trace has no report"))?;
        let before: Report = serde_json::from_value(report)?;
        match Prediction::of_causes(&before, &["data.contended", "host.preempted"]) {
            Some(of) => println!("{HEADING}\n{}", Fix::of_report(of, &before, &way)),
            None => println!("{}: nobody waited for a CPU", before.name),
        }
    }
    Ok(())
}
