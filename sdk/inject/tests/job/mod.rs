//! Jobs with the library in them, and a stand-in for CUPTI.
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest that anything here may take; the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// A job that runs.
pub(crate) struct Job {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) child: Child,
}

/// Starts `python` with the library in it, as the driver would load it; `answer` is what the stand-in
/// says to one who wants to subscribe.
pub(crate) fn start(answer: u32, python: &str) -> Job {
    start_with(&[("GPUSTALL_CUDA_BUDGET", "all")], answer, python)
}

/// The same with these variables.
pub(crate) fn start_with(variables: &[(&str, &str)], answer: u32, python: &str) -> Job {
    let python = format!("library.InitializeInjection()\n{python}");
    start_before(variables, answer, &python)
}

/// The same before the driver is initialised: `python` calls `library.InitializeInjection()`.
pub(crate) fn start_before(variables: &[(&str, &str)], answer: u32, python: &str) -> Job {
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
         library = ctypes.CDLL({:?})\n\
         cupti = ctypes.CDLL(os.environ['GPUSTALL_CUPTI'])\n\
         def of(name): return ctypes.c_int.in_dll(cupti, name)\n\
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
    pub(crate) fn wait_for_kernels(&self) {
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

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Its end, and the only trace that it left.
    pub(crate) fn end(mut self) -> (ExitStatus, Trace) {
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

/// How many kernels are in it.
pub(crate) fn kernels(trace: &Trace) -> usize {
    let kernel = trace.strings.find(cat::KERNEL);
    trace
        .slices
        .iter()
        .filter(|s| Some(s.cat) == kernel)
        .count()
}
