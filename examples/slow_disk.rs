//! A data set whose samples lie here and there on a disk, read past the page cache, with one worker;
//! and then with as many as the report says, or with numbers of workers that are given.
//!
//! ```text
//! cargo run --release --example slow_disk
//! cargo run --release --example slow_disk -- --directory /mnt/data --report
//! cargo run --release --example slow_disk -- --then 2,4,8 --kib 256 --steps 20
//! ```

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::{Dataset, DatasetError};
use clap::Parser;
use gpustall::instrument; // gpustall
use gpustall_examples::device::On;
use gpustall_examples::fix::{Fix, HEADING, Prediction};
use gpustall_examples::mlp::{Trainer, warm_up};
use gpustall_examples::rows::{FEATURES, Row, RowBatcher};
use gpustall_examples::ways::Way;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sample takes a multiple of this on the disk, and lies at one.
const BLOCK: usize = 4096;

/// Trains a two-layer MLP on samples from a disk.
#[derive(Parser)]
struct Args {
    /// Workers of the first run.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Workers of the runs after it, instead of what the report says. Each run is compared with what the
    /// reports of those before it predict.
    #[arg(long, value_delimiter = ',')]
    then: Vec<usize>,
    /// KiB that one sample takes on the disk, a multiple of 4: what it reads at once.
    #[arg(long, default_value_t = 4)]
    kib: usize,
    /// Steps of the one epoch.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Samples in one batch.
    #[arg(long, default_value_t = 256)]
    batch_size: usize,
    /// Where the file with the samples is made: a directory on the disk. It is removed at the end.
    #[arg(long, default_value = "target/slow_disk")]
    directory: PathBuf,
    /// Print the reports, too.
    #[arg(long)]
    report: bool,
    /// Where the model runs. A GPU needs the feature `cuda`.
    #[arg(long, value_enum, default_value_t = On::Cpu)]
    device: On,
    /// Directory for the traces.
    #[arg(long, default_value = "target/slow_disk")]
    out: PathBuf,
}

/// A block, where a read past the page cache may put it.
#[derive(Clone)]
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// Samples in a file, each of so many blocks.
#[derive(Clone)]
struct Samples {
    file: Arc<File>,
    count: usize,
    blocks: usize,
}

impl Samples {
    /// Writes `count` samples to `path`, and opens it so that reads go to the disk.
    fn create(path: &Path, count: usize, blocks: usize) -> anyhow::Result<Self> {
        let mut file = File::create(path)?;
        for sample in 0..count {
            let mut sample_bytes = vec![0; blocks * BLOCK];
            for feature in 0..=FEATURES {
                let value = ((sample * 31 + feature * 17) % 101) as f32 / 101.0;
                sample_bytes[feature * 4..][..4].copy_from_slice(&value.to_ne_bytes());
            }
            file.write_all(&sample_bytes)?;
        }
        file.sync_all()?;
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(path);
        let file = file.map_err(|error| {
            anyhow::anyhow!(
                "{}: {error}; choose a --directory on a disk",
                path.display()
            )
        })?;
        Ok(Self {
            file: Arc::new(file),
            count,
            blocks,
        })
    }
}

impl Dataset<Row> for Samples {
    fn get(&self, index: usize) -> Result<Row, DatasetError> {
        let mut blocks = vec![Block([0; BLOCK]); self.blocks];
        let at = (index * self.blocks * BLOCK) as u64;
        let mut into: Vec<IoSliceMut<'_>> = blocks
            .iter_mut()
            .map(|block| IoSliceMut::new(&mut block.0))
            .collect();
        let read = rustix::io::preadv(&self.file, &mut into, at).map_err(DatasetError::new)?;
        if read != self.blocks * BLOCK {
            return Err(DatasetError::new(io::Error::from(ErrorKind::UnexpectedEof)));
        }
        let number = |i: usize| {
            let bytes = &blocks[0].0[i * 4..][..4];
            f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        Ok(Row {
            features: std::array::from_fn(number),
            target: number(FEATURES),
        })
    }

    fn len(&self) -> usize {
        self.count
    }
}

fn train(args: &Args, samples: &Samples, workers: usize) -> anyhow::Result<usize> {
    let mut trainer = Trainer::new(&args.device.device().autodiff());
    let builder = DataLoaderBuilder::new(instrument::batcher(RowBatcher)) // gpustall
        .batch_size(args.batch_size)
        .shuffle(7)
        .num_workers(workers)
        .set_device(args.device.device());
    let data = instrument::dataset(samples.clone()); // gpustall
    let loader = instrument::loader("train", builder.build(data)); // gpustall
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
        args.workers > 0 && args.steps > 0 && args.batch_size > 0,
        "--workers, --steps and --batch-size must be at least 1"
    );
    anyhow::ensure!(
        args.kib > 0 && args.kib % 4 == 0 && args.kib <= 4096 && !args.then.contains(&0),
        "--kib must be a multiple of 4, at most 4096; the numbers of --then must be at least 1"
    );
    std::fs::create_dir_all(&args.out)?;
    std::fs::create_dir_all(&args.directory)?;
    let path = args
        .directory
        .join(format!("samples-{}", std::process::id()));
    let done = run(&args, &path);
    std::fs::remove_file(&path)?;
    done
}

fn run(args: &Args, path: &Path) -> anyhow::Result<()> {
    warm_up(args.batch_size, &args.out, &args.device.device())?;
    let samples = Samples::create(path, args.steps * args.batch_size, args.kib * 1024 / BLOCK)?;
    let record = |workers: usize| -> anyhow::Result<Way> {
        let name = format!("workers-{workers}");
        let way = Way::run(&name, &args.out, &args.device.device(), || {
            train(args, &samples, workers)
        })?;
        println!("{name}: {:.2} ms a step", way.step_ns() / 1e6);
        match args.report {
            true => println!("{}\n", way.summary),
            false => println!("  {}", way.report().map_or("", |report| &report.verdict)),
        }
        Ok(way)
    };
    let before = record(args.workers)?;
    if !args.then.is_empty() {
        let mut done = vec![(args.workers, before)];
        for &workers in &args.then {
            done.push((workers, record(workers)?));
        }
        return compare(&done);
    }
    match before.report().and_then(Prediction::of_workers) {
        Some((workers, prediction)) => {
            let after = record(workers)?;
            println!(
                "{HEADING}\n{}",
                Fix::of_workers(prediction, &before, &after)
            );
        }
        None => println!("no finding says that other numbers of workers would do better"),
    }
    Ok(())
}

/// What each run predicts of those after it with more workers, beside what they did.
fn compare(done: &[(usize, Way)]) -> anyhow::Result<()> {
    println!("{HEADING}");
    for (at, (have, before)) in done.iter().enumerate() {
        for (workers, after) in done.iter().skip(at + 1).filter(|(more, _)| more > have) {
            let report = before.report();
            let predicted = report.and_then(|report| Prediction::of_count(report, *workers));
            match predicted {
                Some(prediction) => println!("{}", Fix::of_workers(prediction, before, after)),
                None => println!("{} -> {}: not predicted", before.name, after.name),
            }
        }
    }
    Ok(())
}
