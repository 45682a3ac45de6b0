//! `serve`: sessions of the SDK get their kernel events over a socket.

use super::progress::ProgressLine;
use super::{ServeArguments, signals};
use anyhow::{Context, Result};
use gpustall_sidecar::Options;
use gpustall_sidecar::serve::{DEFAULT_MAX_HELD, Report, Server, SocketOptions, Status};
use gpustall_trace::Nanos;
use signal_hook::low_level::pipe;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

pub(super) fn run(arguments: &ServeArguments) -> Result<ExitCode> {
    let (stop, signalled) = UnixStream::pair().context("cannot handle signals")?;
    for signal in signals::ending() {
        let end = signalled.try_clone().context("cannot handle signals")?;
        pipe::register(signal, end).context("cannot handle signals")?;
    }
    let socket = SocketOptions {
        path: arguments.socket.clone(),
        mode: arguments.socket_mode,
        group: arguments.group.as_deref().map(group).transpose()?,
    };
    let options = Options {
        threshold: Nanos::new(u64::from(arguments.threshold) * 1000),
        ring_bytes: arguments.ring << 20,
        max_threads: arguments.max_threads,
        sample_hz: arguments.sample,
        page_allocs: false,
        max_intervals: DEFAULT_MAX_HELD,
        // The probes slow each call of every process, and a session knows its calls by itself.
        cuda_calls: false,
        ..Options::default()
    };
    let server = Server::start(&socket, &options)?;
    eprintln!("serving at {}", arguments.socket.display());
    let mut line = ProgressLine::new();
    server.run(stop.as_fd(), |status, reports| {
        for report in reports {
            line.interrupt();
            eprintln!("{}", sentence(&report));
        }
        if line.due() {
            line.show(&progress(status));
        }
    })?;
    drop(line);
    eprintln!("ended");
    Ok(ExitCode::SUCCESS)
}

fn progress(status: Status) -> String {
    format!(
        "serving {} jobs with {} threads, {} events sent, {} lost",
        status.clients, status.threads, status.events, status.lost
    )
}

fn sentence(report: &Report) -> String {
    match report {
        Report::Served { pid, user } => format!("process {pid} of user {user} is served"),
        Report::Refused { pid, user, why } => {
            format!("process {pid} of user {user} was refused: {why}")
        }
        Report::Left { pid } => format!("process {pid} has left"),
    }
}

/// The number of a group that is given by name or by number.
fn group(text: &str) -> Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").context("cannot read /etc/group")?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok())?
    });
    number.with_context(|| format!("there is no group {text} in /etc/group: give its number"))
}
