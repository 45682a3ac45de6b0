//! The training loop of a plant.

use super::outside::{self, Beside, MemoryLimit};
use super::store::{BATCH, Items, ToBatch};
use super::{Plant, Planted, truth, work};
use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder};
use gpustall::instrument::{self, LoaderKind};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the memory cgroup of [`Planted::MemoryPressure`].
const LITTLE_MEMORY: u64 = 64 << 20;
/// Bytes of the weights.
const WEIGHTS: usize = 4 << 20;

/// What stands beside the training while it runs.
#[derive(Default)]
struct Surroundings {
    spinner: Option<Beside>,
    metrics: Option<SyncSender<usize>>,
    holder: Option<Arc<AtomicBool>>,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        if let Some(stop) = &self.holder {
            stop.store(true, Relaxed);
        }
    }
}

/// Trains; `planted` is false for the run to compare with. Scratch files go to `directory`.
pub fn train(
    plant: &Plant,
    planted: bool,
    directory: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    // Memory counts where it is first touched: the limit comes before the items.
    let limited = planted && plant.planted == Planted::MemoryPressure;
    let _limit = limited
        .then(|| MemoryLimit::enter(LITTLE_MEMORY))
        .transpose()?;
    let items = Items::of(plant, directory)?;
    let beside = match planted {
        true => plant_beside(plant, &items)?,
        false => Surroundings::default(),
    };
    let session = gpustall::session(plant.name)
        .output(directory.join(format!("{}.trace.json.gz", plant.name)))
        .start()?;
    if [Planted::CrowdedWorkers, Planted::Spinner].contains(&plant.planted) {
        outside::pin(1);
    }
    let train = loader("train", LoaderKind::Train, plant, items.clone());
    let valid = (plant.planted == Planted::NothingWithValidation)
        .then(|| loader("valid", LoaderKind::Valid, plant, items));
    let begun = Instant::now();
    for _ in 0..plant.epochs {
        epoch(plant, &*train, &beside, directory)?;
        for batch in valid.iter().flat_map(|valid| valid.iter()) {
            work::multiply(plant.step / 4 * u32::from(!batch?.is_empty()));
        }
    }
    truth::add_trained(begun.elapsed());
    session.finish()?;
    Ok(())
}

fn plant_beside(plant: &Plant, items: &Items) -> std::io::Result<Surroundings> {
    let mut beside = Surroundings::default();
    match plant.planted {
        Planted::Spinner => beside.spinner = Some(Beside::spinner(1)?),
        Planted::Metrics => beside.metrics = Some(slow_metrics()),
        Planted::Lock => beside.holder = items.lock().map(hold),
        _ => {}
    }
    Ok(beside)
}

fn loader(
    name: &str,
    kind: LoaderKind,
    plant: &Plant,
    items: Items,
) -> Arc<dyn DataLoader<Vec<usize>>> {
    let inner = DataLoaderBuilder::new(instrument::batcher(ToBatch(plant.batch)))
        .batch_size(BATCH)
        .num_workers(plant.workers)
        .build(instrument::dataset(items));
    instrument::loader_of_kind(kind, name, inner)
}

fn epoch(
    plant: &Plant,
    loader: &dyn DataLoader<Vec<usize>>,
    beside: &Surroundings,
    directory: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let mut batches = loader.iter();
    let mut waited = begun.elapsed();
    for step in 0.. {
        let begun = Instant::now();
        let batch = batches.next();
        waited += begun.elapsed();
        let Some(batch) = batch else { break };
        // For a slow start only the first batch is the plant's, for the others all but it.
        if data_is_planted(plant, step) {
            truth::add_lost(waited);
        }
        waited = Duration::ZERO;
        take_step(plant, step, batch?.len(), beside, directory)?;
    }
    Ok(())
}

fn data_is_planted(plant: &Plant, step: usize) -> bool {
    match plant.cause {
        Some("data.startup") => step == 0,
        Some(cause) => cause.starts_with("data.") && (step > 0 || plant.workers == 0),
        None => false,
    }
}

fn take_step(
    plant: &Plant,
    step: usize,
    items: usize,
    beside: &Surroundings,
    directory: &Path,
) -> std::io::Result<()> {
    if plant.planted == Planted::NothingWithoutPhases {
        work::multiply(plant.step);
        return Ok(());
    }
    {
        let _forward = instrument::phase("forward");
        work::multiply(plant.step / 3);
    }
    if plant.planted == Planted::Unmarked {
        truth::lost(|| work::spin(Duration::from_millis(4)));
    }
    {
        let _backward = instrument::phase("backward");
        work::multiply(plant.step / 2);
    }
    {
        let _optimizer = instrument::phase("optimizer");
        work::multiply(plant.step / 6);
    }
    if let Some(metrics) = &beside.metrics {
        let _push = instrument::phase("metrics.push");
        truth::lost(|| metrics.send(items)).map_err(std::io::Error::other)?;
    }
    if plant.planted == Planted::Checkpoint && step % 5 == 4 {
        let _checkpoint = instrument::phase("checkpoint");
        truth::lost(|| save(&directory.join("weights")))?;
    }
    Ok(())
}

/// A thread that takes one item and is busy with it for a while.
fn slow_metrics() -> SyncSender<usize> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        for _ in receiver {
            thread::sleep(Duration::from_millis(16));
        }
    });
    sender
}

/// A thread that holds the lock nearly all of the time.
fn hold(lock: Arc<Mutex<()>>) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let name = thread::Builder::new().name("augment-cache".to_owned());
    let _ = name.spawn(move || {
        while !stopped.load(Relaxed) {
            let guard = lock.lock();
            thread::sleep(Duration::from_millis(8));
            drop(guard);
            thread::sleep(Duration::from_millis(1));
        }
    });
    stop
}

/// Writes the weights and waits until they are on the disk.
fn save(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![3; WEIGHTS])?;
    work::spin(Duration::from_millis(20));
    file.sync_all()
}
