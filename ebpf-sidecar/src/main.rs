//! The command `gpustall-sidecar`.

mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match command::run(command::Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gpustall-sidecar: {error:#}");
            ExitCode::FAILURE
        }
    }
}
