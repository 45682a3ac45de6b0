//! `gpustall run` on jobs without a device: the job is as it is without us.

use crate::program::{command, folder, gpustall, stderr, stdout};
use crate::recording::kernel;
use gpustall_trace::{State, read, write_finished};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

fn run(folder: &Path, options: &[&str], script: &str) -> Output {
    command()
        .current_dir(folder)
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", script])
        .output()
        .expect("the command starts")
}

#[test]
fn a_job_without_a_device_runs_unchanged_and_the_report_says_what_is_missing() {
    let folder = folder();
    let output = run(
        folder.path(),
        &["--no-sidecar", "-o", "x.trace.json.gz"],
        "echo from the job; exit 7",
    );
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let printed = stdout(&output);
    assert!(printed.starts_with("from the job\n"), "{printed}");
    // The report breaks its lines.
    let words: Vec<_> = printed.split_whitespace().collect();
    let flat = words.join(" ");
    assert!(
        flat.contains("no device operations were recorded"),
        "{flat}"
    );
    assert!(flat.contains("--no-sidecar was given"), "{flat}");
    let read = read(&folder.path().join("x.trace.json.gz")).expect("the trace was written");
    assert_eq!(read.trace.meta.state, State::Finished);
    assert_eq!(read.trace.meta.name, "sh");
    let report = read.trace.report.expect("it was diagnosed");
    assert_eq!(report["evidence"]["level"], "gpustall run");
    assert!(!folder.path().join("x.trace.parts").exists());
}

#[test]
fn what_the_sidecar_notes_does_not_tell_why_there_are_no_devices() {
    let folder = folder();
    let left = folder.path().join("left");
    std::fs::create_dir(&left).expect("the folder is writable");
    let mut trace = read(&kernel(folder.path(), 7_000_000))
        .expect("it was just written")
        .trace;
    trace
        .meta
        .notes
        .push("the kernel did not report 3 switches".into());
    write_finished(&left.join("sidecar.trace.json.gz"), &trace).expect("the folder is writable");
    let options = ["--no-sidecar", "-o", "x.trace.json.gz"];
    let output = run(folder.path(), &options, "cp left/* \"$GPUSTALL_OUTPUT\"");
    assert!(output.status.success(), "{output:?}");
    let notes = read(&folder.path().join("x.trace.json.gz"))
        .expect("it was written")
        .trace
        .meta
        .notes;
    for said in [
        "the kernel did not report 3 switches",
        "The job used no CUDA device",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(said)), "{notes:?}");
    }
}

#[test]
fn the_job_gets_a_library_that_exists_and_a_folder() {
    let folder = folder();
    let script = "test -s \"$CUDA_INJECTION64_PATH\" && test -d \"$GPUSTALL_OUTPUT\" && \
                  echo budget $GPUSTALL_CUDA_BUDGET whole $GPUSTALL_CUDA_WHOLE";
    let options = ["--no-sidecar", "--budget", "2%", "--whole", "3"];
    let output = run(folder.path(), &options, script);
    assert!(output.status.success(), "{output:?}");
    let printed = stdout(&output);
    assert!(printed.starts_with("budget 2 whole 3\n"), "{printed}");
}

/// What the driver does in a job that uses a device, without the driver: the library is loaded and
/// called. It finds no CUPTI, or one that finds no driver, and the report says so in one line.
#[test]
fn a_library_that_cannot_capture_leaves_one_clear_line() {
    let folder = folder();
    let script = "python3 -c 'import ctypes, os; \
                  ctypes.CDLL(os.environ[\"CUDA_INJECTION64_PATH\"]).InitializeInjection()'";
    let output = run(
        folder.path(),
        &["--no-sidecar", "-o", "x.trace.json.gz"],
        &format!("GPUSTALL_CUPTI=/nowhere/libcupti.so {script}; echo rc $?"),
    );
    let printed = stdout(&output);
    assert!(printed.starts_with("rc 0\n"), "{output:?}");
    let read = read(&folder.path().join("x.trace.json.gz")).expect("the trace was written");
    let notes = read.trace.meta.notes;
    let about: Vec<_> = notes
        .iter()
        .filter(|note| note.starts_with("device operations were not recorded: /nowhere"))
        .collect();
    assert_eq!(about.len(), 1, "{notes:?}");
}

