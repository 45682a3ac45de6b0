//! A command that is recorded from its start.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};

/// In the child: stops, and once it is continued becomes the command.
pub(super) fn run(command: &[String]) -> Result<ExitCode> {
    kill_process(getpid(), Signal::STOP).context("cannot stop")?;
    let [program, arguments @ ..] = command else {
        bail!("no command");
    };
    let error = Command::new(program).args(arguments).exec();
    eprintln!("gpustall-sidecar: cannot run {program}: {error}");
    Ok(ExitCode::from(CANNOT_RUN))
}

/// The exit code of a command that could not be started, as a shell gives it.
pub(super) const CANNOT_RUN: u8 = 127;

/// Whether a child that ended with `status` did so before it became the command; `names` has all that its
/// threads were called.
pub(super) fn did_not_begin(status: ExitStatus, names: &BTreeSet<String>) -> bool {
    // A program that runs has another name than this one.
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let still = |name: &String| name == own.trim_end();
    status.code() == Some(i32::from(CANNOT_RUN)) && names.iter().all(still)
}

/// A child that stands still before its command begins. It is ended if it never does.
pub(super) struct Stopped(Option<Child>);

/// Starts a child that will become `command`.
pub(super) fn start(command: &[String]) -> Result<Stopped> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let child = Command::new(program)
        .args(["start", "--"])
        .args(command)
        .spawn()
        .context("cannot start a process")?;
    let pid = Pid::from_child(&child);
    let status = waitpid(Some(pid), WaitOptions::UNTRACED).context("cannot wait for the child")?;
    match status {
        Some((_, status)) if status.stopped() => Ok(Stopped(Some(child))),
        other => bail!("the child did not start: {other:?}"),
    }
}

impl Stopped {
    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// Lets the command begin.
    pub(super) fn go(mut self) -> Result<Child> {
        let child = self.0.take().context("the child is gone")?;
        kill_process(Pid::from_child(&child), Signal::CONT).context("cannot continue the child")?;
        Ok(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets process `pid`, which somebody else stopped, go on.
pub(super) fn resume(pid: u32) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.context("there is no such process")?;
    kill_process(pid, Signal::CONT).context("cannot continue the process")
}

/// The exit code that a shell would give.
pub(super) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
