//! Trainers that run in a process of their own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a trainer did.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its exit status; `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Ended {
    /// What another program would see of it: its output and its exit status.
    pub fn seen(&self) -> (&str, Option<i32>) {
        (&self.stdout, self.code)
    }
}

/// A command for the trainer `exe` in `mode`, writing to `output`, with recording switched on.
pub fn trainer(exe: &str, mode: &str, output: &Path) -> Command {
    let mut command = Command::new(exe);
    command.arg(mode).arg(output).env_remove("GPUSTALL");
    command
}

/// Runs `command` to its end.
pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code(),
    }
}

/// Runs the trainer with recording and without; both must look the same from outside.
pub fn run_both(exe: &str, mode: &str, output: &Path) -> Ended {
    let with = run(&mut trainer(exe, mode, output));
    assert_unchanged(&with, &run_without(exe, mode));
    with
}

/// Runs the trainer with recording switched off; it must then write no file.
pub fn run_without(exe: &str, mode: &str) -> Ended {
    let empty = tempfile::tempdir().unwrap();
    let output = empty.path().join("off.trace.json");
    let ended = run(trainer(exe, mode, &output)
        .env("GPUSTALL", "off")
        .current_dir(empty.path()));
    let left: Vec<_> = empty.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "switched off, yet it wrote {left:?}");
    ended
}

/// Recording changed nothing that another program sees.
pub fn assert_unchanged(with: &Ended, without: &Ended) {
    assert_eq!(
        with.seen(),
        without.seen(),
        "the same program without recording: {}",
        with.stderr
    );
}

/// Runs `script` in `sh` with `args` as `$1`, `$2`, ...; SIGXFSZ is ignored, so that a file that
/// reaches its size limit is a failed write and not the end of the process.
pub fn in_shell<S: AsRef<OsStr>>(script: &str, args: &[S]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("trap '' XFSZ; {script}"))
        .arg("sh")
        .args(args)
        .env_remove("GPUSTALL");
    command
}

/// A trainer that is watched while it runs; killed when dropped.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line it prints.
    pub fn line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// Lets it go on: it waits until its standard input is closed.
    pub fn go_on(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Ends it with SIGKILL and returns the lines that it had printed and nobody had read.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.by_ref().map_while(Result::ok).collect()
    }

    /// Waits until it ends by itself; its status and the lines that nobody had read.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        self.go_on();
        let lines = self.lines.by_ref().map_while(Result::ok).collect();
        (self.child.wait().unwrap().code(), lines)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
