//! The command as a user types it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fake_cuda/mod.rs"]
mod fake_cuda;

use fake_cuda::{EXPORTS, FakeCuda};
use gpustall_trace::{ReadOutcome, Trace, read, vocab};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn sidecar(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpustall-sidecar"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this test may use eBPF; says so when not, and fails where that must not happen.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(
            std::env::var_os("CI").is_none(),
            "needs root, and CI must not skip"
        );
        eprintln!("skipped: needs root");
    }
    root
}

/// The program where another user can run it: build folders may be closed to others.
fn as_nobody(arguments: &[&str]) -> Output {
    const NOBODY: u32 = 65_534;
    let folder = tempfile::Builder::new()
        .prefix("gpustall")
        .tempdir()
        .unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let program = folder.path().join("gpustall-sidecar");
    std::fs::copy(env!("CARGO_BIN_EXE_gpustall-sidecar"), &program).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap()
}

fn trace(path: &Path) -> Trace {
    let ReadOutcome { trace, .. } = read(path).unwrap();
    trace
}

#[test]
fn record_without_privilege_says_the_command_that_mends_it() {
    if !is_root() {
        return;
    }
    let run = as_nobody(&["record", "--pid", "1", "-o", "a b.json"]);
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_PERFMON and CAP_BPF missing"), "{said}");
    assert!(
        said.contains("gpustall-sidecar record --pid 1 -o 'a b.json'"),
        "{said}"
    );
    assert!(said.contains("sudo "), "{said}");
}

#[test]
fn check_without_privilege_fails_and_names_what_each_lack_costs() {
    if !is_root() {
        return;
    }
    let run = as_nobody(&["check", "--json"]);
    assert_eq!(run.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["can_record"], false);
    let requirements = report["requirements"].as_array().unwrap();
    let lacking: Vec<_> = requirements.iter().filter(|r| r["met"] == false).collect();
    assert!(lacking[0]["name"].as_str().unwrap().contains("CAP_BPF"));
    for lack in lacking {
        assert!(
            lack["mend"].is_string() && lack["problem"].is_string(),
            "{lack}"
        );
        assert!(!lack["costs"].as_str().unwrap().is_empty());
    }
}

