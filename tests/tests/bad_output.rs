//! The trace cannot be written where it should go: training goes on, and says why.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::child::{
    Ended, Watched, assert_unchanged, in_shell, run, run_both, run_without, trainer,
};
use gpustall_tests::{named, skip, slices};
use gpustall_trace::{Trace, partial_path, vocab::cat};
use std::path::Path;

const TRAINER: &str = env!("CARGO_BIN_EXE_trainer");

fn read(path: &Path) -> Trace {
    gpustall_trace::read(path).unwrap().trace
}

fn assert_says(ended: &Ended, words: &[&str]) {
    for word in words {
        let stderr = &ended.stderr;
        assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
    }
}

#[test]
fn a_missing_directory_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("missing/run.trace.json.gz");
    let ended = run_both(TRAINER, "train", &output);
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    assert_says(
        &ended,
        &["ERROR", missing, "no directory", "make it", "output("],
    );
    assert!(!Path::new(missing).exists());
}

#[test]
fn a_path_that_cannot_be_created_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let output = file.join("run.trace.json.gz");
    let ended = run_both(TRAINER, "train", &output);
    assert_says(&ended, &["ERROR", file.to_str().unwrap(), "writable path"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "in the way");
}

#[test]
fn a_directory_without_permission_is_named_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let locked = directory.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o500)).unwrap();
    if std::fs::write(locked.join("probe"), "").is_ok() {
        let test = "a_directory_without_permission_is_named_with_what_to_do";
        return skip(test, "this user may write anywhere (root)");
    }
    let output = locked.join("run.trace.json.gz");
    let ended = run_both(TRAINER, "train", &output);
    assert_says(
        &ended,
        &["ERROR", locked.to_str().unwrap(), "denied", "writable path"],
    );
}

#[test]
fn an_output_that_is_a_directory_is_refused_before_training() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run_both(TRAINER, "train", directory.path());
    let path = directory.path().to_str().unwrap();
    assert_says(&ended, &["ERROR", path, "directory", "output("]);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    assert!(!partial_path(directory.path()).exists());
}

#[test]
fn a_disk_that_is_full_from_the_start_is_said_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    std::os::unix::fs::symlink("/dev/full", partial_path(&output)).unwrap();
    let ended = run_both(TRAINER, "train", &output);
    let partial = partial_path(&output);
    assert_says(
        &ended,
        &["ERROR", partial.to_str().unwrap(), "No space left"],
    );
}

#[test]
fn a_disk_that_fills_up_while_recording_keeps_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    // No file can grow beyond 256 blocks of 512 bytes: neither the partial nor the finished one.
    let limited = r#"ulimit -f 256; exec "$1" dots "$2""#;
    let args = [TRAINER.as_ref(), output.as_os_str()];
    let ended = run(&mut in_shell(limited, &args));
    assert_unchanged(&ended, &run_without(TRAINER, "dots"));
    let partial = partial_path(&output);
    assert_says(
        &ended,
        &[
            "ERROR",
            partial.to_str().unwrap(),
            "File too large",
            "make room",
        ],
    );
    assert!(!output.exists(), "no half of a finished file");
    let outcome = gpustall_trace::read(&partial).unwrap();
    assert_eq!(outcome.warnings, [""; 0], "it ends on a whole event");
    assert_eq!(slices(&outcome.trace, cat::DATA_WAIT).len(), 16);
    assert!(named(&outcome.trace, "dot").len() > 100);
    let left = directory.path().read_dir().unwrap().count();
    assert_eq!(left, 1, "only the partial file");
}

#[test]
fn a_recording_cut_by_a_full_disk_says_so_when_the_rest_fits() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let limited = r#"ulimit -f 1024; exec "$1" dots "$2""#;
    let args = [TRAINER.as_ref(), output.as_os_str()];
    let ended = run(&mut in_shell(limited, &args));
    assert_unchanged(&ended, &run_without(TRAINER, "dots"));
    let trace = read(&output);
    let note = trace.meta.notes.iter().find(|n| n.contains("incomplete"));
    assert!(note.unwrap().contains("File too large"), "{note:?}");
    let lost = trace.lost_by_source()["file that could not be written"];
    assert!(lost > 0);
    assert_says(&ended, &["incomplete", "lost", "File too large"]);
}

