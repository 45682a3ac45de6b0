//! Runs the command, and shows what it said.

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The command, not started yet.
pub(crate) fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gpustall"))
}

/// What `gpustall ARGS PATHS` gave.
pub(crate) fn gpustall(args: &[&str], paths: &[&Path]) -> Output {
    command()
        .args(args)
        .args(paths)
        .output()
        .expect("the command starts")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder that goes away with the test.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("there is a place for temporary files")
}
