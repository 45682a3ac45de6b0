//! Events of another program, collected into a trace in whatever order they come.
//!
//! Until the earliest event is known, times are nanoseconds on the file's own clock, shifted so
//! that they are never negative; [`finish`](super::finish) counts them from that event.

use super::anchors::Anchors;
use super::category::{Place, category};
use super::cursor::Text;
use super::event::Event;
use super::flows::Flows;
use super::halves::{Half, Halves};
use super::kept::Keeper;
use super::lanes::{Key, Lanes};
use super::number::nanos;
use super::processes::Processes;
use super::text::Texts;
use crate::anchor::ANCHOR;
use crate::{CounterSeries, Instant, Interval, Nanos, Slice, Symbol, Trace, TraceTime};
use std::collections::HashMap;

/// Events and kept arguments of a foreign trace together, at most; what follows is not read. It
/// bounds the memory that a file may take, to about 3 GiB.
pub const FOREIGN_ROWS: usize = 64 << 20;
/// Bytes of different texts, at most.
const TEXT_BYTES: usize = 512 << 20;

/// An event that could not be used.
#[derive(Debug)]
pub(super) struct Unusable;

/// Collects events.
#[derive(Debug, Default)]
pub(super) struct Collector {
    pub(super) trace: Trace,
    pub(super) texts: Texts,
    pub(super) lanes: Lanes,
    pub(super) processes: Processes,
    pub(super) halves: Halves,
    pub(super) flows: Flows,
    pub(super) found: Found,
    pub(super) anchors: Anchors,
    keeper: Keeper,
    pub(super) series: HashMap<CounterSeries, u32>,
    /// Time of the earliest event.
    pub(super) first: Option<TraceTime>,
    /// Kept arguments, halves, flow ends and names.
    pub(super) cells: usize,
}

/// What the events were like.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Events that could be used, or are of a kind that is passed over.
    pub(super) used: u64,
    /// Events that could not be used.
    pub(super) unusable: u64,
    /// Slices without a length, or with a negative one.
    pub(super) without_length: u64,
    /// Categories of PyTorch's profiler.
    pub(super) kineto: bool,
    /// Such as only versions up to 2021 wrote.
    pub(super) legacy: bool,
    /// The event that gpustall puts first.
    pub(super) ours: bool,
}

impl Collector {
    /// Whether the trace has taken all the memory that it may take.
    pub(super) fn full(&self) -> bool {
        let rows = self.trace.slices.len()
            + self.trace.instants.len()
            + self.trace.counters.len()
            + self.lanes.lanes.len()
            + self.cells;
        rows >= FOREIGN_ROWS || self.texts.bytes >= TEXT_BYTES
    }

