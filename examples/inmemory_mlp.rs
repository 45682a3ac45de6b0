//! Rows in memory and a network of two layers: the device waits for the host to pick the rows one by
//! one. Direct indexing, a shuffled loader in process, and one with workers, side by side.
//!
//! ```text
//! cargo run --release --example inmemory_mlp -- --advise
//! cargo run --release -p gpustall-examples --features cuda --example inmemory_mlp -- \
//!     --device cuda --rows 7000000 --batch-size 1000000 --epochs 3 --advise
//! taskset -c 0-3 target/release/examples/inmemory_mlp --device cuda ...       # on four CPUs
//! ```
//!
//! `--advise` does what the reports propose and compares: the rows by direct indexing, and as many
//! workers as were predicted to be enough. `dataloader_starvation` is the same with training at a
//! laptop's size.

use anyhow::ensure;
use burn::data::dataloader::DataLoaderBuilder;
use clap::Parser;
use gpustall::instrument; // gpustall
use gpustall_examples::device::On;
use gpustall_examples::fix::{Fix, HEADING, Prediction};
use gpustall_examples::mlp::{Mlp, Trainer};
use gpustall_examples::rows::{Batch, FEATURES, RowBatcher, Rows};
use gpustall_examples::ways::{Table, Way};
use std::path::PathBuf;

/// Runs a two-layer MLP over rows in memory, several ways, and traces each.
#[derive(Parser)]
struct Args {
    /// Rows of 100 floats.
    #[arg(long, default_value_t = 350_000)]
    rows: usize,
    /// Rows in one batch.
    #[arg(long, default_value_t = 10_000)]
    batch_size: usize,
    /// Passes over the rows.
    #[arg(long, default_value_t = 2)]
    epochs: usize,
    /// Workers of the last way.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Train the network instead of asking it.
    #[arg(long)]
    train: bool,
    /// Make the changes that the reports propose, and compare with what they predicted.
    #[arg(long)]
    advise: bool,
    /// Print the reports, too.
    #[arg(long)]
    report: bool,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Directory for the traces.
    #[arg(long, default_value = "target/inmemory_mlp")]
    out: PathBuf,
}

/// What is done with a batch.
enum Work {
    Infer(Mlp),
    Train(Option<Trainer>),
}

impl Work {
    fn new(args: &Args) -> Self {
        match args.train {
            true => Self::Train(Some(Trainer::new(&args.device.device().autodiff()))),
            false => Self::Infer(Mlp::new(&args.device.device())),
        }
    }

    fn step(&mut self, batch: Batch) {
        match self {
            Self::Infer(model) => {
                let _forward = instrument::phase("forward"); // gpustall
                model.forward(batch.rows);
            }
            Self::Train(trainer) => *trainer = trainer.take().map(|trainer| trainer.step(batch)),
        }
    }
}

/// The rows by direct indexing; returns the steps.
fn direct(args: &Args, rows: &Rows) -> usize {
    let (mut work, device) = (Work::new(args), args.device.device());
    let mut steps = 0;
    for _ in 0..args.epochs {
        for start in (0..args.rows).step_by(args.batch_size) {
            let _step = instrument::step("direct"); // gpustall
            let end = args.rows.min(start + args.batch_size);
            work.step(rows.slice(start..end, &device));
            steps += 1;
        }
    }
    steps
}

/// A shuffled loader; returns the steps.
fn loaded(args: &Args, rows: &Rows, workers: usize) -> anyhow::Result<usize> {
    let mut work = Work::new(args);
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch_size)
        .shuffle(7)
        .num_workers(workers)
        .set_device(args.device.device());
    let loader = instrument::loader("train", builder.build(instrument::dataset(rows.clone()))); // gpustall
    let mut steps = 0;
    for _ in 0..args.epochs {
        for batch in loader.iter() {
            work.step(batch?);
            steps += 1;
        }
    }
    Ok(steps)
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(
        args.rows > 0 && args.batch_size > 0 && args.workers > 0,
        "--rows, --batch-size and --workers must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;
    let rows = Rows::generate(args.rows);
    println!(
        "{} rows x {FEATURES} floats, batch {}, {} epochs, {} CPUs, {}\n",
        args.rows,
        args.batch_size,
        args.epochs,
        std::thread::available_parallelism()?,
        if args.train { "training" } else { "inference" },
    );
    let device = args.device.device();
    // Kernels are compiled and tuned before anything is measured, in a trace of its own.
    Way::run("warm-up", &args.out, &device, || {
        Work::new(&args).step(rows.slice(0..args.rows.min(args.batch_size), &device));
        Ok(1)
    })?;

    let run = |name: &str, workers: Option<usize>| {
        let way = Way::run(name, &args.out, &device, || match workers {
            None => Ok(direct(&args, &rows)),
            Some(workers) => loaded(&args, &rows, workers),
        });
        if let (true, Ok(way)) = (args.report, &way) {
            println!("{}\n", way.summary);
        }
        way
    };
    let of_workers = |workers: usize| format!("loader-{workers}-workers");
    let mut ways = vec![
        run("direct-indexing", None)?,
        run("loader-in-process", Some(0))?,
        run(&of_workers(args.workers), Some(args.workers))?,
    ];
    println!("{}", Table(&ways));
    if !args.advise {
        return Ok(());
    }

    println!("{HEADING}");
    for before in 1..3 {
        let report = ways[before].report();
        if let Some(prediction) = report.and_then(Prediction::without_waits) {
            let (before, after) = (&ways[before], &ways[0]);
            println!("{}", Fix::new(prediction, before, after));
        }
        if let Some((workers, prediction)) = report.and_then(Prediction::of_workers) {
            let name = of_workers(workers);
            let known = ways.iter().position(|way| way.name == name);
            if known.is_none() {
                ways.push(run(&name, Some(workers))?);
            }
            let after = &ways[known.unwrap_or(ways.len() - 1)];
            println!("{}", Fix::of_workers(prediction, &ways[before], after));
        }
    }
    Ok(())
}
