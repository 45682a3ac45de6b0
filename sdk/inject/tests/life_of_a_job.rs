//! The library in a job, with a stand-in for CUPTI: every way that a process ends leaves a trace that
//! can be read, and ends as it would have done.

use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest that anything here may take; the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(120);

struct Job {
    folder: tempfile::TempDir,
    child: Child,
}

/// Starts `python` with the library in it, as the driver would load it; `answer` is what the stand-in
/// says to one who wants to subscribe.
fn start(answer: u32, python: &str) -> Job {
    start_with(&[("GPUSTALL_CUDA_BUDGET", "all")], answer, python)
}

/// The same with these variables.
fn start_with(variables: &[(&str, &str)], answer: u32, python: &str) -> Job {
    let folder = tempfile::tempdir().expect("the directory for temporary files is writable");
    let cupti = folder.path().join("libcupti.so.13");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in/cupti.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&cupti)
        .arg(format!("-DANSWER={answer}"))
        .arg(source)
        .status()
        .expect("a C compiler is there: Rust links with it");
    assert!(compiled.success());
    let own = std::env::current_exe().expect("a test knows where it is");
    let library = own.with_file_name("libgpustall_inject.so");
    assert!(library.exists(), "cargo builds it beside the test");
    let program = format!(
        "import ctypes, os, signal, sys, time\n\
         ctypes.CDLL({:?}).InitializeInjection()\n\
         def ready(): open(os.environ['GPUSTALL_OUTPUT'] + '/ready', 'w').close()\n\
         {python}",
        library
    );
    let child = Command::new("python3")
        .args(["-c", &program])
        .env("GPUSTALL_OUTPUT", folder.path())
        .env("GPUSTALL_CUPTI", cupti)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .spawn()
        .expect("Python is there");
    Job { folder, child }
}

impl Job {
    fn parts(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder is readable");
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|e| e == "partial"))
            .collect()
    }

    /// Waits until the job is ready and kernels are in its file.
    fn wait_for_kernels(&self) {
        let begin = Instant::now();
        let ready = self.folder.path().join("ready");
        let written = || {
            let parts = self.parts();
            parts
                .iter()
                .any(|part| read(part).is_ok_and(|r| kernels(&r.trace) > 0))
        };
        while !(ready.exists() && written()) {
            assert!(begin.elapsed() < DEADLINE, "no kernels are written");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Its end, and the only trace that it left.
    fn end(mut self) -> (ExitStatus, Trace) {
        let status = self.child.wait().expect("it was started here");
        let parts = self.parts();
        let [part] = parts.as_slice() else {
            panic!("one process leaves one file: {parts:?}");
        };
        let outcome = read(part).expect("the file is readable");
        assert_eq!(outcome.trace.meta.pid.0, self.child.id());
        (status, outcome.trace)
    }
}

fn kernels(trace: &Trace) -> usize {
    let kernel = trace.strings.find(cat::KERNEL);
    trace
        .slices
        .iter()
        .filter(|s| Some(s.cat) == kernel)
        .count()
}

#[test]
fn a_job_that_ends_has_its_last_records_written() {
    // Nothing has come by then but what the end asks for.
    let (status, trace) = start(0, "sys.exit(3)").end();
    assert_eq!(status.code(), Some(3));
    assert!(kernels(&trace) > 0);
    assert_eq!(trace.lost_by_source().get("CUPTI"), Some(&3));
}

#[test]
fn a_job_of_which_nothing_is_captured_whole_gets_a_window() {
    let variables = [("GPUSTALL_CUDA_WHOLE", "0"), ("GPUSTALL_CUDA_BUDGET", "5")];
    let job = start_with(&variables, 0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-TERM");
    let (_, trace) = job.end();
    assert!(kernels(&trace) > 0);
}

#[test]
fn a_job_that_ends_before_its_first_window_says_so() {
    // A budget with which the first window opens after an hour.
    let variables = [
        ("GPUSTALL_CUDA_WHOLE", "0"),
        ("GPUSTALL_CUDA_BUDGET", "0.0005"),
    ];
    let (status, trace) = start_with(&variables, 0, "sys.exit(0)").end();
    assert!(status.success());
    assert_eq!(kernels(&trace), 0);
    let notes = &trace.meta.notes;
    assert!(
        notes.len() == 1 && notes[0].contains("GPUSTALL_CUDA_WHOLE"),
        "{notes:?}"
    );
}

#[test]
fn sigterm_ends_a_job_as_it_would_have_and_leaves_a_trace() {
    let job = start(0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-TERM");
    let (status, trace) = job.end();
    assert_eq!(status.signal(), Some(15));
    assert!(kernels(&trace) > 0);
}

#[test]
fn a_job_that_handles_sigterm_goes_on_to_do_so() {
    let python = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); ready(); time.sleep(600)";
    let job = start(0, python);
    job.wait_for_kernels();
    job.signal("-TERM");
    let (status, _) = job.end();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn a_killed_job_leaves_what_was_flushed() {
    let job = start(0, "ready(); time.sleep(600)");
    job.wait_for_kernels();
    job.signal("-KILL");
    let (status, trace) = job.end();
    assert_eq!(status.signal(), Some(9));
    assert!(kernels(&trace) > 0);
}

#[test]
fn a_forked_child_ends_at_once_and_leaves_no_file() {
    let python = "pid = os.fork()\n\
                  if pid == 0: sys.exit(5)\n\
                  code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
                  ready(); sys.exit(code)";
    let (status, trace) = start(0, python).end();
    assert_eq!(status.code(), Some(5));
    assert!(kernels(&trace) > 0);
}

#[test]
fn beside_another_profiler_there_is_one_note_and_nothing_else() {
    let (status, trace) = start(39, "sys.exit(0)").end();
    assert!(status.success());
    assert_eq!(kernels(&trace), 0);
    let notes = &trace.meta.notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("another profiler"), "{notes:?}");
}
