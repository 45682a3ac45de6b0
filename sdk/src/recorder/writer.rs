//! The writer thread: drains every ring into the partial file.

use super::Record;
use super::emit::Emitter;
use super::open::{OpenSlice, OpenSlices};
use super::ring::{DEFAULT_RING_RECORDS, Exchange, Lane};
use crate::recorder::Category;
use crate::sidecar::KernelEvents;
use gpustall_trace::{Clock, MonoTime, MonotonicClock, Nanos, PartialWriter, WriteError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the rings are drained, unless one is half full before. Each time the writer takes a
/// CPU from somebody, and where every CPU computes, all others wait for that one: seldom is cheap.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// How often drained events are handed to the operating system: what a killed process loses.
pub const FLUSH_INTERVAL: Nanos = Nanos::new(200_000_000);

/// Events that a session keeps by default. `finish` holds them all in memory, at about 300 bytes
/// each.
pub const DEFAULT_MAX_EVENTS: u64 = 4_000_000;

/// A running writer thread.
#[derive(Debug)]
pub(crate) struct WriterThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<WriterOutcome>,
}

/// What became of a recording when its writer stopped.
#[derive(Debug)]
pub(crate) struct WriterOutcome {
    /// When the last event was drained.
    pub(crate) end: MonoTime,
    /// Why the file could not be written to its end.
    pub(crate) error: Option<WriteError>,
    /// The partial file, which it holds locked.
    pub(crate) partial: PartialWriter,
}

impl WriterThread {
    /// Starts the thread.
    pub(crate) fn spawn(
        exchange: Arc<Exchange>,
        emitter: Emitter,
        kernel: Option<KernelEvents>,
        max_events: u64,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("gpustall-writer".into())
            .spawn(move || Writer::new(exchange, emitter, kernel, max_events).run(&seen))?;
        Ok(Self { stop, thread })
    }

    /// Drains what is left, writes it and ends the thread.
    pub(crate) fn stop(self) -> std::thread::Result<WriterOutcome> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join()
    }
}

struct Writer {
    exchange: Arc<Exchange>,
    emitter: Emitter,
    kernel: Option<KernelEvents>,
    lanes: Vec<DrainedLane>,
    steps: OpenSlices,
    paused: Option<MonoTime>,
    budget: Budget,
    reported_losses: [u64; 4],
    error: Option<WriteError>,
}

/// How many events the session may still keep.
struct Budget {
    max: u64,
    kept: u64,
    refused: u64,
}

impl Budget {
    /// Whether one event more is kept. When the limit is reached, events of the data pipeline go
    /// on for as many again: they are few, and the diagnosis rests on them.
    fn keeps(&mut self, record: &Record) -> bool {
        let limit = match record.is_essential() {
            true => self.max.saturating_mul(2),
            false => self.max,
        };
        let keeps = self.kept < limit;
        match keeps {
            true => self.kept += 1,
            false => self.refused += 1,
        }
        keeps
    }
}

struct DrainedLane {
    lane: Lane,
    open: OpenSlices,
}

impl Writer {
    fn new(
        exchange: Arc<Exchange>,
        emitter: Emitter,
        kernel: Option<KernelEvents>,
        max_events: u64,
    ) -> Self {
        Self {
            exchange,
            emitter,
            kernel,
            lanes: Vec::new(),
            steps: OpenSlices::default(),
            paused: None,
            budget: Budget {
                max: max_events,
                kept: 0,
                refused: 0,
            },
            reported_losses: [0; 4],
            error: None,
        }
    }

    fn run(mut self, stop: &AtomicBool) -> WriterOutcome {
        self.exchange.serve();
        let mut flushed = MonotonicClock.now();
        loop {
            let stopping = stop.load(Ordering::Acquire);
            self.drain();
            if stopping {
                self.drain(); // What the first drain held back.
            }
            let now = MonotonicClock.now();
            let since_flush = now.as_nanos().saturating_sub(flushed.as_nanos());
            if stopping || since_flush >= FLUSH_INTERVAL.get() {
                self.flush(now, stopping);
                flushed = now;
            }
            if stopping {
                return WriterOutcome {
                    end: now,
                    error: self.error,
                    partial: self.emitter.into_partial(),
                };
            }
            let look = self.emitter.look_at_devices();
            std::thread::park_timeout(look.map_or(DRAIN_INTERVAL, |look| look.min(DRAIN_INTERVAL)));
        }
    }

