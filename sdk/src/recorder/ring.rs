//! The buffer of one thread: a bounded wait-free ring that its thread fills and the writer drains.

use super::Record;
use super::gate::Generation;
use gpustall_trace::{MonoTime, Tid};
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Records that a thread can hold between two drains (64 bytes each: 256 KiB a thread).
/// A thread whose ring is half full has it drained before
/// [`DRAIN_INTERVAL`](super::writer::DRAIN_INTERVAL) is over.
pub const DEFAULT_RING_RECORDS: usize = 4096;

/// Part of a ring that only the events of the data pipeline may use, so that a flood of user
/// spans never pushes out what the diagnosis rests on.
pub(crate) const RESERVED_RECORDS: usize = DEFAULT_RING_RECORDS / 8;

/// Threads that one session records at a time; further ones are counted as lost.
pub(crate) const MAX_THREADS: usize = 1024;

/// Slices of the pipeline within one another whose beginnings are shown; deeper ones are recorded
/// when they end, as all others.
const MAX_OWED: usize = 64;

/// What the threads and the writer of one session share.
#[derive(Debug)]
pub(crate) struct Exchange {
    generation: Generation,
    /// Rings of threads that the writer has not seen yet.
    arrived: Mutex<Vec<Lane>>,
    /// Pauses since the writer last asked: from when, and until when once that is known.
    pauses: Mutex<Vec<(MonoTime, Option<MonoTime>)>>,
    /// Threads that have a ring now.
    threads: AtomicU64,
    /// The writer, and whether it was asked to drain before its time.
    writer: OnceLock<Thread>,
    asked: AtomicBool,
    /// Losses of threads that have no ring, and of all others.
    pub(crate) lost: Losses,
}

/// Events that could not be kept, by what was lost.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// User spans, events and counters: the ring was full.
    pub(crate) spans: AtomicU64,
    /// Events of the data pipeline: the ring was full.
    pub(crate) pipeline: AtomicU64,
    /// Events of threads beyond [`MAX_THREADS`], or recorded while their thread ended.
    pub(crate) threads: AtomicU64,
}

impl Losses {
    /// The totals so far, each with the name of its source in the trace.
    pub(crate) fn by_source(&self) -> [(&'static str, u64); 3] {
        [
            ("user spans", self.spans.load(Ordering::Relaxed)),
            ("data pipeline", self.pipeline.load(Ordering::Relaxed)),
            (
                "threads without a buffer",
                self.threads.load(Ordering::Relaxed),
            ),
        ]
    }
}

/// The reading end of a thread's ring.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) tid: Tid,
    pub(crate) name: String,
    pub(crate) records: rtrb::Consumer<Record>,
}

/// The writing end.
struct Local {
    exchange: Arc<Exchange>,
    records: rtrb::Producer<Record>,
    /// When the slices began whose beginnings are in the ring and whose ends are not: a slot is
    /// kept for each end, since a beginning without its end would read as a slice that goes on to
    /// the end of the recording.
    owed: Vec<MonoTime>,
}

