//! One small model, trained on the same rows in memory three ways: by direct indexing, through a
//! shuffled loader in process, and through a shuffled loader with four workers.
//!
//! ```text
//! cargo run --release --example dataloader_starvation            # a laptop's size
//! cargo run --release -p gpustall-examples --features cuda --example dataloader_starvation -- --device cuda
//! ```
//!
//! The loops here, and the model, the data set and the batcher in `src`, are an ordinary Burn program.
//! The gpustall lines in them are marked `// gpustall`. `inmemory_mlp` does the same at the size of a
//! GPU, and checks what the reports predict.

use burn::data::dataloader::DataLoaderBuilder;
use burn::prelude::*;
use clap::Parser;
use gpustall::instrument; // gpustall
use gpustall_examples::device::On;
use gpustall_examples::mlp::Trainer;
use gpustall_examples::rows::{FEATURES, RowBatcher, Rows};
use gpustall_examples::ways::{Table, Way};
use std::path::PathBuf;

/// Trains a two-layer MLP on rows in memory, three ways, and traces each.
#[derive(Parser)]
struct Args {
    /// Rows of 100 floats.
    #[arg(long, default_value_t = 400_000)]
    rows: usize,
    /// Rows in one batch.
    #[arg(long, default_value_t = 20_000)]
    batch: usize,
    /// Passes over the rows.
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Workers of the third way.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Directory for the traces.
    #[arg(long, default_value = "target/dataloader_starvation")]
    out: PathBuf,
}

/// Batches cut out of the rows, the same in each epoch.
fn train_direct(args: &Args, rows: &Rows, device: &Device) -> anyhow::Result<usize> {
    let mut trainer = Trainer::new(device);
    let mut steps = 0;
    for _ in 0..args.epochs {
        for start in (0..args.rows).step_by(args.batch) {
            let _step = instrument::step("direct"); // gpustall
            let end = args.rows.min(start + args.batch);
            trainer = trainer.step(rows.slice(start..end, &device.clone().inner()));
            steps += 1;
        }
    }
    Ok(steps)
}

/// A shuffled loader.
fn train_loaded(
    args: &Args,
    rows: &Rows,
    device: &Device,
    workers: usize,
) -> anyhow::Result<usize> {
    let mut trainer = Trainer::new(device);
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch)
        .shuffle(7)
        .num_workers(workers)
        .set_device(device.clone().inner());
    let loader = instrument::loader("train", builder.build(instrument::dataset(rows.clone()))); // gpustall
    let mut steps = 0;
    for _ in 0..args.epochs {
        for batch in loader.iter() {
            trainer = trainer.step(batch?);
            steps += 1;
        }
    }
    Ok(steps)
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    anyhow::ensure!(
        args.rows > 0 && args.batch > 0,
        "--rows and --batch must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;
    let device = args.device.device().autodiff();
    let rows = Rows::generate(args.rows);
    println!(
        "{} rows x {FEATURES} floats, batch {}, {} epochs, {} CPUs\n",
        args.rows,
        args.batch,
        args.epochs,
        std::thread::available_parallelism()?
    );

    // Each in a session of its own.
    let ways = [
        Way::run("direct-indexing", &args.out, &device, || {
            train_direct(&args, &rows, &device)
        })?,
        Way::run("loader-in-process", &args.out, &device, || {
            train_loaded(&args, &rows, &device, 0)
        })?,
        Way::run(
            &format!("loader-{}-workers", args.workers),
            &args.out,
            &device,
            || train_loaded(&args, &rows, &device, args.workers),
        )?,
    ];
    println!("{}", Table(&ways));
    println!(
        "Show a trace in Perfetto, or print its report: cargo run --release -p gpustall-cli -- open (or report) FILE"
    );
    Ok(())
}
