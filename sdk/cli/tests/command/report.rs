//! `gpustall report`: which report it shows, and in which form.

use crate::program::{command, folder, gpustall, stderr, stdout};
use crate::recording::{finished, partial};
use gpustall_diagnose::{RULES, Report, annotate, diagnose};
use gpustall_trace::{read, write_finished};
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_finished_trace_is_reported_in_the_words_of_finish() {
    let dir = folder();
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
    let dir = folder();
    let (path, _) = finished(dir.path(), "mlp");
    let mut trace = read(&path).expect("it was just written").trace;
    let carried = trace.report.as_mut().expect("it carries a report");
    carried["verdict"] = "said by finish".into();
    write_finished(&path, &trace).expect("the directory is writable");
    assert!(stdout(&gpustall(&["report"], &[&path])).starts_with("said by finish\n"));
    assert!(stdout(&gpustall(&["report", "--fresh"], &[&path])).starts_with("mlp: "));
}

#[test]
fn a_report_that_other_rules_made_is_made_anew_and_the_user_is_told() {
    let dir = folder();
    let (path, report) = finished(dir.path(), "mlp");
    for (rules, made) in [
        (Some("0.0.9 12345678"), "by the rules 0.0.9 12345678"),
        // Before reports said so.
        (None, "by an earlier version"),
    ] {
        let mut trace = read(&path).expect("it was just written").trace;
        let carried = trace.report.as_mut().expect("it carries a report");
        carried["verdict"] = "said by others".into();
        match rules {
            Some(rules) => carried["rules"] = rules.into(),
            None => drop(carried.as_object_mut().and_then(|of| of.remove("rules"))),
        }
        write_finished(&path, &trace).expect("the directory is writable");
        let output = gpustall(&["report"], &[&path]);
        assert_eq!(stdout(&output), format!("{report}\n"));
        let said = stderr(&output);
        assert!(
            said.starts_with("note: ") && said.lines().count() == 1,
            "{said}"
        );
        assert!(said.contains(made) && said.contains(RULES), "{said}");
        assert_eq!(stderr(&gpustall(&["report", "--fresh"], &[&path])), "");
    }
}

#[test]
fn a_terminal_sees_no_more_of_a_files_rules_than_a_name() {
    let dir = folder();
    let (path, report) = finished(dir.path(), "mlp");
    let long = format!("\u{1b}[31mred\n{}", "x".repeat(3000));
    for (rules, verdict, said_of_it) in [
        (long.as_str(), "said by others".into(), "made by the rules"),
        // Of today's rules, and no report.
        (RULES, serde_json::json!([1]), "cannot be read"),
    ] {
        let mut trace = read(&path).expect("it was just written").trace;
        let carried = trace.report.as_mut().expect("it carries a report");
        carried["rules"] = rules.into();
        carried["verdict"] = verdict;
        write_finished(&path, &trace).expect("the directory is writable");
        let output = gpustall(&["report"], &[&path]);
        assert_eq!(stdout(&output), format!("{report}\n"));
        let said = stderr(&output);
        assert!(
            said.starts_with("note: ") && said.contains(said_of_it),
            "{said}"
        );
        assert!(!said.trim_end().chars().any(char::is_control), "{said:?}");
        assert!(said.chars().filter(|&c| c == 'x').count() < 100, "{said}");
    }
}

#[test]
fn json_is_the_report() {
    let dir = folder();
    let (path, report) = finished(dir.path(), "mlp");
    let output = gpustall(&["report", "--json"], &[&path]);
    let back: Report = serde_json::from_slice(&output.stdout).expect("it is a report");
    assert_eq!(back, report);
}

#[test]
fn several_traces_stand_each_under_its_name() {
    let dir = folder();
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
    let dir = folder();
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
    let dir = folder();
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
fn a_reader_that_goes_away_is_no_error() {
    let dir = folder();
    let (path, _) = finished(dir.path(), "mlp");
    let mut child = command()
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
fn every_arrow_of_the_chains_is_one_that_viewers_draw() {
    let dir = folder();
    let mut trace = read(&partial(dir.path(), "mlp"))
        .expect("it was just written")
        .trace;
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let stats = write_finished(&dir.path().join("mlp.json"), &trace).expect("it can be written");
    assert!(stats.flows > 0);
    assert_eq!((stats.flows_left_out, stats.slices_on_lanes), (0, 0));
}
