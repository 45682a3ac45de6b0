//! The command as a user runs it: what it prints, where, and its exit codes. One program for all of it, since
//! each of its tests runs the command as a process of its own.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod finish;
mod merge;
mod not_started;
mod open;
mod program;
mod python;
mod ranks;
mod recording;
mod report;
mod run;

use program::{gpustall, stdout};

#[test]
fn a_wrong_command_line_has_a_code_of_its_own() {
    assert_eq!(gpustall(&["report"], &[]).status.code(), Some(2));
    assert_eq!(
        gpustall(&["report", "--jsn", "x"], &[]).status.code(),
        Some(2)
    );
    assert_eq!(gpustall(&[], &[]).status.code(), Some(2));
}

#[test]
fn help_has_examples_and_the_exit_codes() {
    for args in [&["report", "--help"][..], &["finish", "--help"]] {
        let output = gpustall(args, &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("EXAMPLES:"));
        assert!(stdout(&output).contains("EXIT CODES:"));
    }
}
