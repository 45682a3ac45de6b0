//! The `gpustall` command: read a trace and say why the device was starved.

mod args;
mod finish;
mod jobs;
mod merge;
mod open;
mod output;
mod report;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match run(args) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain("error", &output::describe(&error));
            ExitCode::FAILURE
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
