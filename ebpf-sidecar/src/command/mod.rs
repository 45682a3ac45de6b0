//! Arguments of the command, and what each verb does.

mod check;
mod child;
mod progress;
mod record;
mod serve;
mod signals;
mod tally;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Records by eBPF what the threads of a job do when they do not run.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "EXAMPLES:
  gpustall-sidecar check
  sudo gpustall-sidecar record --pid 4711 --duration 10 -o job.trace.json.gz
  sudo gpustall-sidecar record -- python train.py
  sudo gpustall-sidecar serve

EXIT CODES:
  0  recorded, served until told to stop, or recording is possible; with `record -- COMMAND`, that of the command
  1  recording is not possible, or it failed
  2  the arguments are wrong"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Says what a recording needs on this machine, what is missing, and what mends it.
    Check {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Records a process, and what it forks, to a trace file.
    Record(RecordArguments),
    /// Gives the sessions of the SDK the kernel events of their own process, over a Unix socket.
    Serve(ServeArguments),
    /// Stops until it is continued, then runs the command: so that `record` sees it from its start.
    #[command(hide = true)]
    Start {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  sudo gpustall-sidecar record --pid 4711 --duration 10
  sudo gpustall-sidecar record -o train.trace.json.gz -- python train.py --epochs 1")]
struct RecordArguments {
    /// Process to record.
    #[arg(long, required_unless_present = "command", conflicts_with = "command")]
    pid: Option<u32>,
    /// Continue that process, which stands still, once it is recorded.
    #[arg(long, requires = "pid", hide = true)]
    resume: bool,
    /// Command to run and record. Runs with the privileges of this program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
    /// Stop after so many seconds; otherwise when the process ends, or at Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// File to write; compressed when its name ends in .gz.
    #[arg(short, long, default_value = "gpustall-sidecar.trace.json.gz")]
    output: PathBuf,
    /// Shorter stretches off CPU are only counted, microseconds.
    #[arg(long, value_name = "US", default_value_t = 20)]
    threshold: u32,
    /// Shorter stretches off CPU have no kernel stack, so that what they waited for is not known,
    /// microseconds.
    #[arg(long, value_name = "US", default_value_t = 20)]
    stack_threshold: u32,
    /// How often each CPU is looked at to see what a recorded thread on it runs; 0 for never.
    #[arg(long, value_name = "HZ", default_value_t = gpustall_sidecar::Options::DEFAULT_SAMPLE_HZ,
        value_parser = clap::value_parser!(u32).range(0..=10_000))]
    sample: u32,
    /// Count the pages that each recorded thread allocates. Slows every allocation of a page on the
    /// machine.
    #[arg(long)]
    page_allocs: bool,
    /// Size of the ring buffer, MiB; a power of two.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = power_of_two)]
    ring: u32,
    /// Do not record calls of the CUDA driver.
    #[arg(long)]
    no_cuda: bool,
    /// Most threads tracked at one time.
    #[arg(long, value_name = "N", default_value_t = gpustall_sidecar::Options::DEFAULT_MAX_THREADS)]
    max_threads: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  sudo gpustall-sidecar serve
  sudo gpustall-sidecar serve --group gpu --socket-mode 660")]
struct ServeArguments {
    /// Socket to listen at.
    #[arg(long, env = gpustall_protocol::SOCKET_VARIABLE,
        default_value = gpustall_protocol::DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Permissions of the socket, octal: who may write to it may connect. Every job sees its own
    /// processes only.
    #[arg(long, value_name = "MODE", default_value = "666", value_parser = octal)]
    socket_mode: u32,
    /// Group that the socket is given to, a name or a number.
    #[arg(long)]
    group: Option<String>,
    /// Shorter stretches off CPU are only counted, microseconds.
    #[arg(long, value_name = "US", default_value_t = 20)]
    threshold: u32,
    /// How often each CPU is looked at to see what a recorded thread on it runs; 0 for never.
    #[arg(long, value_name = "HZ", default_value_t = gpustall_sidecar::Options::DEFAULT_SAMPLE_HZ,
        value_parser = clap::value_parser!(u32).range(0..=10_000))]
    sample: u32,
    /// Size of the ring buffer, MiB; a power of two.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = power_of_two)]
    ring: u32,
    /// Most threads tracked at one time, over all jobs.
    #[arg(long, value_name = "N", default_value_t = gpustall_sidecar::Options::DEFAULT_MAX_THREADS)]
    max_threads: u32,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.verb {
        Verb::Check { json } => check::run(json),
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Start { command } => child::run(&command),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let length = Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())?;
    if length.is_zero() {
        return Err("must be more than 0".to_owned());
    }
    Ok(length)
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("must be octal, at most 777".to_owned()),
    }
}

fn power_of_two(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(mib) if mib.is_power_of_two() && mib <= 1024 => Ok(mib),
        _ => Err("must be a power of two, at most 1024".to_owned()),
    }
}
