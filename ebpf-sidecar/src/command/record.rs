//! `record`: a process, and what it forks, to a trace file.

use super::progress::{ProgressLine, recording};
use super::tally::Tally;
use super::{RecordArguments, child, signals};
use anyhow::{Context, Result, bail};
use gpustall_sidecar::{DEFAULT_MAX_EVENTS, Options, PartialRecording, Recorder, Recording};
use gpustall_trace::{Nanos, Pid, Tid, Trace, WriteError, partial_path, write_finished};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often what was recorded is handed to the operating system: what is lost with a recorder that is
/// killed.
const WRITE_EVERY: Duration = Duration::from_millis(500);

pub(super) fn run(arguments: &RecordArguments) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut recorder = Recorder::start(&options(arguments))?;
    writable(&arguments.output)?;
    for signal in signals::ending() {
        signal_hook::flag::register(signal, stop.clone()).context("cannot handle signals")?;
    }
    // A command stands still until it is recorded.
    let (pid, stopped) = match arguments.pid {
        Some(pid) => (pid, None),
        None => {
            let stopped = child::start(&arguments.command)?;
            (stopped.pid(), Some(stopped))
        }
    };
    recorder.track_process(pid)?;
    let mut kept = Kept::create(arguments, pid, &recorder)?;
    let mut job = stopped.map(child::Stopped::go).transpose()?;
    if arguments.resume {
        child::resume(pid)?;
    }
    let began = Instant::now();
    let mut line = ProgressLine::new();
    let mut status = None;
    loop {
        std::thread::sleep(Options::DRAIN_EVERY);
        recorder.drain();
        kept.write_when_due(&mut recorder);
        if line.due() {
            line.show(&recording(recorder.progress()));
        }
        if let Some(job) = &mut job {
            status = job.try_wait().context("cannot wait for the command")?;
        }
        let over = arguments.duration.is_some_and(|d| began.elapsed() >= d);
        let ended = status.is_some() || recorder.progress().threads == 0;
        if over || ended || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(line);
    kept.add(&recorder.finish());
    if status.is_some_and(|status| child::did_not_begin(status, &kept.tally.names)) {
        kept.partial.discard();
        return Ok(ExitCode::from(child::CANNOT_RUN));
    }
    kept.finish(&arguments.output, pid)?;
    match status {
        Some(status) => Ok(ExitCode::from(child::code(status))),
        None => {
            if let Some(job) = &job {
                still_running(job);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Whether the file can be written, found out before anything is recorded; nothing in it is changed.
fn writable(path: &Path) -> Result<()> {
    let existed = path.exists();
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.with_context(|| {
        format!(
            "cannot write {}: choose another file with -o",
            path.display()
        )
    })?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn options(arguments: &RecordArguments) -> Options {
    Options {
        threshold: Nanos::new(u64::from(arguments.threshold) * 1000),
        stack_threshold: Nanos::new(u64::from(arguments.stack_threshold) * 1000),
        ring_bytes: arguments.ring << 20,
        max_threads: arguments.max_threads,
        sample_hz: arguments.sample,
        page_allocs: arguments.page_allocs,
        cuda_calls: !arguments.no_cuda,
        ..Options::default()
    }
}

/// What was recorded so far, in a file that stays if this program is killed.
struct Kept {
    partial: PartialRecording,
    tally: Tally,
    written: Instant,
}

impl Kept {
    fn create(arguments: &RecordArguments, pid: u32, recorder: &Recorder) -> Result<Self> {
        let path = partial_place(&arguments.output);
        let program = arguments.command.first().map(Path::new);
        let program = program.and_then(Path::file_name).unwrap_or_default();
        let name = match arguments.pid {
            Some(pid) => std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(),
            None => program.to_string_lossy().into_owned(),
        };
        let (name, start) = (name.trim_end(), recorder.start_time());
        let partial = PartialRecording::create(&path, name, Pid(pid), start, DEFAULT_MAX_EVENTS);
        let partial = match partial {
            Err(WriteError::Busy { path }) => bail!(
                "another recording writes to {}: end it, or choose another file with -o",
                path.display()
            ),
            partial => partial.context("choose another file with -o")?,
        };
        Ok(Self {
            partial,
            tally: Tally::default(),
            written: Instant::now(),
        })
    }

    fn add(&mut self, part: &Recording) {
        self.tally.add(part);
        self.partial.add(part);
    }

    fn write_when_due(&mut self, recorder: &mut Recorder) {
        if self.written.elapsed() >= WRITE_EVERY {
            self.written = Instant::now();
            self.add(&recorder.take());
        }
    }

    /// Writes the finished trace.
    fn finish(self, path: &Path, pid: u32) -> Result<()> {
        let (mut trace, partial) = self.partial.finish()?;
        if let Some(name) = name_of_first_thread(&trace, pid) {
            trace.meta.name = name;
        }
        let stats = write_finished(path, &trace).with_context(|| {
            format!(
                "cannot write {}; what was recorded is in {}: make room, and run `gpustall finish` on it",
                path.display(),
                partial.path().display()
            )
        })?;
        // Where it cannot be deleted it does no harm.
        let _ = partial.remove();
        self.tally.tell(path, &trace, stats.bytes);
        Ok(())
    }
}

/// Where the file is that grows: beside the trace, unless that is no plain file.
fn partial_place(output: &Path) -> PathBuf {
    match std::fs::metadata(output) {
        Ok(there) if !there.is_file() => {
            let own = std::process::id();
            std::env::temp_dir().join(format!("gpustall-sidecar.{own}.json.partial"))
        }
        _ => partial_path(output),
    }
}

/// What the process is called now.
fn name_of_first_thread(trace: &Trace, pid: u32) -> Option<String> {
    let place = (Pid(pid), Tid(pid));
    let first = trace.tracks.iter().find(|t| (t.pid, t.tid) == place)?;
    Some(trace.text(first.name).to_owned())
}

fn still_running(job: &Child) {
    eprintln!("the command goes on as process {}", job.id());
}
