//! The thread that writes what the devices of this process did.

use crate::file::Bounded;
use crate::lifecycle;
use crate::settings::{Settings, WINDOW_FILE};
use crate::steps::Steps;
use gpustall_cuda::{Capture, CaptureError};
use gpustall_trace::{EventRef, MonoTime, MonotonicClock, Nanos, Pid};
use std::time::{Duration, SystemTime};

/// How often the thread looks, unless it is woken.
const LOOK: Duration = Duration::from_millis(50);

/// How often what was written is handed to the operating system: what a killed process loses.
const FLUSH_INTERVAL: Nanos = Nanos::new(200_000_000);

/// What a process leaves that ended before anything could be captured.
const NEVER_OPEN: &str = "The process ended before its budget allowed a first window, so no device operations were recorded; capture its beginning (GPUSTALL_CUDA_WHOLE, or --whole of `gpustall run`), or raise the budget (GPUSTALL_CUDA_BUDGET, or --budget).";

/// Starts to record, if the environment asks for it.
pub(crate) fn start() {
    let Some(settings) = Settings::of(|name| std::env::var(name).ok()) else {
        return;
    };
    let start = MonotonicClock::read();
    let pid = Pid(std::process::id());
    let nothing = |error: CaptureError| {
        lifecycle::gone();
        explain(&settings, start, &format!("{error}."));
    };
    if !lifecycle::starts() {
        return nothing(CaptureError::Held);
    }
    // Here rather than on the thread: nothing that the job submits from now on may be missed.
    let capture = match Capture::start(settings.capture, pid, start) {
        Ok(capture) => capture,
        Err(error) => return nothing(error),
    };
    let thread = std::thread::Builder::new()
        .name("gpustall-cuda".into())
        .spawn(move || Writer::new(settings, capture, start).run());
    match thread {
        Ok(thread) => lifecycle::watch(thread.thread().clone()),
        Err(_) => lifecycle::gone(),
    }
}

/// Leaves a file that says why there is nothing else in it.
fn explain(settings: &Settings, start: MonoTime, text: &str) {
    if let Ok(mut file) = Bounded::create(settings, start) {
        gpustall_cuda::EventSink::push(&mut file, &EventRef::Note { text });
        file.flush(MonotonicClock::read().in_trace(start));
    }
}

struct Writer {
    settings: Settings,
    capture: Capture,
    steps: Steps,
    start: MonoTime,
    file: Option<Bounded>,
    /// The folder takes no file.
    refused: bool,
    flushed: MonoTime,
    window_file: Option<SystemTime>,
}

impl Writer {
    fn new(settings: Settings, capture: Capture, start: MonoTime) -> Self {
        capture.wake(std::thread::current());
        let pid = Pid(std::process::id());
        Self {
            steps: Steps::new(&settings.folder, pid),
            settings,
            capture,
            start,
            file: None,
            refused: false,
            flushed: start,
            window_file: None,
        }
    }

    fn run(mut self) {
        loop {
            let wanted = lifecycle::wanted();
            // First of all: another profiler waits for it in the program's thread.
            if let Some(number) = wanted.leave {
                self.capture.leave();
                lifecycle::left(number);
            }
            let capture = &mut self.capture;
            self.steps
                .look(|of, start, end| capture.step(of, start, end));
            self.open_file();
            self.look_for_window_file();
            if let Some(file) = &mut self.file {
                self.capture.poll(file);
            }
            if wanted.flush.is_some() {
                self.write_all(wanted.last);
            }
            self.flush_when_due(wanted.flush.is_some());
            if let Some(number) = wanted.flush {
                lifecycle::served(number);
            }
            if wanted.last && wanted.flush.is_some() {
                // CUPTI may be taken down by now: it is left as it is.
                std::mem::forget(self.capture);
                lifecycle::gone();
                return;
            }
            if self.refused {
                // The folder takes no file, so nothing is worth capturing.
                self.capture.leave();
                lifecycle::gone();
                return;
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Makes the file when there is something to write: most processes of a job use no device.
    fn open_file(&mut self) {
        if self.file.is_none() && !self.refused && self.capture.has_records() {
            match Bounded::create(&self.settings, self.start) {
                Ok(file) => self.file = Some(file),
                Err(_) => self.refused = true,
            }
        }
    }

    fn write_all(&mut self, last: bool) {
        match &mut self.file {
            Some(file) => {
                self.capture.flush_all(file);
                if last {
                    self.capture.tell_cost(file);
                }
            }
            None => {
                // It may have used a device in the last moment.
                self.capture.request_all();
                self.open_file();
                if let Some(file) = &mut self.file {
                    self.capture.flush_all(file);
                } else if last && !self.capture.was_open() {
                    explain(&self.settings, self.start, NEVER_OPEN);
                }
            }
        }
    }

    fn flush_when_due(&mut self, wanted: bool) {
        let now = MonotonicClock::read();
        let passed = now.as_nanos().saturating_sub(self.flushed.as_nanos());
        if wanted || passed >= FLUSH_INTERVAL.get() {
            self.flushed = now;
            if let Some(file) = &mut self.file {
                file.flush(now.in_trace(self.start));
            }
        }
    }

    fn look_for_window_file(&mut self) {
        let path = self.settings.folder.join(WINDOW_FILE);
        let made = path.metadata().and_then(|found| found.modified()).ok();
        if made.is_some() && made != self.window_file {
            self.window_file = made;
            self.capture.ask_for_window();
        }
    }
}
