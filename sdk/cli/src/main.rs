//! The `gpustall` command: read a trace and say why the device was starved.

mod args;
mod carried;
mod finish;
mod input;
mod jobs;
mod merge;
mod open;
mod order;
mod output;
mod place;
mod report;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refused(&error),
    };
    // The exit code of `run` is the job's.
    let failure = match args.command {
        args::Command::Run(_) | args::Command::Start(_) => ExitCode::from(run::FAILED),
        _ => ExitCode::FAILURE,
    };
    match run(args) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain("error", &output::describe(&error));
            failure
        }
    }
}

fn run(args: args::Args) -> anyhow::Result<ExitCode> {
    match args.command {
        args::Command::Run(args) => run::run(&args),
        args::Command::Start(args) => run::start(&args),
        args::Command::Report(args) => report::run(&args),
        args::Command::Open(args) => open::run(&args),
        args::Command::Finish(args) => finish::run(&args),
        args::Command::Merge(args) => merge::run(&args),
    }
}
