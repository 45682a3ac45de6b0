//! `gpustall finish`: a partial trace becomes a finished one, and nothing is lost.

use crate::program::{folder, gpustall, stderr, stdout};
use crate::recording::{finished, partial};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Trace, read};
use std::path::Path;

#[test]
fn finish_turns_a_partial_trace_into_one_with_its_chains() {
    let dir = folder();
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
fn finish_writes_over_a_file_only_where_it_is_told_to() {
    let dir = folder();
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
    std::fs::write(&other, "precious").expect("the directory is writable");
    let taken = gpustall(&["finish", "-o"], &[&other, &path]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(stderr(&taken).contains("--force"), "{}", stderr(&taken));
    assert_eq!(std::fs::read(&other).expect("it is there"), b"precious");
    let told = gpustall(&["finish", "--force", "-o"], &[&other, &path]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    assert!(read(&other).is_ok());
}

#[test]
fn finish_refuses_what_is_finished_and_what_it_cannot_write() {
    let dir = folder();
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
    let dir = folder();
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
    let dir = folder();
    let partial = partial(dir.path(), "killed");
    for (nowhere, says) in [
        ("no/such/place.json", "another place with -o"),
        (".", "is a directory; name a file with -o"),
        ("no/", "is the name of a directory; name a file with -o"),
        ("/dev/full", "what it was made from is kept"),
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
    let dir = folder();
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