#[test]
fn check_succeeds_exactly_when_recording_is_possible() {
    if !is_root() {
        return;
    }
    let run = sidecar(&["check", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(run.status.success(), report["can_record"] == true);
    let plain = sidecar(&["check"]).output().unwrap();
    assert_eq!(plain.status.code(), run.status.code());
    assert!(text(&plain.stdout).contains("recording is "));
}

#[test]
fn check_lists_the_functions_that_the_cuda_library_lacks() {
    if !is_root() {
        return;
    }
    let library = FakeCuda::new();
    let mut check = sidecar(&["check", "--json"]);
    let run = check.env("LD_LIBRARY_PATH", library.folder()).output();
    let report: serde_json::Value = serde_json::from_slice(&run.unwrap().stdout).unwrap();
    let path = library.path().display().to_string();
    let name = format!("functions of {path} ({} found)", EXPORTS.len());
    let requirements = report["requirements"].as_array().unwrap();
    let found = requirements.iter().find(|r| r["name"] == name.as_str());
    let found = found.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    assert_eq!(
        (&found["met"], &found["required"]),
        (&false.into(), &false.into())
    );
    let words: Vec<_> = found["problem"]
        .as_str()
        .unwrap()
        .split([' ', ','])
        .collect();
    assert!(words.contains(&"cuGraphLaunch") && words.contains(&"cuLaunchKernel_ptsz"));
    for export in EXPORTS {
        assert!(!words.contains(&export), "{export}");
    }
}

#[test]
fn a_command_is_recorded_from_its_start_and_its_exit_code_is_passed_on() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.trace.json.gz");
    let run = sidecar(&["record", "-o", file.to_str().unwrap(), "--"])
        .args(["sh", "-c", "sleep 0.1; sh -c 'sleep 0.2'; exit 3"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
    let trace = trace(&file);
    let names: Vec<&str> = trace.tracks.iter().map(|t| trace.text(t.name)).collect();
    assert_eq!(
        names.iter().filter(|n| **n == "sleep").count(),
        2,
        "{names:?}"
    );
    let sleeps = trace.slices.iter().filter(|s| {
        trace.text(s.cat) == vocab::cat::OFF_CPU
            && trace.arg_str(&s.args, vocab::arg::WAIT) == Some("sleep")
            && trace.arg_str(&s.args, vocab::arg::WAKER) == Some("timer")
    });
    let lengths: Vec<f64> = sleeps.map(|s| s.span.len().as_millis_f64()).collect();
    assert_eq!(lengths.len(), 2, "{lengths:?}");
    assert!(lengths[0] >= 99.9 && lengths[1] >= 199.9, "{lengths:?}");
    assert_eq!(trace.meta.name, "sh");
    assert_eq!(trace.lost_by_source(), Default::default());
}

#[test]
fn a_recording_of_a_process_ends_after_its_duration() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.trace.json");
    let mut job = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = job.id().to_string();
    let run = sidecar(&["record", "--pid", &pid, "--duration", "0.3", "-o"])
        .arg(&file)
        .output()
        .unwrap();
    job.kill().unwrap();
    job.wait().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let trace = trace(&file);
    assert!((300.0..5000.0).contains(&trace.length().as_millis_f64()));
    assert_eq!(trace.meta.pid.0, job.id());
    let hang = trace.slices.last().unwrap();
    assert_eq!(trace.arg_str(&hang.args, vocab::arg::WAIT), Some("sleep"));
    assert_eq!(hang.span.end, trace.meta.end);
}

#[test]
fn a_terminal_that_closes_ends_a_recording_in_order() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.trace.json");
    // The job says when it runs, which is when it is recorded.
    let began = folder.path().join("began");
    let script = format!("touch {}; exec sleep 60", began.display());
    let mut run = sidecar(&["record", "-o", file.to_str().unwrap(), "--"])
        .args(["sh", "-c", &script])
        .process_group(0)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !began.exists() {
        assert!(Instant::now() < deadline, "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    let group = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process_group(group, rustix::process::Signal::HUP).unwrap();
    assert!(run.wait().unwrap().code().is_some());
    assert_eq!(trace(&file).lost_by_source(), Default::default());
}

#[test]
fn a_recorder_that_is_killed_leaves_what_it_recorded() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.trace.json.gz");
    let partial = gpustall_trace::partial_path(&file);
    let script = "while sleep 0.05; do :; done";
    let mut job = Command::new("sh").args(["-c", script]).spawn().unwrap();
    let pid = job.id().to_string();
    let mut run = sidecar(&["record", "--pid", &pid, "-o"])
        .arg(&file)
        .spawn()
        .unwrap();
    let sleeps = || {
        let trace = partial.exists().then(|| trace(&partial))?;
        let sleeps = trace
            .slices
            .iter()
            .filter(|s| trace.arg_str(&s.args, vocab::arg::WAIT) == Some("sleep"));
        Some(sleeps.count())
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while sleeps() < Some(10) {
        assert!(
            Instant::now() < deadline,
            "{:?} in the partial file",
            sleeps()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let left = trace(&partial);
    assert_eq!(left.meta.state, gpustall_trace::State::Partial);
    assert_eq!((left.meta.pid.0, left.meta.name.as_str()), (job.id(), "sh"));
    assert!(!file.exists());
    // The next one keeps it, and leaves no partial file of its own.
    let next = sidecar(&["record", "--pid", &pid, "--duration", "0.3", "-o"])
        .arg(&file)
        .output();
    let said = text(&next.unwrap().stderr);
    job.kill().unwrap();
    job.wait().unwrap();
    assert!(file.exists() && !partial.exists(), "{said}");
    let kept = folder.path().join("job.trace.json.partial.1");
    assert!(said.contains(kept.to_str().unwrap()), "{said}");
    assert_eq!(trace(&kept).slices.len(), left.slices.len());
}

#[test]
fn a_process_that_has_ended_is_said_to_have_ended() {
    if !is_root() {
        return;
    }
    let mut job = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", job.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        assert!(Instant::now() < deadline, "it never ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = job.id().to_string();
    let run = sidecar(&["record", "--pid", &pid]).output().unwrap();
    job.wait().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(
        text(&run.stderr).contains("has ended already"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn wrong_arguments_and_a_process_that_is_not_there_are_said_so() {
    let neither = sidecar(&["record"]).output().unwrap();
    assert_eq!(neither.status.code(), Some(2));
    let ring = sidecar(&["record", "--pid", "1", "--ring", "3"])
        .output()
        .unwrap();
    assert!(text(&ring.stderr).contains("power of two"));
    if is_root() {
        let gone = sidecar(&["record", "--pid", "4194303"]).output().unwrap();
        assert_eq!(gone.status.code(), Some(1));
        assert!(text(&gone.stderr).contains("there is no process 4194303"));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_command_begins() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no folder/job.json");
    let run = sidecar(&["record", "-o", file.to_str().unwrap(), "--"])
        .args(["sh", "-c", "echo it ran"])
        .output()
        .unwrap();
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("choose another file with -o"), "{said}");
    assert_eq!(text(&run.stdout), "");
}

#[test]
fn a_command_that_cannot_be_run_leaves_an_older_recording_alone() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    std::fs::write(&file, "older").unwrap();
    let run = sidecar(&["record", "-o", file.to_str().unwrap(), "--"])
        .arg("/no/such/program")
        .output()
        .unwrap();
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(127), "{said}");
    assert!(said.contains("cannot run /no/such/program"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "older");
}
