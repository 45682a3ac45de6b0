//! The sidecar serving, and jobs that have sessions with it.

use crate::harness::{DEADLINE, Job};
use crate::workload::{OUTPUT, SOCKET};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Slice, Trace, partial_path, read};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// `gpustall-sidecar serve` in a folder of its own.
pub(crate) struct Serving {
    pub(crate) child: Child,
    lines: BufReader<ChildStderr>,
    folder: TempDir,
}

impl Serving {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Jobs of other users write their traces there.
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        let socket = folder.path().join("s");
        let mut child = serve(&socket, arguments);
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut serving = Self {
            child,
            lines,
            folder,
        };
        serving.expect("serving at");
        serving
    }

    /// Starts another one where this one has served.
    pub(crate) fn start_again(&mut self) {
        self.child = serve(&self.socket(), &[]);
        self.lines = BufReader::new(self.child.stderr.take().unwrap());
        self.expect("serving at");
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says so.
    pub(crate) fn expect(&mut self, words: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.contains(words) {
                return line;
            }
            line.clear();
        }
        panic!("the sidecar ended without saying {words}");
    }

    /// A field of its status in `/proc`.
    pub(crate) fn status(&self, field: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().trim().to_owned()
    }

    /// Starts a job with a session, by a command to which the test binary's arguments are added.
    pub(crate) fn session_as(&self, mut program: Command, name: &str) -> Session {
        let output = self.folder.path().join(format!("{name}.trace.json"));
        program.env(OUTPUT, &output).env(SOCKET, self.socket());
        let mut job = Job::start_as(program, "session");
        let ids = job.expect("ids");
        let mut ids = ids.split(' ').map(|id| id.parse().unwrap());
        let mut next = || ids.next().unwrap();
        Session {
            pid: next(),
            napper: next(),
            spinner: next(),
            children: [next(), next()],
            job,
            output,
        }
    }

    pub(crate) fn session(&self, name: &str) -> Session {
        self.session_as(Command::new(std::env::current_exe().unwrap()), name)
    }
}

fn serve(socket: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gpustall-sidecar"))
        .arg("serve")
        .arg("--socket")
        .arg(socket)
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job with a session; ids as the job sees them.
pub(crate) struct Session {
    pub(crate) job: Job,
    pub(crate) pid: u32,
    pub(crate) napper: u32,
    pub(crate) spinner: u32,
    pub(crate) children: [u32; 2],
    output: PathBuf,
}

impl Session {
    /// Lets it finish; returns its trace.
    pub(crate) fn finish(&mut self) -> Trace {
        self.job.go();
        assert_eq!(self.job.expect("finished"), "true");
        let outcome = read(&self.output).unwrap();
        assert_eq!(outcome.warnings, [""; 0]);
        outcome.trace
    }

    /// Its partial file as it is.
    pub(crate) fn partial(&self) -> Trace {
        read(&partial_path(&self.output)).unwrap().trace
    }

    /// Waits until so many waits of the napper are in the partial file.
    pub(crate) fn wait_for_naps(&self, count: usize) {
        eventually("naps in the partial file", || {
            off_cpu(&self.partial(), self.napper).len() >= count
        });
    }
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the trace says to its user, but for what the kernel of this machine leaves out.
pub(crate) fn notes(trace: &Trace) -> Vec<&str> {
    let notes = trace.meta.notes.iter().map(String::as_str);
    notes
        .filter(|note| !note.contains("did not report"))
        .collect()
}

/// The stretches off CPU of a thread.
pub(crate) fn off_cpu(trace: &Trace, tid: u32) -> Vec<&Slice> {
    let of = |slice: &&Slice| {
        trace.text(slice.cat) == cat::OFF_CPU
            && trace.arg_u64(&slice.args, arg::THREAD) == Some(tid.into())
    };
    trace.slices.iter().filter(of).collect()
}