/// Starts a shell as a job in `folder`, and waits until it and its recording have made the files `ready`.
fn started(folder: &Path, script: &str, ready: &[&str]) -> Child {
    let child = command()
        .current_dir(folder)
        .args(["run", "--no-sidecar", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready.iter().all(|name| folder.join(name).exists()) {
        assert!(Instant::now() < deadline, "the job does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn signals_reach_the_job_and_its_end_is_ours() {
    let folder = folder();
    let script = "trap 'exit 9' TERM; : > ready; while :; do sleep 0.05; done";
    let mut child = started(folder.path(), script, &["ready"]);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let status = child.wait().expect("it was started here");
    assert_eq!(status.code(), Some(9));
    assert!(folder.path().join("sh.trace.json.gz").exists());
}

#[test]
fn a_job_that_a_signal_ends_gives_the_code_of_a_shell() {
    let folder = folder();
    let output = run(folder.path(), &["--no-sidecar"], "kill -KILL $$");
    assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
    assert_eq!(output.status.signal(), None);
}

#[test]
fn a_file_that_the_user_named_is_never_written_over() {
    let folder = folder();
    let place = folder.path().join("x.trace.json");
    std::fs::write(&place, "precious").expect("it can be written");
    let options = ["--no-sidecar", "-o", "x.trace.json"];
    let refused = run(folder.path(), &options, "echo ran");
    // The job was not started.
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert_eq!(stdout(&refused), "");
    let said = stderr(&refused);
    assert!(
        said.starts_with("error: x.trace.json is there already"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(std::fs::read(&place).expect("it is there"), b"precious");
    assert!(!folder.path().join("x.trace.parts").exists());
    let told = run(
        folder.path(),
        &[&options[..], &["--force"]].concat(),
        "echo ran",
    );
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(read(&place).is_ok());
}

#[test]
fn the_trace_of_an_earlier_run_and_what_the_job_wrote_there_are_kept() {
    let folder = folder();
    let of = |name: &str| folder.path().join(name);
    let first = run(folder.path(), &["--no-sidecar"], "exit 3");
    assert_eq!(stderr(&first), "");
    let before = std::fs::read(of("sh.trace.json.gz")).expect("it was written");
    let second = run(folder.path(), &["--no-sidecar"], "exit 4");
    assert_eq!(
        stderr(&second),
        "note: the earlier sh.trace.json.gz is now sh.1.trace.json.gz\n"
    );
    assert_eq!(
        std::fs::read(of("sh.1.trace.json.gz")).expect("it is kept"),
        before
    );
    assert!(read(&of("sh.trace.json.gz")).is_ok());
    // A job that records itself may choose the same name.
    let third = run(
        folder.path(),
        &["--no-sidecar", "-o", "y.json"],
        "echo theirs > y.json",
    );
    let said = stderr(&third);
    assert_eq!(said, "note: the earlier y.json is now y.1.json\n");
    assert_eq!(
        std::fs::read(of("y.1.json")).expect("it is kept"),
        b"theirs\n"
    );
    assert!(read(&of("y.json")).is_ok());
}

#[test]
fn what_the_job_removed_is_not_said_to_be_kept() {
    let folder = folder();
    let options = ["--no-sidecar", "-o", "x.trace.json"];
    // The recording may make a file there meanwhile.
    let script = "while [ -e x.trace.parts ]; do rm -rf x.trace.parts; done; exit 3";
    let removed = run(folder.path(), &options, script);
    assert_eq!(removed.status.code(), Some(3), "{removed:?}");
    let said = stderr(&removed);
    assert!(said.contains("note: the job removed "), "{said}");
    assert!(!said.contains("is kept in"), "{said}");
    // No trace can be written where the job made a folder; what is kept can be finished.
    let script = "rm x.trace.parts/job.json; mkdir -p x.trace.json/in; exit 3";
    let kept = run(folder.path(), &options, script);
    let said = stderr(&kept);
    assert_eq!(kept.status.code(), Some(3), "{said}");
    assert!(said.contains("is kept in"), "{said}");
    let parts = folder.path().join("x.trace.parts");
    let output = folder.path().join("y.trace.json");
    let finished = gpustall(&["finish"], &[&parts, Path::new("-o"), &output]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
}

#[test]
fn the_parts_of_a_killed_command_are_finished_by_hand() {
    let folder = folder();
    // The job ends by itself when nobody asks for it any more.
    let script = ": > ready; while [ -e ready ] && [ ! -e over ]; do sleep 0.05; done";
    let ready = ["ready", "sh.trace.parts/job.json"];
    let mut child = started(folder.path(), script, &ready);
    let parts = folder.path().join("sh.trace.parts");
    child.kill().expect("it runs");
    child.wait().expect("it was started here");
    std::fs::write(folder.path().join("over"), "").expect("the job hears of it");
    for word in ["report", "open"] {
        let output = gpustall(&[word], &[&parts]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let advice = format!("`gpustall finish {}`", parts.display());
        assert!(said.contains(&advice), "{said}");
    }
    let finish = |folder: &Path| gpustall(&["finish"], &[folder]);
    let output = finish(&parts);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let trace = read(&folder.path().join("sh.trace.json.gz")).expect("it was written");
    assert_eq!(trace.trace.meta.state, State::Finished);
    assert_eq!(trace.trace.meta.name, "sh");

    let other = folder.path().join("other.parts");
    std::fs::create_dir(&other).expect("it is made");
    let output = finish(&other);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is no folder of parts"), "{said}");
}
