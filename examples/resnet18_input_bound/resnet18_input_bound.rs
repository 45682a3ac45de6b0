//! ResNet-18 on JPEG images that are decoded while it trains: `num_workers = 0`, as loaders have it by
//! default, and then as many workers as gpustall's report advises.
//!
//! ```text
//! cargo run --release --example resnet18_input_bound -- --advise             # a laptop's size
//! cargo run --release -p gpustall-resnet18 --features cuda --example resnet18_input_bound -- --device cuda --advise
//! cargo run --release --example resnet18_input_bound -- --loop learner --num-workers 2
//! ```
//!
//! The images, the model and both loops are in `src`; the gpustall lines in them are marked
//! `// gpustall`. The first steps compile kernels: they run before anything is recorded.

use clap::Parser;
use gpustall_examples::device::On;
use gpustall_examples::ways::Way;
use gpustall_resnet18::advise::Advised;
use gpustall_resnet18::{Jpegs, Loop, Training};
use std::path::PathBuf;
use std::time::Instant;

/// Trains a ResNet-18 on JPEG images, and traces it.
#[derive(Parser)]
struct Args {
    /// Run without workers, then with as many as the report advises.
    #[arg(long, conflicts_with = "num_workers")]
    advise: bool,
    /// Workers that decode images; 0 decodes in the training loop.
    #[arg(long, default_value_t = 0)]
    num_workers: usize,
    /// Who runs the steps; several, with a comma between, run one after the other.
    #[arg(
        long = "loop",
        value_enum,
        default_value = "by-hand",
        value_delimiter = ','
    )]
    by: Vec<Loop>,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Steps of each run [default: 40 on a CPU, 60 on a GPU].
    #[arg(long)]
    steps: Option<usize>,
    /// Images in a batch [default: 16, 64].
    #[arg(long)]
    batch_size: Option<usize>,
    /// Pixels a side of the images that the model sees [default: 32, 224].
    #[arg(long)]
    image_size: Option<usize>,
    /// Pixels of the width of the images that are decoded; the height is three quarters of it
    /// [default: 320, 1024].
    #[arg(long)]
    jpeg_width: Option<u16>,
    /// Channels of the model behind the stem [default: 16, 64].
    #[arg(long)]
    width: Option<usize>,
    /// Different images; the data set has them in turn.
    #[arg(long, default_value_t = 64)]
    images: usize,
    /// Steps before anything is recorded, on one batch: kernels are compiled and tuned in them. As many
    /// again are timed.
    #[arg(long, default_value_t = 4)]
    warm_up: usize,
    /// Directory for the traces.
    #[arg(long, default_value = "target/resnet18_input_bound")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let on_gpu = args.device != On::Cpu;
    let or = |given: Option<usize>, cpu, gpu| given.unwrap_or(if on_gpu { gpu } else { cpu });
    let steps = or(args.steps, 40, 60);
    let batch = or(args.batch_size, 16, 64);
    let width = or(args.width, 16, 64);
    let side = args.image_size.unwrap_or(if on_gpu { 224 } else { 32 });
    let jpeg = args.jpeg_width.unwrap_or(if on_gpu { 1024 } else { 320 });
    anyhow::ensure!(
        steps > 0 && args.warm_up > 0 && batch > 0 && width > 0 && side > 0 && jpeg > 0,
        "steps and sizes must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;

    let height = (jpeg / 4 * 3).max(1);
    let data = Jpegs::generate(args.images, (jpeg, height), side, steps * batch)?;
    println!(
        "JPEGs of {jpeg} x {height} pixels, {} KB, seen as {side} x {side}; batch {batch}, {steps} steps, {} CPUs",
        data.mean_bytes() / 1000,
        std::thread::available_parallelism()?
    );
    let training = Training {
        device: args.device.device().autodiff(),
        width,
        data,
        side,
        batch,
    };
    let start = Instant::now();
    let alone = training.warm_up(args.warm_up)?;
    println!(
        "warm-up {:.1} s, not recorded; with one batch again and again, a step takes {:.2} ms\n",
        start.elapsed().as_secs_f64(),
        alone * 1e3
    );
    for &by in &args.by {
        compare(&args, &training, by)?;
    }
    Ok(())
}

fn compare(args: &Args, training: &Training, by: Loop) -> anyhow::Result<()> {
    let of = match by {
        Loop::ByHand => "by-hand",
        Loop::Learner => "learner",
    };
    let run = |workers| {
        let name = format!("{of}-{workers}-workers");
        let directory = args.out.join(of);
        Way::run(&name, &args.out, &training.device, || {
            training.run(by, workers, &directory)
        })
    };
    if !args.advise {
        println!("{}", run(args.num_workers)?.summary);
        return Ok(());
    }
    match Advised::run(run)? {
        Ok(advised) => println!("{of}\n{advised}\n"),
        Err(before) => println!("{}\nNo number of workers is advised.", before.summary),
    }
    Ok(())
}
