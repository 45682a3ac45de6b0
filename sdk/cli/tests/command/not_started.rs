//! Jobs that `gpustall run` does not start, or cannot.

use crate::program::{command, folder, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `gpustall run ARGS` in `folder`: its exit code and what it said.
fn refused(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = command()
        .current_dir(folder)
        .arg("run")
        .args(args)
        .output()
        .expect("the command starts");
    (output.status.code(), stderr(&output))
}

#[test]
fn a_job_that_does_not_exist_or_cannot_be_run_has_the_codes_of_env() {
    let folder = folder();
    let run = |job: &str| refused(folder.path(), &["--no-sidecar", "--", job]);
    let (code, said) = run("/nowhere/train");
    assert_eq!(code, Some(127), "{said}");
    assert!(said.contains("cannot run /nowhere/train"), "{said}");
    assert_eq!(run("no-such-program-anywhere").0, Some(127));
    let plain = folder.path().join("train");
    std::fs::write(&plain, "#!/bin/sh\n").expect("it can be written");
    let (code, said) = run("./train");
    assert_eq!(code, Some(126), "{said}");
    assert!(said.contains("cannot run ./train"), "{said}");
    assert!(!folder.path().join("train.trace.parts").exists());
}

/// What `gpustall run` starts where the job stands still until it is recorded: a job that cannot be run is
/// told to the command by a file, which makes no report of it then.
#[test]
fn a_held_job_that_cannot_be_run_leaves_word() {
    let folder = folder();
    let plain = folder.path().join("train");
    std::fs::write(&plain, "print(1)\n").expect("it can be written");
    let mut child = command()
        .args(["start", "--"])
        .arg(&plain)
        .env("GPUSTALL_OUTPUT", folder.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let pid = rustix::process::Pid::from_child(&child);
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
    assert!(matches!(stopped, Ok(Some((_, status))) if status.stopped()));
    assert!(!folder.path().join("refused").exists());
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it stands still");
    assert_eq!(child.wait().expect("it ends").code(), Some(126));
    assert!(folder.path().join("refused").exists());
}

/// The same through `gpustall run`, with a program in the place of the sidecar that only lets the job go on.
#[test]
fn a_held_job_that_cannot_be_run_has_no_report_and_no_trace() {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("CI").is_none(),
            "only root has its jobs held: run this as root"
        );
        eprintln!("SKIPPED: only root has its jobs held");
        return;
    }
    let folder = folder();
    // Written by another process: what this one has open for writing, no test beside it may run.
    let script = "mkdir tools && cp \"$0\" tools/gpustall && cd tools && \
                  printf '#!/bin/sh\\nkill -CONT \"$5\"\\n' > gpustall-sidecar && chmod 755 gpustall-sidecar";
    let made = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", script, env!("CARGO_BIN_EXE_gpustall")])
        .status();
    assert!(made.is_ok_and(|status| status.success()));
    let job = folder.path().join("train");
    std::fs::write(&job, "#!/nowhere/python\n").expect("it can be written");
    // No permission, and no interpreter.
    for (mode, code) in [(0o644, 126), (0o755, 127)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&job, mode).expect("it is ours");
        let output = Command::new(folder.path().join("tools/gpustall"))
            .current_dir(folder.path())
            .args(["run", "--", "./train"])
            .output()
            .expect("the command starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(stdout(&output), "");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(said.contains("cannot run ./train"), "{said}");
        assert!(!folder.path().join("train.trace.json.gz").exists());
        assert!(!folder.path().join("train.trace.parts").exists());
    }
}

#[test]
fn what_keeps_us_from_running_the_job_has_a_code_that_no_job_has() {
    let folder = folder();
    let job = ["--", "sh", "-c", "echo ran; exit 1"];
    let run = |options: &[&str]| refused(folder.path(), &[options, &job].concat());
    for options in [
        // No such folder, a folder, and no such option.
        &["-o", "nowhere/x.trace.json"][..],
        &["-o", "."],
        // Names that only folders have, and none.
        &["-o", "nowhere/"],
        &["-o", "nowhere/."],
        &["-o", ""],
        &["--budget", "much"],
        &["--jsn"],
    ] {
        let (code, said) = run(options);
        assert_eq!(code, Some(125), "{options:?}: {said}");
        assert!(said.contains("error: "), "{said}");
    }
    assert_eq!(refused(folder.path(), &[]).0, Some(125));
    assert_eq!(refused(folder.path(), &["--help"]).0, Some(0));
    assert_eq!(run(&["--no-sidecar"]).0, Some(1));
}
