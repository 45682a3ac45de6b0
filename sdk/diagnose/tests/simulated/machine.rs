//! A host and its devices, played through: calls take time, what they submit runs in the order of its
//! stream, and what it did is known afterwards.

use super::truth::Truth;
use std::collections::{BTreeMap, VecDeque};

/// The process, and the thread of it that trains.
pub const PID: u32 = 52_000;
/// The thread that runs backward passes.
pub const AUTOGRAD: u32 = PID + 90;
/// A slice of the file. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Event {
    pub cat: &'static str,
    pub name: String,
    pub pid: u32,
    pub tid: u32,
    pub span: (u64, u64),
    /// The inside of a JSON object.
    pub args: String,
}

/// Times in microseconds, but for the clock, which is in nanoseconds.
pub struct Machine {
    /// What time it is on the thread whose turn it is.
    pub now: u64,
    pub thread: u32,
    pub device: u32,
    pub stream: u32,
    pub events: Vec<Event>,
    pub truth: Truth,
    pub ranks: Option<(u32, u32)>,
    /// Of each stream of each device, when it is done.
    pub(super) free: BTreeMap<(u32, u32), u64>,
    /// Of each device, when the operations that it was given end.
    pub(super) queued: BTreeMap<u32, VecDeque<u64>>,
    pub(super) correlation: u64,
    dice: u64,
}

impl Machine {
    pub fn new() -> Self {
        Self {
            now: 3_000_000,
            thread: PID,
            device: 0,
            stream: 7,
            events: Vec::new(),
            truth: Truth::default(),
            ranks: None,
            free: BTreeMap::new(),
            queued: BTreeMap::new(),
            correlation: 100,
            dice: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// `us` as nanoseconds, up to a seventh more or less.
    pub(super) fn about(&mut self, us: f64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let part = (self.dice >> 40) as f64 / (1_u64 << 24) as f64;
        (us * 1000.0 * (6.0 / 7.0 + part * 2.0 / 7.0)) as u64
    }

    /// The thread is busy with what nobody records.
    pub fn spend(&mut self, us: f64) {
        self.now += self.about(us);
    }

    pub(super) fn host(&mut self, cat: &'static str, name: &str, span: (u64, u64), args: String) {
        self.events.push(Event {
            cat,
            name: name.to_owned(),
            pid: PID,
            tid: self.thread,
            span,
            args,
        });
    }

    fn around(
        &mut self,
        cat: &'static str,
        name: &str,
        inside: impl FnOnce(&mut Self),
    ) -> (u64, u64) {
        let from = self.now;
        inside(self);
        let span = (from, self.now);
        self.host(cat, name, span, String::new());
        span
    }

    /// `record_function(name)`.
    pub fn annotate(&mut self, name: &str, inside: impl FnOnce(&mut Self)) -> (u64, u64) {
        self.around("user_annotation", name, inside)
    }

    /// A function of Python, where the profiler was asked for stacks.
    pub fn frame(&mut self, name: &str, inside: impl FnOnce(&mut Self)) -> (u64, u64) {
        self.around("python_function", name, inside)
    }

    /// An operator.
    pub fn op(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.around("cpu_op", name, |m| {
            m.spend(4.0);
            inside(m);
            m.spend(2.0);
        });
    }

    /// What another thread does while this one waits for it.
    pub fn on(&mut self, thread: u32, inside: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.thread, thread);
        self.spend(15.0);
        inside(self);
        self.thread = before;
        self.spend(15.0);
    }

    /// What another thread does meanwhile.
    pub fn beside(&mut self, thread: u32, inside: impl FnOnce(&mut Self)) {
        let (before, now) = (std::mem::replace(&mut self.thread, thread), self.now);
        inside(self);
        (self.thread, self.now) = (before, now);
    }
}
