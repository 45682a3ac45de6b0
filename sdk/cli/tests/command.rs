//! The command as a user runs it: what it prints, where, and its exit codes.

use gpustall_diagnose::{Report, annotate, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};
use gpustall_trace::{
    EventRef, Interval, Meta, MonoTime, PartialWriter, Pid, Slice, State, Tid, Trace, TraceTime,
    Track, TrackId, TrackKind, Value, ValueRef, partial_path, read, write_finished,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PID: Pid = Pid(100);
const STEPS: Pid = Pid(Pid::SYNTHETIC);

/// A recording of 20 steps of 10 ms, 7 of which are wait, as a job leaves it that is killed.
fn partial(dir: &Path, name: &str) -> PathBuf {
    let path = partial_path(&dir.join(format!("{name}.trace.json.gz")));
    let meta = Meta {
        name: name.into(),
        pid: PID,
        cpus: 8,
        start_mono: MonoTime::from_nanos(7_000_000),
        ..Meta::default()
    };
    let mut writer = PartialWriter::create(&path, &meta).expect("the directory is writable");
    writer.push(&EventRef::Process {
        pid: PID,
        name: "trainer",
        sort: 0,
    });
    for (pid, tid, name, kind) in [
        (PID, 100, "main", TrackKind::Thread),
        (PID, 101, "dataloader-0", TrackKind::Thread),
        (STEPS, Pid::SYNTHETIC, "steps", TrackKind::Synthetic),
    ] {
        writer.push(&EventRef::Track {
            pid,
            tid: Tid(tid),
            name,
            sort: 0,
            kind,
        });
    }
    for step in 0..20 {
        let at = step * 10_000_000;
        let mut slice = |pid, tid, name, cat, (start, end), args: &[_]| {
            let time = |t| TraceTime::from_nanos(at + t);
            let span = Interval::new(time(start), time(end));
            writer.push(&EventRef::Slice {
                pid,
                tid: Tid(tid),
                name,
                cat,
                span,
                args,
            });
        };
        let args = [
            (arg::LOADER, ValueRef::Str("train")),
            (arg::KIND, ValueRef::Str(kind::TRAIN)),
            (arg::EPOCH, ValueRef::U64(0)),
            (arg::STEP, ValueRef::U64(step)),
            (arg::THREAD, ValueRef::U64(100)),
            (arg::BATCH, ValueRef::U64(step)),
            (arg::WORKER, ValueRef::U64(101)),
        ];
        let batch = [
            (arg::BATCH, ValueRef::U64(step)),
            (arg::ITEMS, ValueRef::U64(32)),
        ];
        slice(
            STEPS,
            Pid::SYNTHETIC,
            "step",
            cat::STEP,
            (0, 10_000_000),
            &args,
        );
        slice(PID, 100, "data wait", cat::DATA_WAIT, (0, 7_000_000), &args);
        slice(PID, 101, "get", cat::DATA_GET, (0, 6_000_000), &batch);
        slice(
            PID,
            101,
            "collate",
            cat::DATA_COLLATE,
            (6_000_000, 6_900_000),
            &batch,
        );
    }
    writer.flush().expect("the disk is not full");
    path
}

/// The same, finished as a session does it, and what it printed.
fn finished(dir: &Path, name: &str) -> (PathBuf, Report) {
    let mut trace = read(&partial(dir, name))
        .expect("it was just written")
        .trace;
    trace.meta.state = State::Finished;
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let path = dir.join(format!("{name}.trace.json.gz"));
    write_finished(&path, &trace).expect("the directory is writable");
    (path, report)
}

fn gpustall(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpustall"))
        .args(args)
        .args(paths)
        .output()
        .expect("the command starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("there is a place for temporary files")
}

#[test]
fn a_finished_trace_is_reported_in_the_words_of_finish() {
    let dir = dir();
    let (path, report) = finished(dir.path(), "mlp");
    for args in [&["report"][..], &["report", "--fresh"]] {
        let output = gpustall(args, &[&path]);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stdout(&output), format!("{report}\n"));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn the_carried_report_is_shown_unless_a_fresh_one_is_asked_for() {
    let dir = dir();
    let (path, _) = finished(dir.path(), "mlp");
    let mut trace = read(&path).expect("it was just written").trace;
    let carried = trace.report.as_mut().expect("it carries a report");
    carried["verdict"] = "said by finish".into();
    write_finished(&path, &trace).expect("the directory is writable");
    assert!(stdout(&gpustall(&["report"], &[&path])).starts_with("said by finish\n"));
    assert!(stdout(&gpustall(&["report", "--fresh"], &[&path])).starts_with("mlp: "));
    // A report of another schema is not understood.
    let carried = trace.report.as_mut().expect("it carries a report");
    carried["schema"] = 4_000_000_000u32.into();
    write_finished(&path, &trace).expect("the directory is writable");
    assert!(stdout(&gpustall(&["report"], &[&path])).starts_with("mlp: "));
}

#[test]
fn a_report_of_another_version_is_called_one() {
    let dir = dir();
    let (path, _) = finished(dir.path(), "mlp");
    let own = env!("CARGO_PKG_VERSION");
    for (recorder, other) in [
        (format!("{own} + gpustall-sidecar {own}"), None),
        ("kineto (legacy)".to_owned(), None),
        ("gpustall run 0.0.9".to_owned(), Some("0.0.9")),
        (format!("{own} + gpustall-sidecar 0.0.8"), Some("0.0.8")),
    ] {
        let mut trace = read(&path).expect("it was just written").trace;
        trace.meta.recorder.clone_from(&recorder);
        write_finished(&path, &trace).expect("the directory is writable");
        let said = stderr(&gpustall(&["report"], &[&path]));
        match other {
            None => assert_eq!(said, "", "{recorder}"),
            Some(other) => {
                assert!(said.starts_with("warning: "), "{said}");
                assert!(said.contains(&format!("version {other},")), "{said}");
                assert!(said.contains("--fresh diagnoses anew"), "{said}");
            }
        }
        assert_eq!(stderr(&gpustall(&["report", "--fresh"], &[&path])), "");
    }
}

#[test]
fn json_is_the_report() {
    let dir = dir();
    let (path, report) = finished(dir.path(), "mlp");
    let output = gpustall(&["report", "--json"], &[&path]);
    let back: Report = serde_json::from_slice(&output.stdout).expect("it is a report");
    assert_eq!(back, report);
}

#[test]
fn several_traces_stand_each_under_its_name() {
    let dir = dir();
    let (one, first) = finished(dir.path(), "one");
    let (two, second) = finished(dir.path(), "two");
    let output = gpustall(&["report"], &[&one, &two]);
    let (one_name, two_name) = (one.display(), two.display());
    let expected = format!("==> {one_name} <==\n{first}\n\n==> {two_name} <==\n{second}\n");
    assert_eq!(stdout(&output), expected);

    let output = gpustall(&["report", "--json"], &[&one, &two]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(list[1]["trace"], two_name.to_string());
    assert_eq!(list[1]["report"]["name"], "two");
}

#[test]
fn a_partial_trace_is_diagnosed_and_called_partial() {
    let dir = dir();
    let path = partial(dir.path(), "killed");
    let output = gpustall(&["report"], &[&path]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with("killed: 6"), "{text}");
    assert!(
        text.contains("\npartial: the recording was not finished"),
        "{text}"
    );
}

#[test]
fn a_trace_that_cannot_be_read_is_an_error_and_the_others_are_still_reported() {
    let dir = dir();
    let (path, report) = finished(dir.path(), "mlp");
    let none = dir.path().join("none.json");
    let text = dir.path().join("text.json");
    std::fs::write(&text, "no trace at all").expect("the directory is writable");
    let output = gpustall(&["report"], &[&none, &text, &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("error: cannot read"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("text.json is not a trace that gpustall reads"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains(&report.to_string()));
}

#[test]
fn a_trace_of_pytorch_is_diagnosed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/kineto");
    let trace = folder.join("h2d_pageable.pt.trace.json.gz");
    let output = gpustall(&["report"], &[&trace]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("h2d_pageable: 96 % of the window is copies of pageable memory"));
    assert!(text.contains("GPU 0   compute 2.6 %, exposed copies 95.9 %, idle 1.4 %"));
    let output = gpustall(&["report", "--json"], &[&trace]);
    let report: Report = serde_json::from_str(&stdout(&output)).expect("it is a report");
    assert_eq!(report.findings[0].cause.id(), "transfer.pageable");
    assert_eq!(report.evidence.level, "foreign trace");
}

#[test]
fn a_wrong_command_line_has_a_code_of_its_own() {
    assert_eq!(gpustall(&["report"], &[]).status.code(), Some(2));
    assert_eq!(
        gpustall(&["report", "--jsn", "x"], &[]).status.code(),
        Some(2)
    );
    assert_eq!(gpustall(&[], &[]).status.code(), Some(2));
}

#[test]
fn help_has_examples_and_the_exit_codes() {
    for args in [&["report", "--help"][..], &["finish", "--help"]] {
        let output = gpustall(args, &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("EXAMPLES:"));
        assert!(stdout(&output).contains("EXIT CODES:"));
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = dir();
    let (path, _) = finished(dir.path(), "mlp");
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpustall"))
        .args(["report", "--json"])
        // More than a pipe holds.
        .args(std::iter::repeat_n(&path, 50))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn finish_turns_a_partial_trace_into_one_with_its_chains() {
    let dir = dir();
    let path = partial(dir.path(), "killed");
    let output = gpustall(&["finish"], &[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let written = dir.path().join("killed.trace.json.gz");
    let text = stdout(&output);
    assert!(
        text.ends_with(&format!("\n\ntrace: {}\n", written.display())),
        "{text}"
    );
    let trace: Trace = read(&written).expect("it was just written").trace;
    assert!(trace.report.is_some());
    assert!(
        trace
            .slices
            .iter()
            .any(|slice| trace.text(slice.cat) == cat::FINDING)
    );
    assert!(path.exists());
    // The report of the finished trace is the one that finish printed.
    let report = stdout(&gpustall(&["report"], &[&written]));
    assert!(text.starts_with(report.trim_end()), "{text}\n{report}");
}

#[test]
fn finish_overwrites_only_what_it_was_told_to() {
    let dir = dir();
    let path = partial(dir.path(), "killed");
    assert_eq!(gpustall(&["finish"], &[&path]).status.code(), Some(0));
    let again = gpustall(&["finish"], &[&path]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        stderr(&again).contains("is there already"),
        "{}",
        stderr(&again)
    );
    let other = dir.path().join("other.json");
    for _ in 0..2 {
        let output = gpustall(&["finish", "-o"], &[&other, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn finish_refuses_what_is_finished_and_what_it_cannot_write() {
    let dir = dir();
    let (path, _) = finished(dir.path(), "mlp");
    let output = gpustall(&["finish", "-o"], &[&dir.path().join("x.json"), &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("is finished already"),
        "{}",
        stderr(&output)
    );
    let partial = partial(dir.path(), "killed");
    let nowhere = dir.path().join("no/such/place.json");
    let output = gpustall(&["finish", "-o"], &[&nowhere, &partial]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("cannot create the trace file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn finish_says_what_is_wrong_with_what_it_was_given() {
    let dir = dir();
    let said = |path: &Path| {
        let output = gpustall(&["finish"], &[path]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    let missing = said(&dir.path().join("nope.trace.parts"));
    assert!(missing.contains("cannot read"), "{missing}");
    assert!(missing.contains("No such file"), "{missing}");
    let (path, _) = finished(dir.path(), "mlp");
    let text = said(&path);
    assert!(text.contains("is finished already"), "{text}");
    let report = format!("`gpustall report {}`", path.display());
    assert!(text.contains(&report), "{text}");
}

#[test]
fn what_cannot_be_written_is_said_once_and_in_the_words_of_the_command() {
    let dir = dir();
    let partial = partial(dir.path(), "killed");
    for (nowhere, says) in [
        ("no/such/place.json", "another place with -o"),
        (".", "what it was made from is kept"),
    ] {
        let nowhere = dir.path().join(nowhere);
        let output = gpustall(&["finish", "-o"], &[&nowhere, &partial]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(says), "{text}");
        assert!(!text.contains("output("), "{text}");
        assert!(text.matches("(os error").count() <= 1, "{text}");
    }
    let missing = dir.path().join("missing.json.partial");
    let text = stderr(&gpustall(&["finish"], &[&missing]));
    assert_eq!(text.matches("(os error").count(), 1, "{text}");
}

#[test]
fn finish_does_not_overwrite_the_partial_trace_itself() {
    let dir = dir();
    let partial = partial(dir.path(), "killed");
    let before = std::fs::read(&partial).expect("it was just written");
    let link = dir.path().join("link.json");
    std::os::unix::fs::symlink(&partial, &link).expect("the directory is writable");
    let name = partial.file_name().expect("it has a name");
    let detour = dir.path().join(".").join(name);
    for output in [&partial, &link, &detour] {
        let refused = gpustall(&["finish", "-o"], &[output, &partial]);
        let text = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains("is the partial trace itself"), "{text}");
        assert_eq!(std::fs::read(&partial).expect("it is there"), before);
    }
}

/// What the sidecar recorded beside `partial`: thread 101 asleep all the time.
fn kernel(dir: &Path, start_mono: u64) -> PathBuf {
    let mut trace = Trace::default();
    trace.meta.start_mono = MonoTime::from_nanos(start_mono);
    trace.meta.end = TraceTime::from_nanos(5_000_000);
    trace.meta.pid = PID;
    trace.meta.recorder = "gpustall-sidecar".into();
    let (lane, kind) = (
        trace.strings.intern("lane"),
        trace.strings.intern(cat::OFF_CPU),
    );
    let thread = trace.strings.intern(arg::THREAD);
    trace.tracks.push(Track {
        pid: PID,
        tid: Tid(0xD000_0000),
        name: lane,
        sort: 0,
        kind: TrackKind::Synthetic,
    });
    trace.slices.push(Slice {
        track: TrackId(0),
        name: kind,
        cat: kind,
        span: Interval::new(TraceTime::ZERO, trace.meta.end),
        args: Box::new([(thread, Value::U64(101))]),
    });
    let path = dir.join(format!("kernel{start_mono}.trace.json"));
    write_finished(&path, &trace).expect("the directory is writable");
    path
}

#[test]
fn merge_sets_two_recordings_side_by_side_and_reports_on_them() {
    let dir = dir();
    let start = read(&partial(dir.path(), "killed")).expect("it was just written");
    let start = start.trace.meta.start_mono.as_nanos();
    let sdk = dir.path().join("killed.trace.json.partial");
    let (kernel, both) = (kernel(dir.path(), start + 1), dir.path().join("both.json"));
    let output = gpustall(&["merge", "-o"], &[&both, &sdk, &kernel]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let merged = read(&both).expect("it was just written").trace;
    let report = diagnose(&merged);
    assert!(
        stdout(&output).starts_with(&report.to_string()),
        "{}",
        stdout(&output)
    );
    let off_cpu = |slice: &&Slice| merged.text(slice.cat) == cat::OFF_CPU;
    assert_eq!(merged.slices.iter().filter(off_cpu).count(), 1);
    let finding = |slice: &&Slice| merged.text(slice.cat) == cat::FINDING;
    assert!(
        merged.slices.iter().any(|slice| finding(&slice)),
        "chains are drawn"
    );
    // A place that is taken is not written over.
    let again = stderr(&gpustall(&["merge", "-o"], &[&both, &sdk, &kernel]));
    assert!(again.contains("is there already"), "{again}");
}

#[test]
fn merge_tells_what_does_not_belong_together() {
    let dir = dir();
    let sdk = partial(dir.path(), "killed");
    let out = dir.path().join("both.json");
    let told = |paths: &[&Path]| {
        let output = gpustall(&["merge", "-o"], paths);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(!out.exists());
        stderr(&output)
    };
    let detour = dir.path().join(".").join("killed.trace.json.partial");
    assert!(told(&[&out, &sdk, &detour]).contains("are the same recording"));
    assert!(told(&[&sdk, &sdk, &detour]).contains("is one of the traces itself"));
    let far = kernel(dir.path(), 1 << 60);
    assert!(told(&[&out, &sdk, &far]).contains("no moment in common"));
    let foreign = dir.path().join("foreign.json");
    let event = r#"[{"ph":"X","pid":100,"tid":100,"ts":1,"dur":2,"name":"x"}]"#;
    std::fs::write(&foreign, event).expect("the directory is writable");
    let text = told(&[&out, &sdk, &foreign]);
    assert!(text.contains("foreign.json does not say when"), "{text}");
    let alone = gpustall(&["merge", "-o"], &[&out, &sdk]);
    assert_eq!(alone.status.code(), Some(2), "{}", stderr(&alone));
}

#[test]
fn every_arrow_of_the_chains_is_one_that_viewers_draw() {
    let dir = dir();
    let mut trace = read(&partial(dir.path(), "mlp"))
        .expect("it was just written")
        .trace;
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let stats = write_finished(&dir.path().join("mlp.json"), &trace).expect("it can be written");
    assert!(stats.flows > 0);
    assert_eq!((stats.flows_left_out, stats.slices_on_lanes), (0, 0));
}
