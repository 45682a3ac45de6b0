//! The capture of one process: CUPTI switched on and off, its records written as events.

use crate::api::Cupti;
use crate::backlog::{AT_ONCE, Backlog};
use crate::calls::{Api, Calls};
use crate::config::Config;
use crate::elapsed::{cpu_time, since};
use crate::emit::{Counts, Emitter, EventSink};
use crate::governor::{CALL_COST, Decision, Governor, OPERATION_COST};
use crate::missing::Missing;
use crate::price::{MeasuredCost, Price};
use crate::switch::Switch;
use crate::windows::Windows;
use crate::{CaptureError, buffers, host_calls};
use gpustall_trace::{EventRef, MonoTime, MonotonicClock, Nanos, Pid};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// How often records that are complete are asked for: what a killed process loses.
pub const FLUSH_INTERVAL: Nanos = Nanos::new(250_000_000);

/// The same in a window that closes when its cost is used up: the cost is known from records.
const RATIONED_INTERVAL: Nanos = Nanos::new(100_000_000);

/// How long after a window records may still come, of what was running when it closed.
const TAIL: Nanos = Nanos::new(1_000_000_000);

/// What the losses of CUPTI are called in a trace.
pub const LOSS_SOURCE: &str = "CUPTI";

/// Kernels of a window, at least, before their calls are missed; and the share of them that must have one.
const CALLS_MISSED: (u64, u64) = (200, 2);

/// One capture runs in a process at a time.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// A running capture. Dropping it switches CUPTI off.
#[derive(Debug)]
pub struct Capture {
    cupti: Cupti,
    emitter: Emitter,
    governor: Governor,
    windows: Windows,
    flushed: MonoTime,
    /// CPU time that flushing and switching took: while they wait, it is taken to be for the job, which goes on. CUPTI
    /// waits as long as the driver loads a module, which in a job that compiles its kernels is most of the time. What
    /// calls of the job wait for a flush shows in its steps (`price.rs`).
    flushing: Nanos,
    price: Price,
    /// What operations and calls have cost, and of how much by the model that is.
    priced: (f64, Nanos),
    /// When the last window closed.
    closed: Option<MonoTime>,
    /// A window was open at some time.
    was_open: bool,
    switch: Switch,
    backlog: Backlog,
    missing: Missing,
}

impl Capture {
    /// Finds CUPTI and starts to capture what process `pid`, which must be this one, does. Times
    /// are counted from `start`.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] says in one sentence why nothing can be captured.
    pub fn start(config: Config, pid: Pid, start: MonoTime) -> Result<Self, CaptureError> {
        if RUNNING.swap(true, Ordering::AcqRel) {
            return Err(CaptureError::Running);
        }
        let started = Self::begin(config, pid, start);
        if started.is_err() {
            RUNNING.store(false, Ordering::Release);
        }
        started
    }

    fn begin(config: Config, pid: Pid, start: MonoTime) -> Result<Self, CaptureError> {
        let cupti = Cupti::load()?;
        cupti.is_free()?;
        cupti.register(buffers::requested, buffers::completed, buffers::timestamp)?;
        let mut calls = Calls::default();
        for api in [Api::Driver, Api::Runtime] {
            calls.add(api, cupti.functions(api));
        }
        let now = MonotonicClock::read();
        let governor = Governor::new(config.budget, config.whole, now);
        let mut capture = Self {
            emitter: Emitter::new(pid, start, calls),
            windows: Windows::new(start, (!governor.is_open()).then_some(now)),
            governor,
            cupti,
            flushed: now,
            flushing: Nanos::ZERO,
            price: Price::default(),
            priced: (0.0, Nanos::ZERO),
            closed: None,
            was_open: false,
            switch: Switch::new(config.every_kind),
            backlog: Backlog::default(),
            missing: Missing::default(),
        };
        if capture.governor.is_open() {
            capture.price.opened(now, Nanos::ZERO);
            capture.turn(true)?;
        }
        Ok(capture)
    }

    /// Where CUPTI was found, and its version (`130000`).
    pub fn library(&self) -> (&std::path::Path, u32) {
        (self.cupti.path(), self.cupti.version())
    }

    /// Which thread [`poll`](Self::poll)s; it is woken when much has come.
    pub fn wake(&self, thread: Thread) {
        buffers::serve(Some(thread));
    }

    /// A step of the loop `of` is over: what steps in windows are longer than others is what capturing
    /// costs. To be called for all steps, in their order, soon after they end.
    pub fn step(&mut self, of: u32, start: MonoTime, end: MonoTime) {
        self.price.step(of, start, end);
    }

