//! The process of a job before it is the job: it stands still until it is recorded.

use crate::args::StartArgs;
use crate::output::complain;
use gpustall_inject::OUTPUT_VARIABLE;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

/// What [`start`] leaves with the parts of a job that it could not start.
const REFUSED: &str = "refused";

/// In the child: stops, and once it is continued becomes the job.
pub(crate) fn start(args: &StartArgs) -> anyhow::Result<ExitCode> {
    kill_process(getpid(), Signal::STOP)?;
    let [program, rest @ ..] = args.command.as_slice() else {
        anyhow::bail!("no command");
    };
    let error = Command::new(program).args(rest).exec();
    if let Some(folder) = std::env::var_os(OUTPUT_VARIABLE) {
        let _ = std::fs::write(Path::new(&folder).join(REFUSED), "");
    }
    Ok(refused(program, &error))
}

/// Whether a job whose parts are in `folder` could not be started by [`start`].
pub(super) fn was_refused(folder: &Path) -> bool {
    folder.join(REFUSED).exists()
}

/// Says why a job could not be started. Returns the exit code that env and timeout have for it.
pub(super) fn refused(program: &OsStr, error: &std::io::Error) -> ExitCode {
    let text = format!("cannot run {}: {error}", program.display());
    complain("error", &text);
    ExitCode::from(match error.kind() {
        ErrorKind::NotFound => 127,
        // There is no room for one more process, or no signal can be caught.
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory | ErrorKind::Other => super::FAILED,
        _ => 126,
    })
}

/// Whether `program` is there, so that nothing but [`start`] itself can fail in the child.
pub(super) fn is_there(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Waits until `child`, which runs [`start`], has stopped; false if it ended instead.
pub(super) fn has_stopped(child: &Child) -> bool {
    let stopped = waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED);
    matches!(stopped, Ok(Some((_, status))) if status.stopped())
}

/// Whether process `pid` stands still.
pub(super) fn stands_still(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may hold anything.
    let state = status
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with('T'));
    state == Some(true)
}
