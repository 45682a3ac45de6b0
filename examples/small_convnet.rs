//! A small convolutional network on one batch that is on the device already: no data is waited for, so
//! what a step takes beyond its kernels is launching, compiling, allocating and waiting.
//!
//! ```text
//! cargo run --release -p gpustall-examples --features cuda --example small_convnet -- --device cuda
//! gpustall run -- python examples/pytorch/small_convnet.py     # the same network in PyTorch
//! ```
//!
//! The first steps, in which kernels are compiled, are a recording of their own. `--advise` runs once
//! more with the loss read at the end only, and compares with what was predicted of that.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::Distribution;
use clap::Parser;
use gpustall::instrument; // gpustall
use gpustall_examples::device::On;
use gpustall_examples::fix::{Fix, HEADING, Prediction};
use gpustall_examples::ways::Way;
use std::path::PathBuf;

const CLASSES: usize = 10;

/// Trains a small convolutional network on one batch, and says what a step consists of.
#[derive(Parser)]
struct Args {
    /// Images of 3 x 32 x 32 in the batch.
    #[arg(long, default_value_t = 128)]
    batch_size: usize,
    /// Channels of the first of three convolutions; the next ones have twice and four times as many.
    #[arg(long, default_value_t = 32)]
    width: usize,
    /// Steps that are recorded after the first ones.
    #[arg(long, default_value_t = 50)]
    steps: usize,
    /// Steps between two readings of the loss.
    #[arg(long, default_value_t = 1)]
    read_every: usize,
    /// Run once more with the loss read at the end, and compare with the prediction.
    #[arg(long)]
    advise: bool,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Directory for the traces.
    #[arg(long, default_value = "target/small_convnet")]
    out: PathBuf,
}

#[derive(Module, Debug)]
struct Block {
    convolution: Conv2d,
    norm: BatchNorm,
    activation: Relu,
    pool: MaxPool2d,
}

impl Block {
    fn new(channels: [usize; 2], device: &Device) -> Self {
        let same = PaddingConfig2d::Explicit(1, 1, 1, 1);
        Self {
            convolution: Conv2dConfig::new(channels, [3, 3])
                .with_padding(same)
                .init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
            activation: Relu::new(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<4> {
        let normed = self.norm.forward(self.convolution.forward(images));
        self.pool.forward(self.activation.forward(normed))
    }
}

#[derive(Module, Debug)]
struct Convnet {
    blocks: Vec<Block>,
    average: AdaptiveAvgPool2d,
    output: Linear,
}

impl Convnet {
    fn new(width: usize, device: &Device) -> Self {
        let channels = [3, width, 2 * width, 4 * width];
        let blocks = channels
            .windows(2)
            .map(|of| Block::new([of[0], of[1]], device));
        Self {
            blocks: blocks.collect(),
            average: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            output: LinearConfig::new(4 * width, CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let features = self.blocks.iter().fold(images, |x, block| block.forward(x));
        self.output
            .forward(self.average.forward(features).flatten(1, 3))
    }
}

struct Training {
    model: Convnet,
    optimizer: ModuleOptimizer,
    images: Tensor<4>,
    labels: Tensor<1, Int>,
    device: Device,
}

impl Training {
    fn new(args: &Args) -> Self {
        let device = args.device.device().autodiff();
        let labels: Vec<i64> = (0..args.batch_size).map(|i| (i % CLASSES) as i64).collect();
        Self {
            model: Convnet::new(args.width, &device),
            optimizer: AdamConfig::new().init(),
            images: Tensor::random([args.batch_size, 3, 32, 32], Distribution::Default, &device),
            labels: Tensor::from_data(labels.as_slice(), &device),
            device,
        }
    }

    /// Steps, the loss read after every so many of them; the last loss.
    fn steps(mut self, steps: usize, read_every: usize) -> (Self, f32) {
        let mut last = f32::NAN;
        for step in 1..=steps {
            let _step = instrument::step("train"); // gpustall
            let forward = instrument::phase("forward"); // gpustall
            let output = self.model.forward(self.images.clone());
            let loss = CrossEntropyLossConfig::new().init(&self.device);
            let loss = loss.forward(output, self.labels.clone());
            drop(forward);
            let backward = instrument::phase("backward"); // gpustall
            let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
            drop(backward);
            let optimizer = instrument::phase("optimizer"); // gpustall
            self.model = self.optimizer.step(1e-3, self.model, gradients);
            drop(optimizer);
            if step % read_every == 0 || step == steps {
                let _reading = instrument::phase("read the loss"); // gpustall
                last = loss.into_scalar();
            }
        }
        (self, last)
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    anyhow::ensure!(
        args.batch_size > 0 && args.width > 0 && args.steps > 0 && args.read_every > 0,
        "--batch-size, --width, --steps and --read-every must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;
    // Made in the first session: what making it costs belongs to the first steps.
    let mut training: Option<Training> = None;
    let mut record = |name: &str, steps: usize, read_every: usize| {
        let device = args.device.device();
        let way = Way::run(name, &args.out, &device, || {
            let training_now = training.take().unwrap_or_else(|| Training::new(&args));
            let (after, loss) = training_now.steps(steps, read_every);
            anyhow::ensure!(loss.is_finite(), "the loss is {loss}");
            training = Some(after);
            Ok(steps)
        })?;
        println!("{}: {:.2} ms a step", way.name, way.step_ns() / 1e6);
        if let Some(report) = way.report() {
            let mut causes: Vec<_> = report.breakdown.iter().collect();
            causes.sort_by(|a, b| b.1.total_cmp(a.1));
            for (cause, share) in causes.iter().filter(|(_, share)| **share >= 0.005) {
                println!("  {cause:<20} {:>5.1} %", *share * 100.0);
            }
            println!("  {}\n", report.verdict);
        }
        anyhow::Ok(way)
    };
    record("convnet-first-steps", 5, 1)?;
    let before = record("convnet", args.steps, args.read_every)?;
    if args.advise {
        let after = record("convnet-loss-at-end", args.steps, args.steps)?;
        let reading = |report| Prediction::of_causes(report, &["sync.readback"]);
        match before.report().and_then(reading) {
            Some(prediction) => println!("{HEADING}\n{}", Fix::new(prediction, &before, &after)),
            None => println!("no finding says that reading the loss costs anything"),
        }
    }
    Ok(())
}
