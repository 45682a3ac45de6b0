//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Say why a GPU, or the training thread that stands for it, was starved.
#[derive(Debug, Parser)]
#[command(name = "gpustall", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
EXIT CODES:
  0  done, whether or not there are findings
  1  a trace could not be read or written; the others were still reported
  2  the command line is wrong
  that of the job, for `gpustall run`, or 125 to 127: see `gpustall run --help`";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    #[command(hide = true)]
    Start(StartArgs),
    Report(ReportArgs),
    Open(OpenArgs),
    Finish(FinishArgs),
    Merge(MergeArgs),
}

const RUN_EXAMPLES: &str = "\
EXAMPLES:
  gpustall run -- python train.py --epochs 1

  Capture all device operations, whatever it costs:
    gpustall run --budget all -o slow.trace.json.gz -- ./target/release/train

  Another window of device operations, now:
    kill -USR1 $(pidof gpustall)

EXIT CODES:
  that of the job, 128 + N if signal N ended it
  125  gpustall itself failed, or its command line is wrong: the job did not run
  126  the job was found and could not be started
  127  the job was not found";

/// Prints why the command line was refused, or the help that it asks for. Returns the exit code.
pub(crate) fn refused(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let runs = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    match error.exit_code() {
        // The job's own code may be 2.
        2 if runs => ExitCode::from(crate::run::FAILED),
        code => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    }
}

/// Run a job that knows nothing of gpustall, and report on it.
///
/// What its CUDA devices do is recorded through a library that the CUDA driver loads into each
/// process of the job. What its threads do when they do not run is recorded by gpustall-sidecar, if
/// it is installed and this command is run by root. In a Python program that uses PyTorch, the calls
/// of its DataLoaders and optimizers are marked. The job itself is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Where the trace goes, compressed if the name ends in .gz; it must not be there yet. By default
    /// NAME.trace.json.gz, of the program or of the script that Python runs; an earlier trace there becomes
    /// NAME.1.trace.json.gz, NAME.2.trace.json.gz and so on
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Write over a file that is there already
    #[arg(long)]
    pub(crate) force: bool,

    /// Do not record with gpustall-sidecar, even where that would work
    #[arg(long)]
    pub(crate) no_sidecar: bool,

    /// Do not mark DataLoaders and optimizers of PyTorch programs
    #[arg(long)]
    pub(crate) no_python: bool,

    /// What capturing device operations may cost, percent of the job's time; or `all`
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = budget)]
    pub(crate) budget: String,

    /// Seconds at the beginning in which all device operations are captured, whatever it costs
    #[arg(long, value_name = "SECONDS", default_value = "20")]
    pub(crate) whole: f64,

    /// The job
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Stop until continued, then become the job: so that it is recorded from its start.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// The job
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

fn budget(text: &str) -> Result<String, String> {
    let percent = text.trim_end_matches('%');
    let number = percent.parse::<f64>().ok().filter(|number| *number >= 0.0);
    match number.is_some() || percent == "all" {
        true => Ok(percent.to_owned()),
        false => Err("give a percentage such as 1, or `all`".to_owned()),
    }
}

const REPORT_EXAMPLES: &str = "\
EXAMPLES:
  What finish() printed, again:
    gpustall report mlp.trace.json.gz

  A job that was killed, or still runs:
    gpustall report mlp.trace.json.partial

  What torch.profiler wrote:
    gpustall report run.pt.trace.json.gz

  The share of each cause, for a script:
    gpustall report --json mlp.trace.json.gz | jq .breakdown

EXIT CODES:
  0  reported, whether or not there are findings
  1  a trace could not be read; the others were still reported
  2  the command line is wrong";

/// Print the report on traces.
///
/// A finished trace carries the report that finish() printed, and that one is shown, unless a version with
/// other rules made it; a partial one is diagnosed now, as far as it got, and so is a trace of PyTorch's
/// profiler.
#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Trace files: finished (.json, .json.gz) or partial (.json.partial) ones of gpustall, and
    /// those of PyTorch's profiler. Those of the ranks of one job are diagnosed together
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Print JSON: the report of one trace, or a list of {trace, traces, report} for several
    #[arg(long)]
    pub(crate) json: bool,

    /// Diagnose again, even if the trace carries a report
    #[arg(long)]
    pub(crate) fresh: bool,
}

