//! For which phase a GPU works: a small network trained with Burn on CUDA, its phases marked.
//!
//! ```text
//! cargo run --release -p gpustall-examples --features cuda --example burn_phases
//! GPUSTALL_CUPTI=/nowhere cargo run --release -p gpustall-examples --features cuda --example burn_phases
//! ```
//!
//! Burn calls the driver on a thread of its own, later than it was asked to, and each device operation
//! is tied to the phase that asked for it nevertheless. The second command does without CUPTI: Burn
//! itself then says from when to when the device had to do with each phase.
//!
//! Prints a row for each phase, and fails where more than one operation in twenty was not tied.

use burn::data::dataloader::DataLoaderBuilder;
use burn::optim::{GradientsParams, SgdConfig};
use burn::prelude::*;
use clap::Parser;
use gpustall::instrument; // gpustall
use gpustall::trace::vocab::{arg, cat};
use gpustall::trace::{Slice, read};
use gpustall_examples::mlp::Mlp;
use gpustall_examples::rows::{RowBatcher, Rows};
use std::path::{Path, PathBuf};

/// Trains a two-layer MLP on a GPU and says how long the device worked for each phase.
#[derive(Parser)]
struct Args {
    /// Steps to take.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Rows in one batch.
    #[arg(long, default_value_t = 4096)]
    batch: usize,
    /// Workers that make batches.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Wait for the device at the end of each phase, and check that what was tied to a phase ran in it.
    #[arg(long)]
    check: bool,
    /// The trace.
    #[arg(long, default_value = "burn_phases.trace.json.gz")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let device = Device::cuda(0).autodiff();
    let rows = Rows::generate(args.steps * args.batch);
    let mut model = Mlp::new(&device);
    let mut optimizer = SgdConfig::new().init();
    // Kernels are compiled when they are first needed.
    for start in 0..3 {
        let batch = rows.slice(start..start + args.batch, &device.clone().inner());
        let output = model.forward(batch.rows.autodiff());
        let loss = (output - batch.targets.autodiff()).powf_scalar(2.0).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.01, model, gradients);
    }
    device.sync()?;

    let session = gpustall::session("burn_phases").output(&args.out).start()?; // gpustall
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch)
        .num_workers(args.workers)
        .set_device(device.clone().inner());
    let loader = instrument::loader("train", builder.build(instrument::dataset(rows))); // gpustall
    let mut last = 0.0;
    let wait = |device: &Device| {
        if args.check {
            // What went wrong is told by the next readback.
            let _ = device.sync();
        }
    };
    for batch in loader.iter() {
        let batch = batch?;
        let loss = instrument::device_phase("forward", &device, || {
            let output = model.forward(batch.rows.autodiff());
            let loss = (output - batch.targets.autodiff()).powf_scalar(2.0).mean();
            wait(&device);
            loss
        });
        let value = loss.clone().inner();
        let gradients = instrument::device_phase("backward", &device, || {
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            wait(&device);
            gradients
        });
        model = instrument::device_phase("optimizer", &device, || {
            let model = optimizer.step(0.01, model, gradients);
            wait(&device);
            model
        });
        let _metrics = instrument::phase("metrics");
        last = value.into_scalar::<f32>();
    }
    device.sync()?;
    let summary = session.finish()?; // gpustall
    println!("loss {last}\n\n{summary}\n");
    let Some(report) = summary.report() else {
        return Ok(());
    };
    println!("phase        count    kernels   copies    device time   window");
    for phase in &report.phases {
        let device = phase.device.unwrap_or_default();
        println!(
            "{:<12} {:>5} {:>10} {:>8} {:>11.3} ms {:>8}",
            phase.name,
            phase.count,
            device.kernels,
            device.copies,
            device.total_ns as f64 / 1e6,
            device
                .window_ns
                .map_or("-".to_owned(), |ns| format!("{:.3} ms", ns as f64 / 1e6)),
        );
    }
    let untied = report.untied.unwrap_or_default();
    let outside = report.outside_phases.unwrap_or_default();
    let several = report.several_phases.unwrap_or_default();
    let tied: u64 = (report.phases.iter().filter_map(|phase| phase.device))
        .map(|device| device.operations())
        .sum();
    let others = [
        ("in no phase", outside),
        ("in several", several),
        ("not tied", untied),
    ];
    for (name, device) in others {
        println!(
            "{name:<12} {:>16} {:>8} {:>11.3} ms",
            device.kernels,
            device.copies,
            device.total_ns as f64 / 1e6
        );
    }
    if args.check {
        check(&args.out)?;
    }
    anyhow::ensure!(
        untied.operations() * 19 <= tied + outside.operations() + several.operations(),
        "operations were not tied to phases"
    );
    Ok(())
}

/// Whether every operation that was tied to a phase ran while that phase went on.
fn check(path: &Path) -> anyhow::Result<()> {
    let trace = read(path)?.trace;
    let phases = trace.slices.iter();
    let phases: Vec<_> = phases
        .filter(|slice| trace.text(slice.cat) == cat::PHASE)
        .collect();
    let tied = |slice: &Slice| trace.arg_str(&slice.args, arg::PHASE).map(str::to_owned);
    let (mut right, mut wrong) = (0, 0);
    for operation in &trace.slices {
        let Some(name) = tied(operation) else {
            continue;
        };
        let inside = phases.iter().any(|phase| {
            trace.text(phase.name) == name
                && phase.span.start <= operation.span.start
                && operation.span.end <= phase.span.end
        });
        right += usize::from(inside);
        wrong += usize::from(!inside);
    }
    println!("{right} operations ran in the phase that they are tied to, {wrong} did not");
    anyhow::ensure!(
        right > 0 && wrong == 0,
        "operations are tied to a wrong phase"
    );
    Ok(())
}
