//! `record`: a process, and what it forks, to a trace file.

use super::progress::{ProgressLine, recording};
use super::{RecordArguments, child, signals};
use anyhow::{Context, Result};
use gpustall_sidecar::{CudaClass, Options, Recorder, Recording};
use gpustall_trace::{Nanos, Pid, write_finished};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) fn run(arguments: &RecordArguments) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut recorder = Recorder::start(&options(arguments))?;
    writable(&arguments.output)?;
    for signal in signals::ending() {
        signal_hook::flag::register(signal, stop.clone()).context("cannot handle signals")?;
    }
    let (pid, mut job) = match arguments.pid {
        Some(pid) => {
            recorder.track_process(pid)?;
            if arguments.resume {
                child::resume(pid)?;
            }
            (pid, None)
        }
        None => {
            let stopped = child::start(&arguments.command)?;
            let pid = stopped.pid();
            recorder.track_process(pid)?;
            (pid, Some(stopped.go()?))
        }
    };
    let began = Instant::now();
    let mut line = ProgressLine::new();
    let mut status = None;
    loop {
        std::thread::sleep(Options::DRAIN_EVERY);
        recorder.drain();
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
    let recorded = recorder.finish();
    if status.is_some_and(|status| child::did_not_begin(status, &recorded)) {
        return Ok(ExitCode::from(child::CANNOT_RUN));
    }
    write(&recorded, &arguments.output, pid)?;
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

fn write(recording: &Recording, path: &Path, pid: u32) -> Result<()> {
    let leader = recording.threads.iter().find(|t| t.tid.0 == pid);
    let name = leader.map_or("process", |t| &t.name);
    let trace = recording.to_trace(name, Pid(pid));
    let stats =
        write_finished(path, &trace).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!(
        "{}: {:.1} s, {} threads, {} intervals off CPU, {} KiB",
        path.display(),
        trace.length().as_secs_f64(),
        recording.threads.len(),
        recording.intervals.len(),
        stats.bytes / 1024
    );
    let mut calls: BTreeMap<CudaClass, usize> = BTreeMap::new();
    for call in &recording.cuda_calls {
        *calls.entry(call.function.class()).or_default() += 1;
    }
    if !calls.is_empty() {
        let counts = calls
            .iter()
            .map(|(class, n)| format!("{n} {}", class.name()));
        eprintln!("CUDA calls: {}", counts.collect::<Vec<_>>().join(", "));
    }
    for (source, count) in recording.lost_by_source() {
        eprintln!("lost: {count} {source}");
    }
    for note in &recording.notes {
        eprintln!("note: {note}");
    }
    Ok(())
}

fn still_running(job: &Child) {
    eprintln!("the command goes on as process {}", job.id());
}
