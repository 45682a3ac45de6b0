//! A session: from `start` to `finish`, one recording and one trace file.

use crate::error::SessionError;
use crate::layer;
use crate::recorder::emit::Emitter;
use crate::recorder::gate::{self, Generation};
use crate::recorder::ring::Exchange;
use crate::recorder::writer::WriterThread;
use gpustall_diagnose::Report;
use gpustall_trace::{
    EventRef, Loss, Meta, MonoTime, MonotonicClock, PartialWriter, Pid, State, WriteError,
    partial_path, read, write_finished,
};
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the session that runs in this process.
static RUNNING: Mutex<Option<String>> = Mutex::new(None);

/// Set to `off`, `0` or `false`, this environment variable makes every session record nothing.
pub(crate) const SWITCH: &str = "GPUSTALL";

/// Describes a session called `name`; [`start`](SessionBuilder::start) begins it.
///
/// ```no_run
/// let session = gpustall::session("mlp").output("mlp.trace.json.gz").start()?;
/// // ... train ...
/// println!("{}", session.finish()?);
/// # Ok::<(), gpustall::SessionError>(())
/// ```
pub fn session(name: impl Into<String>) -> SessionBuilder {
    let name = name.into();
    SessionBuilder {
        output: PathBuf::from(format!("{}.trace.json.gz", file_stem(&name))),
        name,
        subscriber: true,
        item_sampling: 0,
    }
}

/// What a session will do. Made by [`session`].
#[derive(Debug, Clone)]
pub struct SessionBuilder {
    name: String,
    output: PathBuf,
    subscriber: bool,
    item_sampling: u32,
}

impl SessionBuilder {
    /// Where the trace goes: gzip if the name ends in `.gz`, plain otherwise. The default is the
    /// session's name with `.trace.json.gz`, in the current directory. While the session runs,
    /// the file beside it that ends in `.json.partial` grows.
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.output = path.into();
        self
    }

    /// Whether to install a global `tracing` subscriber when there is none (default: yes).
    ///
    /// Choose `false` when something that starts later installs its own, such as the experiment
    /// log of burn-train's learner; `#[instrument]` spans are then recorded only if that
    /// subscriber has [`layer()`](crate::layer()) in it. Loaders, phases and direct spans never
    /// need one.
    pub fn subscriber(mut self, install: bool) -> Self {
        self.subscriber = install;
        self
    }

    /// Records every `every`th read of an item from an instrumented data set as a slice of its
    /// own, counted per thread; 0 (the default) records none.
    pub fn sample_items(mut self, every: u32) -> Self {
        self.item_sampling = every;
        self
    }

    /// Starts recording.
    ///
    /// With `GPUSTALL=off` in the environment the session records nothing and succeeds.
    ///
    /// # Errors
    ///
    /// [`SessionError::AlreadyRunning`] if this process has a session, and
    /// [`SessionError::Output`] if the trace file cannot be created.
    pub fn start(self) -> Result<Session, SessionError> {
        if switched_off() {
            return Ok(Session { active: None });
        }
        let mut running = RUNNING.lock();
        if let Some(running) = &*running {
            return Err(SessionError::AlreadyRunning {
                running: running.clone(),
            });
        }
        let active = Active::start(self)?;
        *running = Some(active.meta.name.clone());
        Ok(Session {
            active: Some(active),
        })
    }
}

/// A running session. [`finish`](Session::finish) writes the trace and returns the report;
/// dropping it writes the trace and prints one line to standard error.
#[derive(Debug)]
#[must_use = "the session ends when it is dropped"]
pub struct Session {
    /// `None` when recording is switched off.
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    meta: Meta,
    output: PathBuf,
    partial: PathBuf,
    generation: Generation,
    exchange: Arc<Exchange>,
    writer: WriterThread,
    paused: Mutex<Option<MonoTime>>,
}

impl Session {
    /// Stops recording until [`resume`](Self::resume). Slices that began before are recorded
    /// when they end; the diagnosis leaves the pause out of its window.
    pub fn pause(&self) {
        if let Some(active) = &self.active {
            let mut paused = active.paused.lock();
            if paused.is_none() {
                active.generation.pause();
                let now = MonotonicClock::read();
                *paused = Some(now);
                active.exchange.pause(now, None);
            }
        }
    }

    /// Records again after a [`pause`](Self::pause).
    pub fn resume(&self) {
        if let Some(active) = &self.active
            && let Some(start) = active.paused.lock().take()
        {
            active.exchange.pause(start, Some(MonotonicClock::read()));
            active.generation.open();
        }
    }

    /// Whether events are recorded now.
    pub fn is_recording(&self) -> bool {
        self.active.is_some() && gate::recording().is_some()
    }

