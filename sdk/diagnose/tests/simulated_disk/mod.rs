//! A loader's workers that read from a disk, played through event by event, and the trace that the
//! recorders would make of it.
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "it is a part of the tests that use it"
)]

use crate::common::kernel::blocked;
use crate::common::{Builder, V};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub mod checks;

/// What serves the reads, times in microseconds.
#[derive(Debug, Clone, Copy)]
pub enum Disk {
    /// One at a time, as a disk that has to seek.
    OneAtATime { least: u64, most: u64 },
    /// The same, where of those that wait the nearest comes first: with more of them it is nearer.
    Nearest { least: u64, most: u64 },
    /// So many at once, the others in a queue.
    Channels { count: usize, least: u64, most: u64 },
    /// All that came while it served others, together.
    Together { least: u64, most: u64 },
    /// All at once, each as long as the network takes.
    Network { least: u64, most: u64 },
    /// Each after `latency`, and no more than one in every `every`, on average of `burst` of them:
    /// a limit on operations or bytes.
    Rate {
        latency: u64,
        every: u64,
        burst: u64,
    },
    /// The same, where the reads are held back before they reach the disk.
    HeldBack {
        latency: u64,
        every: u64,
        burst: u64,
    },
}

/// A training job, times in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub disk: Disk,
    pub workers: usize,
    pub batches: u64,
    pub reads_a_batch: u64,
    /// CPU time of a worker after each read, and for a batch, half to half as much again.
    pub item: u64,
    pub collate: u64,
    /// The trainer's time with a batch.
    pub rest: u64,
    pub seed: u64,
}

/// What came of it.
pub struct Ran {
    pub trace: Trace,
    /// Mean step without the first, nanoseconds.
    pub step_ns: f64,
}

/// Numbers that look random (xorshift).
struct Chance(u64);

impl Chance {
    /// From `least` to `most`, evenly.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + (most - least) * (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The state of a disk, times in nanoseconds.
struct Serving {
    disk: Disk,
    /// When each channel is free; of a rate, when the next one may be done; of those that are served together,
    /// when the last of them begin and end.
    free: Vec<u64>,
    /// When those that wait are done.
    waiting: Vec<u64>,
}

impl Serving {
    fn new(disk: Disk) -> Self {
        let channels = match disk {
            Disk::Channels { count, .. } => count,
            Disk::Together { .. } => 2,
            _ => 1,
        };
        Self {
            disk,
            free: vec![0; channels],
            waiting: Vec::new(),
        }
    }

    /// When a read that comes now reaches the disk, and when it is done.
    fn serve(&mut self, now: u64, chance: &mut Chance) -> (u64, u64) {
        let mut between = |a: u64, b: u64| chance.between(a as f64, b as f64) * 1000.0;
        self.waiting.retain(|&done| done > now);
        let service = match self.disk {
            Disk::OneAtATime { least, most }
            | Disk::Channels { least, most, .. }
            | Disk::Together { least, most }
            | Disk::Network { least, most } => between(least, most),
            Disk::Nearest { least, most } => {
                between(least, most) / ((self.waiting.len() + 1) as f64).powf(0.3)
            }
            Disk::Rate { latency, .. } | Disk::HeldBack { latency, .. } => {
                between(latency * 4 / 5, latency * 6 / 5)
            }
        } as u64;
        let reached = match self.disk {
            Disk::Network { .. } => return (now, now + service),
            Disk::Together { .. } => {
                let (begins, ends) = (self.free[0], self.free[1]);
                if now >= begins {
                    let begins = ends.max(now);
                    self.free = vec![begins, begins + service];
                }
                return (now, self.free[1]);
            }
            Disk::Rate { every, burst, .. } | Disk::HeldBack { every, burst, .. } => {
                let (every, next) = (every * 1000, &mut self.free[0]);
                *next = (*next).max(now.saturating_sub(burst * every)) + every;
                let done = (*next).max(now + service);
                return match self.disk {
                    Disk::HeldBack { .. } => (done - service, done),
                    _ => (now, done),
                };
            }
            _ => now,
        };
        let first = self.free.iter_mut().min().expect("there is a channel");
        *first = (*first).max(now) + service;
        self.waiting.push(*first);
        (reached, *first)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    Read { left: u64 },
    Done { left: u64 },
    Made,
}

/// What a worker did.
struct Made {
    worker: usize,
    get: (u64, u64),
    end: u64,
    /// From when to when it waited, and when the read reached the disk.
    reads: Vec<(u64, u64, u64)>,
}

impl Job {
    pub fn run(&self) -> Ran {
        let made = self.make();
        self.train(&made)
    }