    fn drain(&mut self) {
        self.exchange.draining();
        for lane in self.exchange.arrived() {
            self.emitter.thread(&lane);
            self.lanes.push(DrainedLane {
                lane,
                open: OpenSlices::default(),
            });
        }
        let Self {
            exchange,
            lanes,
            emitter,
            steps,
            budget,
            ..
        } = self;
        lanes.retain_mut(|lane| {
            // Asked before the last look: what an ending thread recorded lies in the ring by then.
            let ended = lane.lane.records.is_abandoned();
            // At most one ring's worth, so that no thread keeps the writer from the others.
            for _ in 0..DEFAULT_RING_RECORDS {
                match lane.lane.records.pop() {
                    Ok(record) if budget.keeps(&record) => write(emitter, steps, lane, record),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
            let over = ended && lane.lane.records.is_empty();
            if over {
                exchange.left();
            }
            !over
        });
        self.emitter.drained();
        if let Some(kernel) = &mut self.kernel {
            kernel.drain(&mut self.emitter);
        }
    }

    fn flush(&mut self, now: MonoTime, last: bool) {
        for (start, end) in self.exchange.pauses() {
            self.paused = end.is_none().then_some(start);
            if end.is_some() {
                self.emitter.pause(start, end, now);
            }
        }
        if let Some(start) = self.paused {
            self.emitter.pause(start, None, now);
        }
        self.steps.write(&mut self.emitter, now, last);
        for lane in &mut self.lanes {
            lane.open.write(&mut self.emitter, now, last);
        }
        self.emitter.held_back_depths();
        let refused = [("events beyond max_events", self.budget.refused)];
        let losses = self.exchange.lost.by_source().into_iter().chain(refused);
        for ((source, total), reported) in losses.zip(&mut self.reported_losses) {
            if total != *reported {
                *reported = total;
                self.emitter.loss(source, now, total);
            }
        }
        if let Err(error) = self.emitter.flush() {
            self.error.get_or_insert(error);
        }
    }
}

fn write(emitter: &mut Emitter, steps: &mut OpenSlices, lane: &mut DrainedLane, record: Record) {
    let tid = lane.lane.tid;
    let place = emitter.place(tid);
    match record {
        Record::Slice {
            cat,
            name,
            start,
            end,
            args,
        } => {
            lane.open.end(place, start);
            if let Some(start) = lane.open.unwritten(cat, start, end) {
                emitter.slice(place, cat, name, (start, end), &args);
            }
        }
        Record::Span {
            metadata,
            start,
            end,
            args,
        } => emitter.span(place, metadata, (start, end), &args),
        Record::Open {
            cat,
            name,
            start,
            args,
            reading,
        } => lane.open.begin(OpenSlice {
            place,
            cat,
            name,
            start,
            args,
            written: start,
            reading,
        }),
        Record::Instant {
            cat,
            name,
            at,
            args,
        } => emitter.instant(place, cat, name, at, &args),
        Record::Counter { name, at, value } => emitter.counter(name, at, value),
        Record::QueueDepth { queue, at, depth } => emitter.queue_depth(queue, at, depth),
        Record::Step {
            track,
            start,
            end,
            args,
        } => {
            let place = emitter.step_place(track);
            let cat = Category::Step;
            let name = "step";
            match end {
                Some(end) => {
                    steps.end(place, start);
                    emitter.step_ended(track, start, end);
                    emitter.slice(place, cat, name, (start, end), &args);
                }
                None => steps.begin_next(OpenSlice {
                    place,
                    cat,
                    name,
                    start,
                    args,
                    written: start,
                    reading: None,
                }),
            }
        }
        Record::BatchTaken(taken) => emitter.batch_taken(tid, *taken),
    }
}