    /// What the steps say of the cost of capturing, once enough windows were compared with what was
    /// around them.
    pub fn measured_cost(&self) -> Option<MeasuredCost> {
        self.price.measured()
    }

    /// Opens a window soon, whatever was spent.
    pub fn ask_for_window(&mut self) {
        self.governor.ask();
    }

    /// Whether records wait, or the note that CUPTI was left, so that a file for them is worth making. While
    /// there are none it opens and closes the window as [`poll`](Self::poll) does; to be called as often.
    pub fn has_records(&mut self) -> bool {
        let have_come = || buffers::has_full() || host_calls::has_calls();
        self.flush_when_due();
        if have_come() {
            return true;
        }
        self.govern(MonotonicClock::read());
        have_come() || self.missing.is_news()
    }

    /// Whether a window is open.
    pub fn is_open(&self) -> bool {
        self.governor.is_open() && !self.missing.has_ended()
    }

    /// Whether a window is open that closes when its cost is used up, so that it should be looked after
    /// every 50 ms.
    pub fn is_rationed(&self) -> bool {
        self.governor.is_rationed(MonotonicClock::read())
    }

    /// Whether a window was open at some time since the start.
    pub fn was_open(&self) -> bool {
        self.was_open
    }

    /// Writes what has come, and opens or closes the window. To be called about every 50 ms.
    pub fn poll(&mut self, sink: &mut dyn EventSink) {
        self.flush_when_due();
        self.drain(sink);
        let now = MonotonicClock::read();
        let first = self.emitter.first_operation.take();
        self.windows.operated(first, now);
        self.govern(now);
        self.drain(sink);
        self.windows.write(now, sink);
        self.report_losses(now, sink);
    }

    /// Leaves CUPTI to another profiler of the process, for good: closes the window, and opens no more. When
    /// it returns CUPTI is as it was before the capture, and nothing of it is called that changes it.
    pub fn leave(&mut self) {
        if self.missing.has_ended() {
            return;
        }
        let now = MonotonicClock::read();
        if self.is_open() {
            self.close(now);
        }
        // What still runs is given up: a buffer of ours must not come back by the other one's callback.
        self.request_all();
        if self.missing.has_ended() {
            // It was another one's by then, and so is its clock.
            return;
        }
        self.missing.dropped += self.cupti.take_dropped();
        self.cupti.restore();
        self.missing.ends(now, CaptureError::Held);
    }

    /// Asks CUPTI for everything that it still holds, running operations included.
    pub fn request_all(&mut self) {
        if self.was_open && self.is_ours() {
            self.flush(true);
        }
    }

    /// Whether no other profiler has CUPTI: one may have come since the last window.
    fn is_ours(&mut self) -> bool {
        // What else may be wrong, in a process that ends, is no reason to lose records.
        let held = || matches!(self.cupti.is_free(), Err(CaptureError::Held));
        if !self.missing.has_ended() && !self.switch.is_on() && held() {
            self.missing
                .ends(MonotonicClock::read(), CaptureError::Held);
        }
        !self.missing.has_ended()
    }

    /// Writes everything that CUPTI still holds, running operations included.
    pub fn flush_all(&mut self, sink: &mut dyn EventSink) {
        self.request_all();
        self.drain(sink);
        self.judge_window();
        let now = MonotonicClock::read();
        self.price.judge(now, self.modelled());
        self.windows.write(now, sink);
        self.report_losses(now, sink);
    }

    /// Says in the trace what capturing was measured to cost, if it was. To be called once, at the end.
    pub fn tell_cost(&self, sink: &mut dyn EventSink) {
        if let Some(cost) = self.measured_cost() {
            let text = &cost.to_string();
            sink.push(&EventRef::Note { text });
        }
    }

    /// What was recorded so far.
    pub fn counts(&self) -> Counts {
        self.emitter.counts
    }

    /// Records that were lost so far.
    pub fn lost(&self) -> u64 {
        self.missing.dropped
    }

    /// What capturing has cost the job so far, as far as it can be told from what was recorded and from
    /// the job's steps.
    pub fn cost(&self) -> Nanos {
        Nanos::new(self.priced.0 as u64) + self.flushing
    }

    /// What operations and calls have cost if each cost what it was measured to cost at worst.
    fn modelled(&self) -> Nanos {
        let counts = self.emitter.counts;
        let operations = OPERATION_COST.get().saturating_mul(counts.operations());
        let calls = CALL_COST.get().saturating_mul(counts.calls);
        Nanos::new(operations.saturating_add(calls))
    }