    /// Adds one event.
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let added = match event.ph {
            b'X' => self.slice(event),
            b'B' | b'E' | b'b' | b'e' | b'S' | b'F' => self.half(event),
            b'i' | b'I' | b'R' => self.instant(event),
            b's' | b'f' => self.flow(event),
            b'C' => self.counters(event),
            b'M' => self.metadata(event),
            0 => Err(Unusable),
            _ => Ok(()),
        };
        match added {
            Ok(()) => self.found.used += 1,
            Err(Unusable) => self.found.unusable += 1,
        }
    }

    fn slice(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let start = self.time(event)?;
        let length = event.dur.and_then(nanos);
        if event.dur.is_some() && length.is_none() {
            return Err(Unusable);
        }
        let length = length.and_then(|ns| u64::try_from(ns).ok());
        self.found.without_length += u64::from(length.is_none());
        let end = start + Nanos::new(length.unwrap_or(0));
        let lane = self.lane(event);
        let (cat, place) = self.cat(event);
        let (track, on_device) = match place {
            Place::Thread => (self.lanes.thread(lane), None),
            _ => {
                let named = (event.kept.device(), event.kept.stream());
                let (track, at) = self.lanes.device(lane, place, named, &self.trace.strings);
                (track, Some(at))
            }
        };
        let name = self.text(event.name);
        let strings = &mut self.trace.strings;
        let args = self
            .keeper
            .args(&event.kept, on_device, strings, &mut self.texts);
        self.cells += args.len();
        self.trace.slices.push(Slice {
            track,
            name,
            cat,
            span: Interval::new(start, end),
            args,
        });
        Ok(())
    }

    fn instant(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let at = self.time(event)?;
        let lane = self.lane(event);
        if event.name.raw.starts_with(ANCHOR.as_bytes()) {
            return self.anchor(event, lane, at);
        }
        let (cat, _) = self.cat(event);
        let name = self.text(event.name);
        let strings = &mut self.trace.strings;
        let args = self
            .keeper
            .args(&event.kept, None, strings, &mut self.texts);
        self.cells += args.len();
        self.trace.instants.push(Instant {
            track: self.lanes.thread(lane),
            name,
            cat,
            at,
            args,
        });
        Ok(())
    }

    /// What our layer around another recorder put into its file.
    fn anchor(&mut self, event: &Event<'_>, lane: u32, at: TraceTime) -> Result<(), Unusable> {
        let name = std::str::from_utf8(event.name.raw).map_err(|_| Unusable)?;
        let anchor = name.parse().map_err(|_| Unusable)?;
        let process = self.lanes.lanes[lane as usize].pid;
        self.anchors.add(lane, process, unshifted(at), anchor);
        Ok(())
    }

    fn half(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let at = self.time(event)?;
        let (cat, _) = self.cat(event);
        let name = self.text(event.name);
        let strings = &mut self.trace.strings;
        let args = self
            .keeper
            .args(&event.kept, None, strings, &mut self.texts);
        self.cells += 2 + args.len();
        let half = Half {
            at,
            name,
            cat,
            begins: matches!(event.ph, b'B' | b'b' | b'S'),
            args,
        };
        if matches!(event.ph, b'B' | b'E') {
            let lane = self.lane(event);
            self.halves.on_track(self.lanes.thread(lane), half);
        } else {
            let pid = Key::new(event.pid, &mut self.trace.strings, &mut self.texts);
            let id = Key::new(event.id, &mut self.trace.strings, &mut self.texts);
            self.halves.in_process(pid, id, half);
        }
        Ok(())
    }

    fn flow(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let at = self.time(event)?;
        let lane = self.lane(event);
        let (cat, _) = self.cat(event);
        let name = self.text(event.name);
        let id = Key::new(event.id, &mut self.trace.strings, &mut self.texts);
        self.cells += 1;
        self.flows.add((cat, name, id), event.ph == b's', lane, at);
        Ok(())
    }

    #[inline]
    pub(super) fn time(&mut self, event: &Event<'_>) -> Result<TraceTime, Unusable> {
        let ns = event.ts.and_then(nanos).ok_or(Unusable)?;
        let at = TraceTime::from_nanos(shifted(ns));
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        Ok(at)
    }

    #[inline]
    pub(super) fn lane(&mut self, event: &Event<'_>) -> u32 {
        let strings = &mut self.trace.strings;
        let pid = Key::new(event.pid, strings, &mut self.texts);
        let tid = Key::new(event.tid, strings, &mut self.texts);
        self.lanes.lane(pid, tid)
    }

    #[inline]
    fn cat(&mut self, event: &Event<'_>) -> (Symbol, Place) {
        let strings = &mut self.trace.strings;
        match category(event.cat.raw, event.name.raw) {
            Some(known) => {
                self.found.kineto = true;
                self.found.legacy |= known.legacy;
                (self.texts.plain(known.name, strings), known.place)
            }
            None => (self.texts.symbol(event.cat, strings), Place::Thread),
        }
    }

    #[inline]
    fn text(&mut self, text: Text<'_>) -> Symbol {
        self.texts.symbol(text, &mut self.trace.strings)
    }
}

/// `ns` shifted so that it is not negative, in the same order.
fn shifted(ns: i64) -> u64 {
    (ns as u64) ^ (1 << 63)
}

/// The nanoseconds on the file's clock of a shifted time.
pub(super) fn unshifted(at: TraceTime) -> i64 {
    (at.as_nanos() ^ (1 << 63)) as i64
}