#[test]
fn a_disk_that_is_full_at_finish_keeps_the_partial_file() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let args = [TRAINER.as_ref(), output.as_os_str()];
    let ended = run(&mut in_shell(r#"exec "$1" disk-at-finish "$2""#, &args));
    assert_unchanged(&ended, &run_without(TRAINER, "disk-at-finish"));
    let partial = partial_path(&output);
    assert_says(
        &ended,
        &["ERROR", partial.to_str().unwrap(), "gpustall finish"],
    );
    assert!(!output.exists());
    let trace = gpustall_trace::read(&partial).unwrap();
    assert_eq!(trace.trace.meta.state, gpustall_trace::State::Partial);
}

#[test]
fn an_output_on_a_full_device_keeps_the_partial_file() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    std::os::unix::fs::symlink("/dev/full", &output).unwrap();
    let ended = run_both(TRAINER, "train", &output);
    assert_says(&ended, &["ERROR", "No space left", "gpustall finish"]);
    let trace = read(&partial_path(&output));
    assert_eq!(slices(&trace, cat::DATA_WAIT).len(), 16);
}

#[test]
fn a_small_file_system_that_fills_up_keeps_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    let kept = directory.path().join("kept");
    for path in [&disk, &kept] {
        std::fs::create_dir(path).unwrap();
    }
    // In a mount namespace of its own, which ends with it.
    let mount = r#"mount -t tmpfs -o size=128k none "$2" || exit 99
        "$1" dots "$2"/run.trace.json; code=$?; cp "$2"/* "$3"; exit $code"#;
    let mut command = in_shell(
        r#"exec unshare --mount sh -c "$4" sh "$1" "$2" "$3""#,
        &[
            TRAINER.as_ref(),
            disk.as_os_str(),
            kept.as_os_str(),
            mount.as_ref(),
        ],
    );
    let ended = run(&mut command);
    if ended.code != Some(7) && ended.stdout.is_empty() {
        let test = "a_small_file_system_that_fills_up_keeps_what_was_recorded";
        return skip(
            test,
            &format!("no mount here (needs root): {}", ended.stderr),
        );
    }
    assert_unchanged(&ended, &run_without(TRAINER, "dots"));
    assert_says(&ended, &["ERROR", "No space left", "make room"]);
    let outcome = gpustall_trace::read(&kept.join("run.trace.json.partial")).unwrap();
    assert_eq!(slices(&outcome.trace, cat::DATA_WAIT).len(), 16);
    assert!(!kept.join("run.trace.json").exists());
}

#[test]
fn of_two_processes_with_one_path_the_second_is_refused_and_both_train_on() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json.gz");
    let mut first = Watched::start(&mut trainer(TRAINER, "held", &output));
    assert_eq!(first.line().as_deref(), Some("true"), "it records");
    let second = run(&mut trainer(TRAINER, "train", &output));
    assert_unchanged(&second, &run_without(TRAINER, "train"));
    let partial = partial_path(&output);
    let path = partial.to_str().unwrap();
    assert_says(&second, &["ERROR", "another recording", path, "output("]);
    let (code, lines) = first.end();
    assert_eq!(code, Some(7));
    assert_eq!(lines, ["16 batches, 2016 in all"]);
    let trace = read(&output);
    assert_eq!(
        slices(&trace, cat::DATA_WAIT).len(),
        16,
        "the first is whole"
    );
    assert!(!partial.exists());
}

#[test]
fn an_earlier_recording_that_never_finished_is_kept_aside_and_noted() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run.trace.json");
    let killed = run(&mut trainer(TRAINER, "exit", &output));
    assert_eq!(killed.code, Some(3));
    let partial = partial_path(&output);
    let earlier = std::fs::read(&partial).unwrap();

    let ended = run(&mut trainer(TRAINER, "train", &output));
    assert_unchanged(&ended, &run_without(TRAINER, "train"));
    let mut aside = partial.into_os_string();
    aside.push(".1");
    assert_eq!(std::fs::read(&aside).unwrap(), earlier, "as it was");
    let trace = read(&output);
    let aside = aside.to_str().unwrap();
    assert!(trace.meta.notes.iter().any(|n| n.contains(aside)));
    assert_says(&ended, &[aside]);
}