    /// Ends the recording, diagnoses it and writes the trace.
    ///
    /// # Errors
    ///
    /// When the finished file cannot be written. The partial file with everything recorded is
    /// then kept, and the error names it.
    pub fn finish(mut self) -> Result<Summary, SessionError> {
        match self.active.take() {
            Some(active) => active.finish(),
            None => Ok(Summary {
                report: None,
                trace: None,
            }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(active) = self.active.take() else {
            return;
        };
        // A second panic while the trainer unwinds would abort it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| active.finish()));
        match outcome {
            Ok(Ok(Summary {
                trace: Some(trace), ..
            })) => eprintln!("gpustall: trace written to {}", trace.display()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => eprintln!("gpustall: {error}"),
            Err(_) => eprintln!("gpustall: internal error while the session was dropped"),
        }
    }
}

impl Active {
    fn start(builder: SessionBuilder) -> Result<Self, SessionError> {
        let start = MonotonicClock::read();
        let meta = Meta {
            name: builder.name,
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            start_mono: start,
            start_unix_ns: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos() as u64),
            pid: Pid(std::process::id()),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            state: State::Partial,
            ..Meta::default()
        };
        let partial_path = partial_path(&builder.output);
        // Fail now rather than after hours of training.
        if builder.output.is_dir() {
            return Err(SessionError::Output(WriteError::Create {
                path: builder.output,
                source: std::io::ErrorKind::IsADirectory.into(),
            }));
        }
        let mut partial =
            PartialWriter::create(&partial_path, &meta).map_err(SessionError::Output)?;
        if let Some(kept) = partial.kept() {
            let text = format!(
                "an earlier recording that was never finished is kept as {}",
                kept.display()
            );
            partial.push(&EventRef::Note { text: &text });
        }
        let generation = Generation::next();
        let exchange = Exchange::new(generation);
        exchange.publish();
        if let Some(text) = layer::attach(builder.subscriber) {
            partial.push(&EventRef::Note { text });
        }
        let emitter = Emitter::new(partial, start, meta.pid, &process_name(), &meta.name);
        let writer = WriterThread::spawn(exchange.clone(), emitter).map_err(|error| {
            Exchange::withdraw();
            SessionError::Thread(error)
        })?;
        crate::instrument::sample_items(builder.item_sampling);
        generation.open();
        layer::session_changed();
        Ok(Self {
            meta,
            output: builder.output,
            partial: partial_path,
            generation,
            exchange,
            writer,
            paused: Mutex::new(None),
        })
    }

    fn finish(self) -> Result<Summary, SessionError> {
        // A forked child has the session but not the writer thread, and must leave the file alone.
        if self.meta.pid != Pid(std::process::id()) {
            return Ok(Summary {
                report: None,
                trace: None,
            });
        }
        if let Some(start) = self.paused.lock().take() {
            self.exchange.pause(start, Some(MonotonicClock::read()));
        }
        self.generation.close();
        Exchange::withdraw();
        layer::session_changed();
        let outcome = self.writer.stop();
        *RUNNING.lock() = None;
        let partial = self.partial;
        let Ok(outcome) = outcome else {
            return Err(SessionError::WriterPanicked { partial });
        };
        let mut trace = match read(&partial) {
            Ok(read) => read.trace,
            Err(source) => return Err(SessionError::ReadBack { partial, source }),
        };
        trace.meta.state = State::Finished;
        trace.meta.end = trace
            .meta
            .end
            .max(outcome.end.in_trace(self.meta.start_mono));
        if let Some(error) = &outcome.error {
            trace
                .meta
                .notes
                .push(format!("the recording is incomplete: {error}"));
        }
        let unwritten = outcome.partial.events_lost();
        if unwritten > 0 {
            let source = trace.strings.intern("file that could not be written");
            trace.losses.push(Loss {
                source,
                at: trace.meta.end,
                total: unwritten,
            });
        }
        let report = gpustall_diagnose::diagnose(&trace);
        gpustall_diagnose::annotate(&mut trace, &report);
        match write_finished(&self.output, &trace) {
            Ok(_) => {
                // Everything in it is in the finished file now.
                let _ = outcome.partial.remove();
                Ok(Summary {
                    report: Some(report),
                    trace: Some(self.output),
                })
            }
            Err(source) => Err(SessionError::Finish { partial, source }),
        }
    }
}

/// What a finished session found. Its `Display` is the report and where the trace is.
#[derive(Debug, Clone)]
pub struct Summary {
    report: Option<Report>,
    trace: Option<PathBuf>,
}

impl Summary {
    /// The diagnosis; `None` when recording was switched off.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// The trace file; `None` when recording was switched off.
    pub fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.report, &self.trace) {
            (Some(report), Some(trace)) => write!(
                f,
                "{report}\ntrace: {} (open it at https://ui.perfetto.dev)",
                trace.display()
            ),
            _ => write!(
                f,
                "gpustall is switched off ({SWITCH} in the environment): nothing recorded"
            ),
        }
    }
}

fn switched_off() -> bool {
    std::env::var(SWITCH).is_ok_and(|value| {
        matches!(
            value.to_ascii_lowercase().as_str(),
            "off" | "0" | "false" | "no"
        )
    })
}

fn process_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "trainer".to_owned())
}

/// `name` as a file name: what would separate directories becomes `_`.
fn file_stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    if stem.is_empty() {
        "gpustall".to_owned()
    } else {
        stem
    }
}
