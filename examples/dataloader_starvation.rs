//! One small model, trained on the same rows in memory three ways: by direct indexing, through a
//! shuffled loader in process, and through a shuffled loader with four workers.
//!
//! ```text
//! cargo run --release --example dataloader_starvation            # a laptop's size
//! cargo run --release --example dataloader_starvation -- --rows 7000000 --batch 1000000
//! cargo run --release -p gpustall-examples --features cuda --example dataloader_starvation -- --device cuda
//! ```
//!
//! The model, the data set, the batcher and the loops are an ordinary Burn program. The gpustall
//! lines in them are marked `// gpustall`.

use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::{Dataset, DatasetError};
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::prelude::*;
use burn::tensor::Distribution;
use clap::Parser;
use gpustall::{Summary, instrument}; // gpustall
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const FEATURES: usize = 100;

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

#[derive(Clone, Copy, clap::ValueEnum)]
enum On {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda,
}

impl On {
    fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::cuda(0),
        }
    }
}

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    activation: Relu,
    output: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(FEATURES, 32).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(32, 1).init(device),
        }
    }

    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.output
            .forward(self.activation.forward(self.hidden.forward(rows)))
    }
}

/// The rows, in memory.
#[derive(Clone)]
struct Rows {
    features: Arc<Vec<f32>>,
    targets: Arc<Vec<f32>>,
}

#[derive(Clone, Debug)]
struct Row {
    features: [f32; FEATURES],
    target: f32,
}

impl Rows {
    fn generate(count: usize) -> Self {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let features: Vec<f32> = (0..count * FEATURES).map(|_| random()).collect();
        let targets = features
            .chunks(FEATURES)
            .map(|row| row.iter().sum())
            .collect();
        Self {
            features: Arc::new(features),
            targets: Arc::new(targets),
        }
    }
}

impl Dataset<Row> for Rows {
    fn get(&self, index: usize) -> Result<Row, DatasetError> {
        let mut features = [0.0; FEATURES];
        features.copy_from_slice(&self.features[index * FEATURES..][..FEATURES]);
        Ok(Row {
            features,
            target: self.targets[index],
        })
    }

    fn len(&self) -> usize {
        self.targets.len()
    }
}

#[derive(Clone, Debug)]
struct Batch {
    rows: Tensor<2>,
    targets: Tensor<2>,
}

/// Puts the rows one behind the other and makes one tensor of them all: a tensor for each row would
/// be a million copies to a GPU.
#[derive(Clone)]
struct RowBatcher;

impl Batcher<Row, Batch> for RowBatcher {
    fn batch(&self, items: Vec<Row>, device: &Device) -> Batch {
        let mut features = Vec::with_capacity(items.len() * FEATURES);
        for item in &items {
            features.extend_from_slice(&item.features);
        }
        let targets: Vec<f32> = items.iter().map(|item| item.target).collect();
        let tensor = |values, width| {
            Tensor::from_data(TensorData::new(values, [items.len(), width]), device)
        };
        Batch {
            rows: tensor(features, FEATURES),
            targets: tensor(targets, 1),
        }
    }
}

struct Trainer {
    model: Mlp,
    optimizer: ModuleOptimizer,
}

impl Trainer {
    fn new(device: &Device) -> Self {
        Self {
            model: Mlp::new(device),
            optimizer: SgdConfig::new().init(),
        }
    }

    fn step(mut self, batch: Batch) -> Self {
        let forward = instrument::phase("forward"); // gpustall
        let output = self.model.forward(batch.rows.autodiff());
        let loss = (output - batch.targets.autodiff()).powf_scalar(2.0).mean();
        drop(forward);
        let backward = instrument::phase("backward"); // gpustall
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        drop(backward);
        let _optimizer = instrument::phase("optimizer"); // gpustall
        self.model = self.optimizer.step(0.01, self.model, gradients);
        self
    }
}

/// The rows as one tensor, indexed in a shuffled order.
fn train_direct(args: &Args, features: &Tensor<2>, targets: &Tensor<2>, device: &Device) {
    let mut trainer = Trainer::new(device);
    let count = targets.dims()[0];
    for _ in 0..args.epochs {
        let order =
            Tensor::<1>::random([count], Distribution::Default, &features.device()).argsort(0);
        for start in (0..count).step_by(args.batch) {
            let _step = instrument::step("direct"); // gpustall
            let end = count.min(start + args.batch);
            let chosen = order.clone().slice(start..end);
            trainer = trainer.step(Batch {
                rows: features.clone().select(0, chosen.clone()),
                targets: targets.clone().select(0, chosen),
            });
        }
    }
}

/// A shuffled loader.
fn train_loaded(args: &Args, rows: &Rows, device: &Device, workers: usize) -> anyhow::Result<()> {
    let mut trainer = Trainer::new(device);
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch)
        .shuffle(7)
        .num_workers(workers)
        .set_device(device.clone().inner());
    let loader = instrument::loader("train", builder.build(instrument::dataset(rows.clone()))); // gpustall
    for _ in 0..args.epochs {
        for batch in loader.iter() {
            trainer = trainer.step(batch?);
        }
    }
    Ok(())
}

/// Runs `train` in a session of its own; returns its seconds and what gpustall found.
fn traced(
    args: &Args,
    name: &str,
    device: &Device,
    train: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, Summary)> {
    let output = args.out.join(format!("{name}.trace.json.gz"));
    let session = gpustall::session(name).output(output).start()?; // gpustall
    let start = Instant::now();
    train()?;
    device.sync()?; // a GPU is behind its host
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, session.finish()?)) // gpustall
}

/// Share of the time that the trainer waited for data.
fn data_wait(report: &gpustall::Report) -> f64 {
    let causes = report.breakdown.iter();
    causes.fold(0.0, |sum, (cause, share)| match cause.starts_with("data") {
        true => sum + share,
        false => sum,
    })
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

    let data = |values: &[f32], width| TensorData::new(values.to_vec(), [args.rows, width]);
    let data_device = device.clone().inner();
    let features = Tensor::<2>::from_data(data(&rows.features, FEATURES), &data_device);
    let targets = Tensor::<2>::from_data(data(&rows.targets, 1), &data_device);

    let in_process = "loader-in-process";
    let with_workers = format!("loader-{}-workers", args.workers);
    let ways = [
        (
            "direct-indexing",
            traced(&args, "direct-indexing", &device, || {
                train_direct(&args, &features, &targets, &device);
                Ok(())
            })?,
        ),
        (
            in_process,
            traced(&args, in_process, &device, || {
                train_loaded(&args, &rows, &device, 0)
            })?,
        ),
        (
            with_workers.as_str(),
            traced(&args, &with_workers, &device, || {
                train_loaded(&args, &rows, &device, args.workers)
            })?,
        ),
    ];

    println!(
        "{:<18} {:>8} {:>10} {:>10}",
        "way", "seconds", "vs direct", "data wait"
    );
    let direct = ways[0].1.0;
    for (name, (seconds, summary)) in &ways {
        let wait = summary.report().map_or(0.0, data_wait);
        println!(
            "{name:<18} {seconds:>8.2} {:>9.1}x {:>8.0} %",
            seconds / direct,
            wait * 100.0
        );
    }
    println!();
    for (_, (_, summary)) in &ways {
        if let (Some(report), Some(trace)) = (summary.report(), summary.trace()) {
            println!("{}\n  {}", trace.display(), report.verdict);
        }
    }
    println!(
        "\nOpen a trace at https://ui.perfetto.dev, or print its report: cargo run --release -p gpustall-cli -- report FILE"
    );
    Ok(())
}
