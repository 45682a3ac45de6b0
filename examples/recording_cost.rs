//! What recording costs a training loop: the same steps without gpustall's wrappers, with them
//! and no session, and with them while a session records, taking turns.
//!
//! ```text
//! cargo run --release --example recording_cost
//! ```
//!
//! A turn of each takes a fraction of a second, so that whatever else the machine does hits all
//! three alike. What is compared is the median over the turns of the ratio within one turn.

use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::{Dataset, DatasetError};
use burn::prelude::*;
use clap::Parser;
use gpustall::instrument;
use std::sync::Arc;
use std::time::Instant;

/// Measures what recording costs a training loop.
#[derive(Parser)]
struct Args {
    /// Turns.
    #[arg(long, default_value_t = 60)]
    turns: usize,
    /// Steps of each way in one turn.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Side of the square matrices that a step multiplies: sets how long a step is.
    #[arg(long, default_value_t = 256)]
    side: usize,
    /// Items in a batch.
    #[arg(long, default_value_t = 64)]
    batch: usize,
}

#[derive(Clone)]
struct Numbers(usize);

impl Dataset<f32> for Numbers {
    fn get(&self, index: usize) -> Result<f32, DatasetError> {
        Ok(index as f32)
    }

    fn len(&self) -> usize {
        self.0
    }
}

#[derive(Clone)]
struct Sum;

impl Batcher<f32, f32> for Sum {
    fn batch(&self, items: Vec<f32>, _: &Device) -> f32 {
        items.iter().sum()
    }
}

/// One pass over the loader, each step marking its phases; returns the seconds a step took.
fn train(loader: &dyn DataLoader<f32>, weights: &Tensor<2>) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut steps = 0;
    for batch in loader.iter() {
        let forward = instrument::phase("forward");
        let output = weights.clone().matmul(weights.clone()).mul_scalar(batch?);
        drop(forward);
        let _backward = instrument::phase("backward");
        std::hint::black_box(output.into_data());
        steps += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(steps))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    anyhow::ensure!(
        args.turns > 0 && args.steps > 0 && args.batch > 0,
        "counts must be at least 1"
    );
    let device = Device::flex();
    let weights = Tensor::<2>::random([args.side; 2], burn::tensor::Distribution::Default, &device);
    let data = Numbers(args.steps * args.batch);
    let plain: Arc<dyn DataLoader<f32>> = DataLoaderBuilder::new(Sum)
        .batch_size(args.batch)
        .shuffle(1)
        .build(data.clone());
    let wrapped = instrument::loader(
        "train",
        DataLoaderBuilder::new(instrument::batcher(Sum))
            .batch_size(args.batch)
            .shuffle(1)
            .build(instrument::dataset(data)),
    );
    let directory = std::env::temp_dir().join(format!("recording-cost-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;

    let recorded = || -> anyhow::Result<f64> {
        let output = directory.join("cost.trace.json.gz");
        let session = gpustall::session("cost").output(output).start()?;
        let seconds = train(&*wrapped, &weights)?;
        session.finish()?;
        Ok(seconds)
    };
    let (mut steps, mut idle, mut recording) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=args.turns {
        let mut seconds = [0.0; 3];
        for place in 0..3 {
            // Each way comes first, second and last equally often.
            let way = (turn + place) % 3;
            seconds[way] = match way {
                0 => train(&*plain, &weights)?,
                1 => train(&*wrapped, &weights)?,
                _ => recorded()?,
            };
        }
        // The first turn warms up.
        if turn > 0 {
            steps.push(seconds[0]);
            idle.push(seconds[1] / seconds[0]);
            recording.push(seconds[2] / seconds[0]);
        }
    }
    std::fs::remove_dir_all(&directory)?;
    println!(
        "step without gpustall          {:>8.1} us",
        median(steps) * 1e6
    );
    println!("wrapped, no session            {:>8.4} x", median(idle));
    println!(
        "wrapped, recording             {:>8.4} x",
        median(recording)
    );
    Ok(())
}
