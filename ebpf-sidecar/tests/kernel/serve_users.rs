//! What jobs of other users, and in other pid namespaces, see.

use crate::harness::{Job, turn};
use crate::serve_harness::{Serving, eventually, notes, off_cpu};
use crate::workload::SOCKET;
use gpustall_trace::Trace;
use gpustall_trace::vocab::arg;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tempfile::TempDir;

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

/// This test binary where every user may run it.
struct Program {
    folder: TempDir,
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        let path = folder.path().join("test");
        std::fs::copy(std::env::current_exe().unwrap(), path).unwrap();
        Self { folder }
    }

    fn of_nobody(&self) -> Command {
        let mut command = Command::new(self.folder.path().join("test"));
        command.uid(NOBODY).gid(NOBODY);
        command
    }
}

/// Names of who took the CPU from the thread, and whether they came with ids.
fn takers(trace: &Trace, tid: u32) -> Vec<(String, bool)> {
    let taker = |args: &[gpustall_trace::Arg]| {
        let name = trace.arg_str(args, arg::DISPLACED_BY)?;
        let id = trace.arg_u64(args, "displaced_by_tid");
        Some((name.to_owned(), id.is_some()))
    };
    let slices = off_cpu(trace, tid).into_iter();
    slices.filter_map(|slice| taker(&slice.args)).collect()
}

#[test]
fn a_user_sees_his_own_threads_and_that_others_were_there() {
    let Some(_turn) = turn() else { return };
    let program = Program::new();
    let serving = Serving::start(&[]);
    let mut session = serving.session_as(program.of_nobody(), "nobodys");
    // All on one CPU: of this user, and of root.
    let _own = Job::start_as(program.of_nobody(), "spinners");
    let _roots = Job::start("spinners");
    let spinner = session.spinner;
    eventually("displaced by both", || {
        let seen = takers(&session.partial(), spinner);
        let own = seen.iter().any(|(name, ids)| name == "spinner" && *ids);
        let others = seen
            .iter()
            .any(|(name, _)| name == "another user's process");
        own && others
    });
    let trace = session.finish();
    for (name, ids) in takers(&trace, spinner) {
        assert!(
            name != "another user's process" || !ids,
            "ids of another user's"
        );
    }
}

#[test]
fn root_sees_everybody() {
    let Some(_turn) = turn() else { return };
    let program = Program::new();
    let serving = Serving::start(&[]);
    let mut session = serving.session("roots");
    let _other = Job::start_as(program.of_nobody(), "spinners");
    eventually("displaced by a named thread", || {
        let seen = takers(&session.partial(), session.spinner);
        seen.contains(&("spinner".to_owned(), true))
    });
    let seen = takers(&session.finish(), session.spinner);
    assert!(
        seen.iter()
            .all(|(name, _)| name != "another user's process")
    );
}

#[test]
fn a_user_is_refused_a_process_that_is_not_his() {
    let Some(_turn) = turn() else { return };
    let program = Program::new();
    let serving = Serving::start(&[]);
    let mut command = program.of_nobody();
    command.env(SOCKET, serving.socket());
    let mut job = Job::start_as(command, "asks for another's process");
    let answer = job.expect("answer");
    let process = format!("process {} did not connect itself", std::process::id());
    assert!(answer.contains(&process), "{answer}");
}

#[test]
fn a_socket_that_is_not_for_everybody_lets_in_whom_it_is_for() {
    let Some(_turn) = turn() else { return };
    let program = Program::new();
    let group = NOBODY.to_string();
    for (arguments, answer) in [
        (
            ["--socket-mode", "600", "--group", &group],
            "Permission denied",
        ),
        (
            ["--socket-mode", "660", "--group", &group],
            "did not connect itself",
        ),
    ] {
        let serving = Serving::start(&arguments);
        let mut command = program.of_nobody();
        command.env(SOCKET, serving.socket());
        let mut job = Job::start_as(command, "asks for another's process");
        let said = job.expect("answer");
        assert!(said.contains(answer), "{said}");
    }
}

#[test]
fn a_job_in_a_pid_namespace_knows_its_threads_by_its_own_ids() {
    let Some(_turn) = turn() else { return };
    let serving = Serving::start(&[]);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(std::env::current_exe().unwrap());
    let mut session = serving.session_as(command, "contained");
    assert_eq!(session.pid, 1);
    // Somebody outside, of the same user, on the CPU of the spinner.
    let _outside = Job::start("spinners");
    session.wait_for_naps(20);
    eventually("displaced", || {
        let seen = takers(&session.partial(), session.spinner);
        seen.iter().any(|(name, _)| name == "spinner")
    });
    let trace = session.finish();
    assert_eq!(notes(&trace), [""; 0]);
    assert_eq!(trace.meta.pid.0, 1);
    // Its processes are the first of its namespace.
    for track in trace.tracks.iter().filter(|t| !t.pid.is_synthetic()) {
        assert!(
            track.pid.0 < 100,
            "{}: {}",
            track.pid,
            trace.text(track.name)
        );
    }
    // Its own threads have ids, that of the outside has only its name.
    let seen = takers(&trace, session.spinner);
    assert!(seen.contains(&("spinner".to_owned(), false)), "{seen:?}");
    let wakers = off_cpu(&trace, session.spinner).into_iter();
    let ids = wakers.filter_map(|s| trace.arg_u64(&s.args, "displaced_by_tid"));
    assert!(ids.into_iter().all(|tid| tid < 1000 && tid != 0));
}