static CURRENT: RwLock<Option<Arc<Exchange>>> = RwLock::new(None);

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl Exchange {
    pub(crate) fn new(generation: Generation) -> Arc<Self> {
        Arc::new(Self {
            generation,
            arrived: Mutex::new(Vec::new()),
            pauses: Mutex::new(Vec::new()),
            threads: AtomicU64::new(0),
            writer: OnceLock::new(),
            asked: AtomicBool::new(false),
            lost: Losses::default(),
        })
    }

    /// The calling thread is the writer.
    pub(crate) fn serve(&self) {
        let _ = self.writer.set(std::thread::current());
    }

    /// The writer begins to drain: it can be asked again.
    pub(crate) fn draining(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// A ring is half full: asks the writer to drain now, once until it does.
    #[cold]
    fn ask(&self) {
        if !self.asked.swap(true, Ordering::Relaxed)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// Makes this the exchange that threads find.
    pub(crate) fn publish(self: &Arc<Self>) {
        *CURRENT.write() = Some(self.clone());
    }

    /// Threads find no exchange any more.
    pub(crate) fn withdraw() {
        *CURRENT.write() = None;
    }

    /// The rings that came since the last call.
    pub(crate) fn arrived(&self) -> Vec<Lane> {
        std::mem::take(&mut *self.arrived.lock())
    }

    /// Recording was paused from `start` on; until `end`, once that is known.
    pub(crate) fn pause(&self, start: MonoTime, end: Option<MonoTime>) {
        self.pauses.lock().push((start, end));
    }

    /// The pauses since the last call.
    pub(crate) fn pauses(&self) -> Vec<(MonoTime, Option<MonoTime>)> {
        std::mem::take(&mut *self.pauses.lock())
    }

    /// The ring of a thread that ended was emptied and dropped.
    pub(crate) fn left(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// A ring for the calling thread, unless there are too many.
    fn join(self: Arc<Self>) -> Option<Local> {
        let count = self.threads.fetch_add(1, Ordering::Relaxed);
        if count >= MAX_THREADS as u64 {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (producer, consumer) = rtrb::RingBuffer::new(DEFAULT_RING_RECORDS);
        let thread = std::thread::current();
        self.arrived.lock().push(Lane {
            tid: current_tid(),
            name: thread.name().unwrap_or_default().to_owned(),
            records: consumer,
        });
        Some(Local {
            exchange: self,
            records: producer,
            owed: Vec::with_capacity(MAX_OWED),
        })
    }
}

impl Local {
    fn push(&mut self, record: Record) {
        let essential = record.is_essential();
        // Slots that stay free for others.
        let kept = match &record {
            _ if !essential => RESERVED_RECORDS,
            Record::Open { .. } if self.owed.len() == MAX_OWED => return,
            Record::Open { .. } => self.owed.len() + 1,
            Record::Slice { start, .. } if self.settle(*start) => 0,
            _ => self.owed.len(),
        };
        let begun = match &record {
            Record::Open { start, .. } => Some(*start),
            _ => None,
        };
        let slots = self.records.slots();
        if slots < DEFAULT_RING_RECORDS / 2 {
            self.exchange.ask();
        }
        if slots > kept && self.records.push(record).is_ok() {
            self.owed.extend(begun);
        } else {
            let lost = &self.exchange.lost;
            let counter = if essential {
                &lost.pipeline
            } else {
                &lost.spans
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the beginning of this slice is in the ring, so that a slot is kept for its end.
    fn settle(&mut self, start: MonoTime) -> bool {
        let position = self.owed.iter().rposition(|begun| *begun == start);
        // Those inside it ended without being recorded (they left their guard behind).
        position
            .map(|position| self.owed.truncate(position))
            .is_some()
    }
}

/// Appends `record` to the ring of this thread, in the session `generation`. Never blocks on the
/// writer, never panics; what cannot be kept is counted.
#[inline]
pub(crate) fn push(generation: Generation, record: Record) {
    let outcome = LOCAL.try_with(|local| {
        // A second borrow can only come from an allocator that records its own allocations.
        let Ok(mut local) = local.try_borrow_mut() else {
            return false;
        };
        match &mut *local {
            Some(local) if local.exchange.generation == generation => {
                local.push(record);
                true
            }
            other => push_first(other, generation, record),
        }
    });
    if outcome != Ok(true) {
        count_unplaced();
    }
}

#[cold]
fn push_first(local: &mut Option<Local>, generation: Generation, record: Record) -> bool {
    let Some(exchange) = CURRENT.read().clone() else {
        return true; // The session ended in between: not a loss, it is not recorded any more.
    };
    if exchange.generation != generation {
        return true;
    }
    match exchange.join() {
        Some(joined) => local.insert(joined).push(record),
        // Asked again with the next event: threads end and make room.
        None => return false,
    }
    true
}

#[cold]
fn count_unplaced() {
    if let Some(exchange) = CURRENT.read().as_ref() {
        exchange.lost.threads.fetch_add(1, Ordering::Relaxed);
    }
}

/// OS thread id of the caller.
pub(crate) fn current_tid() -> Tid {
    thread_local! {
        static TID: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let read = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
    Tid(TID
        .try_with(|tid| {
            if tid.get() == 0 {
                tid.set(read());
            }
            tid.get()
        })
        .unwrap_or_else(|_| read()))
}