    /// All batches, in the order in which they are made, as if there were room for all.
    fn make(&self) -> Vec<Made> {
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ (self.seed + 1));
        let mut disk = Serving::new(self.disk);
        let mut events: BinaryHeap<Reverse<(u64, usize, Event)>> = BinaryHeap::new();
        for worker in 0..self.workers {
            events.push(Reverse((worker as u64, worker, Event::Begin)));
        }
        let (mut begun, mut made) = (0, Vec::new());
        let mut now_making: Vec<Made> = Vec::new();
        now_making.extend((0..self.workers).map(|worker| Made {
            worker,
            get: (0, 0),
            end: 0,
            reads: Vec::new(),
        }));
        while let Some(Reverse((now, worker, event))) = events.pop() {
            let own = &mut now_making[worker];
            let (at, next) = match event {
                Event::Begin if begun == self.batches => continue,
                Event::Begin => {
                    begun += 1;
                    own.get.0 = now;
                    let left = self.reads_a_batch;
                    (now, Event::Read { left })
                }
                Event::Read { left: 0 } => {
                    own.get.1 = now;
                    let collate = self.collate as f64 * 1000.0;
                    (
                        now + chance.between(collate / 2.0, collate * 1.5) as u64,
                        Event::Made,
                    )
                }
                Event::Read { left } => {
                    let (reached, done) = disk.serve(now, &mut chance);
                    own.reads.push((now, reached, done));
                    (done, Event::Done { left: left - 1 })
                }
                Event::Done { left } => {
                    let item = self.item as f64 * 1000.0;
                    let item = chance.between(item / 2.0, item * 1.5);
                    (now + item as u64, Event::Read { left })
                }
                Event::Made => {
                    own.end = now;
                    let next = Made {
                        worker,
                        get: (0, 0),
                        end: 0,
                        reads: Vec::new(),
                    };
                    made.push(std::mem::replace(own, next));
                    (now + 1_000, Event::Begin)
                }
            };
            events.push(Reverse((at, worker, next)));
        }
        made
    }

    /// The trainer takes the batches as they come.
    fn train(&self, made: &[Made]) -> Ran {
        let mut b = Builder::new();
        b.unit = 1;
        b.trace.meta.cpus = 20;
        let main = b.thread(100, "main");
        let tid = |worker: usize| 101 + worker as u32;
        let tracks: Vec<TrackId> = (0..self.workers)
            .map(|worker| b.thread(tid(worker), &format!("dataloader-{worker}")))
            .collect();
        let (mut at, mut first) = (0, 0);
        for (step, of) in (0..).zip(made) {
            let track = tracks[of.worker];
            b.stage(track, cat::DATA_GET, step, None, of.get);
            b.stage(track, cat::DATA_COLLATE, step, None, (of.get.1, of.end));
            let lane = b.lane(1000 + tid(of.worker));
            for &(start, reached, done) in &of.reads {
                let wait = blocked("file read", "__iomap_dio_rw");
                b.off(tid(of.worker), wait, (start, done));
                let args = [
                    (arg::THREAD, V::N(u64::from(tid(of.worker)))),
                    (arg::BYTES, V::N(4096)),
                    (arg::DISK, V::S("vda")),
                ];
                b.slice(lane, cat::BLOCK_IO, "read", (reached, done), &args);
            }
            let taken = of.end.max(at) + 1_000;
            b.wait(
                main,
                "train",
                (0, step),
                Some((step, tid(of.worker))),
                (at, taken),
            );
            b.off(100, blocked("futex", "futex_wait"), (at, taken));
            let end = taken + self.rest * 1000;
            b.step("train", 0, step, 100, (at, end));
            if step == 0 {
                first = end;
            }
            at = end;
        }
        for thread in 0..=self.workers {
            b.watch(100 + thread as u32, (0, at), &[]);
        }
        Ran {
            step_ns: (at - first) as f64 / (made.len() - 1) as f64,
            trace: b.build(at),
        }
    }
}
