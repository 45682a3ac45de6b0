//! The job itself: started with the library, signalled as we are, waited for.

use super::parts::Parts;
use super::python::Hook;
use super::start;
use crate::args::RunArgs;
use anyhow::Context;
use gpustall_inject::{BUDGET_VARIABLE, OUTPUT_VARIABLE, WHOLE_VARIABLE, program_name};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Tells the CUDA driver which library to load.
const INJECTION_VARIABLE: &str = "CUDA_INJECTION64_PATH";

/// How long a job stands still for its recorder at most.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// The running job.
pub(super) struct Job {
    child: Child,
    signals: Signals,
}

impl Job {
    /// Starts it. If `held`, it stands still until it is [continued](Self::go_on).
    pub(super) fn start(
        args: &RunArgs,
        parts: &Parts,
        library: &Path,
        hook: &Hook,
        held: bool,
    ) -> std::io::Result<Self> {
        // Before the job is there, so that no signal is missed.
        let signals = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let signals = Signals::new(signals)?;
        let [program, rest @ ..] = args.command.as_slice() else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let own = std::env::current_exe().ok();
        let own = own.filter(|_| held && start::is_there(program));
        let mut command = match &own {
            Some(own) => {
                let mut command = Command::new(own);
                command.args(["start", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(rest)
            .env(OUTPUT_VARIABLE, parts.folder())
            .env(BUDGET_VARIABLE, &args.budget)
            .env(WHOLE_VARIABLE, args.whole.to_string());
        command.envs(hook.path());
        // Another profiler's library is what the user asked for before us.
        if std::env::var_os(INJECTION_VARIABLE).is_none() {
            command.env(INJECTION_VARIABLE, library);
        }
        let child = command.spawn()?;
        if own.is_some() && !start::has_stopped(&child) {
            return Err(std::io::Error::other("it ended before it began"));
        }
        Ok(Self { child, signals })
    }

    /// Waits until somebody else has continued the job, and does it itself if `give_up` says so or it
    /// takes too long.
    pub(super) fn go_on(&self, mut give_up: impl FnMut() -> bool) {
        let began = Instant::now();
        while start::stands_still(self.pid()) {
            if give_up() || began.elapsed() > PATIENCE {
                self.signal_as(Signal::CONT);
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, handing on the signals that this process gets. Returns the exit code that
    /// a shell would give.
    pub(super) fn wait(&mut self, parts: &Parts) -> anyhow::Result<u8> {
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for the job")? {
                let signal = status.signal().map(|signal| 128 + signal);
                let code = status.code().or(signal).unwrap_or(1);
                return Ok(u8::try_from(code).unwrap_or(1));
            }
            for signal in self.signals.wait() {
                match signal {
                    SIGCHLD => {}
                    SIGUSR1 => parts.ask_for_window(),
                    // The terminal sends these to the job itself.
                    SIGINT | SIGQUIT if from_terminal() => {}
                    signal => self.signal(signal),
                }
            }
        }
    }

    fn signal(&self, number: i32) {
        let named = match number {
            SIGHUP => Signal::HUP,
            SIGINT => Signal::INT,
            SIGQUIT => Signal::QUIT,
            SIGUSR2 => Signal::USR2,
            _ => Signal::TERM,
        };
        self.signal_as(named);
    }

    fn signal_as(&self, signal: Signal) {
        // It may have ended just now.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

/// Whether signals from the keyboard reach the job too: it shares our terminal and group.
fn from_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal()
}

/// What the job is called.
pub(super) fn name(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    program_name(&words)
}