const OPEN_EXAMPLES: &str = "\
EXAMPLES:
  gpustall open mlp.trace.json.gz

  What torch.profiler wrote, with its starvation chains:
    gpustall open run.pt.trace.json.gz

  From a machine without a browser; then open the address on yours:
    ssh -L 9001:127.0.0.1:9001 MACHINE gpustall open mlp.trace.json.gz";

/// Show a trace in Perfetto's UI, the starvation chains on top
///
/// The address that is printed opens <https://ui.perfetto.dev> with the tracks of the story pinned: the
/// starvation chains, the device, the trainer, a producer of its batches; with a stall of the first cause selected,
/// so that the arrows to what it waited for are drawn, and some steps around it. The trace goes from this
/// machine to your browser and nowhere else.
#[derive(Debug, clap::Args)]
#[command(after_help = OPEN_EXAMPLES)]
pub(crate) struct OpenArgs {
    /// The trace: finished, partial, or of PyTorch's profiler
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Print the address only
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Where Perfetto's UI is, for those who host it themselves
    #[arg(long, value_name = "URL", default_value = "https://ui.perfetto.dev")]
    pub(crate) ui: String,

    /// The port of this machine from which the UI fetches the trace; 0 for any that is free. That of
    /// ui.perfetto.dev fetches from this one only
    #[arg(long, default_value_t = 9001)]
    pub(crate) port: u16,
}

const FINISH_EXAMPLES: &str = "\
EXAMPLES:
  gpustall finish mlp.trace.json.partial
    writes mlp.trace.json.gz, which Perfetto opens with its starvation chains

  gpustall finish mlp.trace.json.partial -o /tmp/mlp.trace.json

  What a killed `gpustall run` left:
    gpustall finish train.trace.parts

EXIT CODES:
  0  written
  1  the partial trace could not be read, or the finished one not written
  2  the command line is wrong";

/// Turn a partial trace, of a job that was killed, into a finished one with its report.
///
/// The partial trace stays where it is.
#[derive(Debug, clap::Args)]
#[command(after_help = FINISH_EXAMPLES)]
pub(crate) struct FinishArgs {
    /// The partial trace, or the folder of parts that `gpustall run` left
    #[arg(value_name = "FILE.json.partial")]
    pub(crate) partial: PathBuf,

    /// Where the finished trace goes, compressed if the name ends in .gz; it must not be there yet. By
    /// default beside the partial one, as .json.gz
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Write over a file that is there already
    #[arg(long)]
    pub(crate) force: bool,
}

const MERGE_EXAMPLES: &str = "\
EXAMPLES:
  What the SDK recorded, and what the kernel did meanwhile:
    gpustall merge mlp.trace.json.gz record.trace.json.gz -o both.trace.json.gz

  The file of tracing-chrome's layer, as gpustall's feature `tracing-chrome` makes it:
    gpustall merge spans.json record.trace.json.gz -o both.trace.json.gz

  A job that was killed:
    gpustall merge mlp.trace.json.partial record.trace.json.gz -o both.trace.json.gz

  The ranks of one job, in one picture:
    gpustall merge rank0.trace.json.gz rank1.trace.json.gz -o job.trace.json.gz

EXIT CODES:
  0  merged
  1  a trace could not be read, they do not belong together, or the merged one was not written
  2  the command line is wrong";

/// Set recordings of one job side by side in one trace, and report on it.
///
/// The one with the steps is diagnosed, whatever their order. The others add what they saw in the same
/// processes, such as what `gpustall-sidecar record` saw of the scheduler.
#[derive(Debug, clap::Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    /// Trace files of one job, finished or partial. Those of several ranks may be of several machines
    #[arg(required = true, num_args = 2.., value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Where the merged trace goes, compressed if the name ends in .gz; it must not be there yet
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Write over a file that is there already
    #[arg(long)]
    pub(crate) force: bool,
}
