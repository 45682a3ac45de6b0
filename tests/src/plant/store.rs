//! The data set and the batcher, with what is planted in them.

use super::outside::{self, Beside};
use super::work;
use super::{Plant, Planted};
use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataset::{Dataset, DatasetError};
use burn_core::tensor::Device;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Items in one batch.
pub const BATCH: usize = 4;

/// Bytes of an item that is read from a disk.
const DISK_ITEM: usize = 512 << 10;
/// Bytes that an item maps and touches.
const MAPPED_ITEM: usize = 16 << 20;
/// Bytes of the file that the memory cgroup has no room for, and what of it one item is.
const SHARED_FILE: usize = 128 << 20;
const SHARED_ITEM: usize = 2 << 20;

/// Where items come from.
#[derive(Clone)]
pub struct Items {
    count: usize,
    source: Source,
    /// CPU that the threads which read are kept on.
    cpu: Option<usize>,
}

#[derive(Clone)]
enum Source {
    Memory,
    Remote(
        Arc<Mutex<UnixStream>>,
        #[allow(dead_code, reason = "it lives as long as the stream")] Arc<Beside>,
    ),
    Disk(Arc<File>),
    Mapped,
    Shared(&'static [u8]),
    Locked(Arc<Mutex<()>>),
    Opened(Arc<Mutex<usize>>, usize),
}

impl Items {
    /// The items of a plant; files are made in `directory`.
    pub fn of(plant: &Plant, directory: &Path) -> std::io::Result<Self> {
        let count = plant.steps * BATCH;
        let source = match plant.planted {
            Planted::SlowStore => {
                let (stream, store) = outside::slow_store(Duration::from_millis(2))?;
                Source::Remote(Arc::new(Mutex::new(stream)), Arc::new(store))
            }
            Planted::DiskReads => Source::Disk(Arc::new(disk_file(directory, count)?)),
            Planted::PageFaults => Source::Mapped,
            Planted::MemoryPressure => {
                let file = directory.join("shared");
                File::create(&file)?.set_len(SHARED_FILE as u64)?;
                Source::Shared(map_file(&File::open(file)?)?)
            }
            Planted::Lock => Source::Locked(Arc::default()),
            Planted::Startup => Source::Opened(Arc::default(), count),
            _ => Source::Memory,
        };
        let apart = [Planted::CrowdedWorkers, Planted::Spinner].contains(&plant.planted);
        let cpu = apart.then_some(0);
        Ok(Self { count, source, cpu })
    }

    /// The lock that guards the items, if one does.
    pub fn lock(&self) -> Option<Arc<Mutex<()>>> {
        match &self.source {
            Source::Locked(lock) => Some(Arc::clone(lock)),
            _ => None,
        }
    }
}

/// A file of `items` items that is read past the page cache.
fn disk_file(directory: &Path, items: usize) -> std::io::Result<File> {
    let path = directory.join("items");
    let mut file = File::create(&path)?;
    let block = vec![7_u8; DISK_ITEM];
    for _ in 0..items.min(64) {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let direct = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&path, direct, Mode::empty())?.into())
}

/// Reads one item of the file past the page cache.
fn read_direct(file: &File, index: usize) -> std::io::Result<()> {
    // Direct reads want an aligned buffer.
    let mut buffer = vec![0_u8; DISK_ITEM + 4096];
    let from = buffer.as_ptr().align_offset(4096);
    let offset = (index % 64 * DISK_ITEM) as u64;
    file.read_exact_at(&mut buffer[from..from + DISK_ITEM], offset)
}

/// The file in memory, read once.
#[allow(unsafe_code, reason = "a file is mapped")]
fn map_file(file: &File) -> std::io::Result<&'static [u8]> {
    let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: the mapping is new and as long as the file, which nobody writes, and is never unmapped.
    let mapped = unsafe {
        let memory = rustix::mm::mmap(
            std::ptr::null_mut(),
            SHARED_FILE,
            protection,
            flags,
            file,
            0,
        )?;
        std::slice::from_raw_parts(memory.cast::<u8>(), SHARED_FILE)
    };
    touch(mapped);
    Ok(mapped)
}

/// Reads a byte of each page.
#[inline(never)]
fn touch(memory: &[u8]) {
    for byte in memory.iter().step_by(4096) {
        std::hint::black_box(*byte);
    }
}

/// Maps memory, touches each page of it and unmaps it.
#[inline(never)]
#[allow(unsafe_code, reason = "page faults need memory that is mapped anew")]
fn touch_new_memory() -> std::io::Result<()> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the mapping is new, written within its length, and unmapped once.
    unsafe {
        let memory =
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), MAPPED_ITEM, protection, flags)?;
        rustix::mm::madvise(memory, MAPPED_ITEM, rustix::mm::Advice::LinuxNoHugepage)?;
        for page in (0..MAPPED_ITEM).step_by(4096) {
            memory.cast::<u8>().add(page).write_volatile(1);
        }
        rustix::mm::munmap(memory, MAPPED_ITEM)?;
    }
    Ok(())
}

impl Dataset<usize> for Items {
    fn get(&self, index: usize) -> Result<usize, DatasetError> {
        if let Some(cpu) = self.cpu {
            thread_local!(static PINNED: Cell<bool> = const { Cell::new(false) });
            if !PINNED.replace(true) {
                outside::pin(cpu);
            }
        }
        self.read(index).map_err(DatasetError::new)?;
        Ok(index)
    }

    fn len(&self) -> usize {
        self.count
    }
}

impl Items {
    fn read(&self, index: usize) -> std::io::Result<()> {
        match &self.source {
            Source::Memory => Ok(()),
            Source::Remote(stream, _) => {
                let mut stream = stream.lock().expect("no reader panics");
                stream.write_all(&[1])?;
                stream.read_exact(&mut [0])
            }
            Source::Disk(file) => read_direct(file, index),
            Source::Mapped => touch_new_memory(),
            Source::Shared(file) => {
                touch(&file[index * SHARED_ITEM % SHARED_FILE..][..SHARED_ITEM]);
                Ok(())
            }
            Source::Locked(lock) => {
                let _guard = lock.lock().expect("no holder panics");
                work::spin(Duration::from_micros(300));
                Ok(())
            }
            Source::Opened(read, count) => {
                let mut read = read.lock().expect("no reader panics");
                if *read % count == 0 {
                    std::thread::sleep(Duration::from_millis(80));
                }
                *read += 1;
                Ok(())
            }
        }
    }
}

/// Makes a batch of the items themselves, with as much CPU time as the plant says.
#[derive(Debug, Clone)]
pub struct ToBatch(pub Duration);

impl Batcher<usize, Vec<usize>> for ToBatch {
    fn batch(&self, items: Vec<usize>, _: &Device) -> Vec<usize> {
        work::spin(self.0);
        items
    }
}