    /// Counts what was recorded since the last call, at what it is known to cost now.
    fn count_cost(&mut self) {
        let modelled = self.modelled();
        let more = modelled.get().saturating_sub(self.priced.1.get()) as f64;
        self.priced = (self.priced.0 + more * self.price.factor(), modelled);
    }

    /// Opens or closes the window.
    fn govern(&mut self, now: MonoTime) {
        if self.missing.has_ended() {
            return;
        }
        self.count_cost();
        match self.governor.tick(now, self.cost()) {
            Decision::Stay => {}
            Decision::Open => {
                self.judge_window();
                self.price.opened(now, self.modelled());
                self.windows.opened(now);
                if let Err(why) = self.turn(true) {
                    self.lose(now, why);
                }
            }
            Decision::Close => self.close(now),
        }
    }

    /// The window could not be opened, and none will be: most often another profiler has CUPTI, and what is on
    /// is that one's.
    fn lose(&mut self, now: MonoTime, why: CaptureError) {
        self.price.closed(now);
        self.windows.closed(now);
        self.missing.ends(now, why);
    }

    /// Whether the kernels of the last window came; to be asked when they all must have.
    fn judge_window(&mut self) {
        if let Some(launches) = self.emitter.take_unanswered() {
            self.missing.unanswered(launches);
        }
    }

    fn close(&mut self, now: MonoTime) {
        self.price.closed(now);
        self.windows.closed(now);
        let _ = self.turn(false);
        self.closed = Some(now);
        self.flush(false);
    }

    fn turn(&mut self, on: bool) -> Result<(), CaptureError> {
        self.was_open |= on;
        let before = cpu_time();
        let calls = self.emitter.calls();
        let switched = self.switch.set(&self.cupti, calls, on);
        self.flushing += cpu_time() - before;
        switched
    }

    /// Asks for the runtime's launches too, where kernels come without a call of the driver.
    fn look_for_launches(&mut self) {
        let (kernels, called) = self.emitter.launched;
        if self.switch.has_runtime_launches() || kernels < CALLS_MISSED.0 {
            return;
        }
        self.emitter.launched = (0, 0);
        if called * CALLS_MISSED.1 < kernels {
            self.switch.record_runtime_launches(self.emitter.calls());
        }
    }

    fn flush_when_due(&mut self) {
        let now = MonotonicClock::read();
        // Long after a window there is nothing to ask for.
        let over = self.closed.is_none_or(|closed| since(closed, now) > TAIL);
        if over && !self.is_open() {
            return;
        }
        let interval = match self.governor.is_rationed(now) {
            true => RATIONED_INTERVAL,
            false => FLUSH_INTERVAL,
        };
        if since(self.flushed, now) >= interval {
            self.flush(false);
        }
    }

    fn flush(&mut self, forced: bool) {
        if self.missing.has_ended() {
            return;
        }
        let before = cpu_time();
        let _ = self.cupti.flush(forced);
        self.flushing += cpu_time() - before;
        self.flushed = MonotonicClock::read();
    }

    /// Writes what has come by now.
    fn drain(&mut self, sink: &mut dyn EventSink) {
        self.missing.dropped += self.backlog.take();
        let mut calls = self.backlog.len();
        let mut buffers = buffers::take_full().into_iter();
        loop {
            let some = calls.min(AT_ONCE);
            calls -= some;
            for call in self.backlog.first(some) {
                self.emitter.call(&call, sink);
            }
            let full = buffers.next();
            if full.is_none() && calls == 0 {
                break;
            }
            if let Some(full) = full {
                let Self { cupti, emitter, .. } = self;
                let read = cupti.each_record(&full, |record| emitter.record(record, sink));
                self.missing.unreadable |= read.is_err();
                buffers::give_back(full);
            }
            // Threads go on to call meanwhile.
            self.missing.dropped += self.backlog.take();
        }
        if !self.missing.has_ended() {
            self.missing.dropped += self.cupti.take_dropped();
        }
        self.look_for_launches();
        if self.emitter.has_several_streams() {
            self.switch.record_waits(&self.cupti);
        }
    }

    fn report_losses(&mut self, now: MonoTime, sink: &mut dyn EventSink) {
        let windows = &self.windows;
        let unfinished = self.emitter.counts.unfinished;
        self.missing
            .write(now, unfinished, |at| windows.time(at), sink);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Where no window is open nothing of ours is on, and what is may be another one's.
        if self.switch.is_on() {
            let _ = self.turn(false);
        }
        buffers::serve(None);
        RUNNING.store(false, Ordering::Release);
    }
}
