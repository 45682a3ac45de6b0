//! The sidecar beside the job, where it is installed and may record.

use super::parts::Parts;
use crate::args::RunArgs;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The name of its program.
const PROGRAM: &str = "gpustall-sidecar";
/// How the note begins that says why it recorded nothing.
pub(crate) const NOT_RECORDED: &str = "What threads do when they do not run was not recorded:";
/// How long it may take to write its recording.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sidecar that records, or why there is none.
pub(super) enum Beside {
    Records { child: Child, log: PathBuf },
    Absent(String),
}

/// Its program, if it may record this job; else why not.
pub(super) fn usable(args: &RunArgs) -> Result<PathBuf, &'static str> {
    if args.no_sidecar {
        return Err("--no-sidecar was given");
    }
    let program =
        find().ok_or("gpustall-sidecar is neither beside gpustall nor on the PATH; the README says how it is built")?;
    match geteuid().is_root() {
        true => Ok(program),
        false => Err("only root may record that; run `gpustall run` as root"),
    }
}

/// Starts it, if it is usable. It continues the job, which stands still, once it records it, and
/// stops when the job has ended.
pub(super) fn start(usable: Result<PathBuf, &str>, pid: u32, parts: &Parts) -> Beside {
    let absent = |why: &str| Beside::Absent(format!("{NOT_RECORDED} {why}."));
    let program = match usable {
        Ok(program) => program,
        Err(why) => return absent(why),
    };
    let log = parts.folder().join("sidecar.log");
    let output = File::create(&log).map_or_else(|_| Stdio::null(), Stdio::from);
    let child = Command::new(program)
        // Its CUDA calls come from the library in the job, for less.
        .args([
            "record",
            "--resume",
            "--no-cuda",
            "--pid",
            &pid.to_string(),
            "-o",
        ])
        .arg(parts.sidecar())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn();
    match child {
        Ok(child) => Beside::Records { child, log },
        Err(error) => absent(&format!("gpustall-sidecar could not be started ({error})")),
    }
}

impl Beside {
    /// Whether it records nothing, or nothing any more.
    pub(super) fn is_over(&mut self) -> bool {
        match self {
            Self::Absent(_) => true,
            Self::Records { child, .. } => !matches!(child.try_wait(), Ok(None)),
        }
    }

    /// Waits until its recording is written; returns what the user should know.
    pub(super) fn finish(self) -> Option<String> {
        let (mut child, log) = match self {
            Beside::Absent(why) => return Some(why),
            Beside::Records { child, log } => (child, log),
        };
        // It ends by itself with the last thread of the job; what the job left running goes on.
        let asked = Instant::now();
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(_)) | Err(_) => break,
                Ok(None) if asked.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        let said = said.lines().next_back().unwrap_or("it did not say why");
        Some(format!("{NOT_RECORDED} gpustall-sidecar failed ({said})."))
    }
}

/// The program: beside this one, or on the path.
fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside
        .into_iter()
        .chain(on_path)
        .find(|path| path.is_file())
}
