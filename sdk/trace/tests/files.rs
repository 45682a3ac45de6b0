//! What happens on the file system: full disks, missing directories, two recordings at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{
    EventRef, Meta, PartialWriter, Pid, TraceTime, WriteError, partial_path, read, write_finished,
};
use sample::skeleton;
use std::fs;
use std::path::Path;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_partial_file_lies_beside_the_finished_one() {
    for (finished, partial) in [
        ("x.trace.json.gz", "x.trace.json.partial"),
        ("x.json", "x.json.partial"),
        ("runs/x", "runs/x.partial"),
        ("x.GZ", "x.partial"),
    ] {
        assert_eq!(partial_path(Path::new(finished)), Path::new(partial));
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_finished_writer() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let error = write_finished(Path::new("/dev/full"), &skeleton(vec![], [0; 3], 0)).unwrap_err();
    assert!(matches!(error, WriteError::Write { .. }), "{error}");
    assert!(error.to_string().contains("/dev/full"));
}

#[test]
fn a_full_disk_is_an_error_of_the_partial_writer() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let error = PartialWriter::create(Path::new("/dev/full"), &Meta::default()).unwrap_err();
    assert!(matches!(error, WriteError::Write { .. }), "{error}");
}

#[test]
fn a_finished_file_replaces_the_old_one_and_leaves_nothing_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    fs::write(&path, "old").unwrap();
    write_finished(&path, &skeleton(vec![], [0; 3], 0)).unwrap();
    assert!(read(&path).is_ok());
    assert_eq!(names(directory.path()), ["t.json"]);
}

#[test]
fn a_finished_file_that_cannot_be_put_in_place_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();
    let error = write_finished(&path, &skeleton(vec![], [0; 3], 0)).unwrap_err();
    assert!(matches!(error, WriteError::Write { .. }), "{error}");
    assert_eq!(names(directory.path()), ["t.json"]);
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_and_the_file_behind_it_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (link, file) = (
        directory.path().join("link.json"),
        directory.path().join("t.json"),
    );
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    write_finished(&link, &skeleton(vec![], [0; 3], 0)).unwrap();
    assert!(link.is_symlink());
    assert!(read(&file).is_ok());
}

#[test]
fn a_missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs").join("t.json");
    for error in [
        PartialWriter::create(&path, &Meta::default()).unwrap_err(),
        write_finished(&path, &skeleton(vec![], [0; 3], 0)).unwrap_err(),
    ] {
        assert!(matches!(error, WriteError::NoDirectory { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(directory.path().join("runs").to_str().unwrap()),
            "{text}"
        );
    }
}

#[test]
fn a_second_recording_to_the_same_path_is_refused_while_the_first_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    let first = PartialWriter::create(&path, &Meta::default()).unwrap();
    let error = PartialWriter::create(&path, &Meta::default()).unwrap_err();
    assert!(matches!(error, WriteError::Busy { .. }), "{error}");
    assert!(read(&path).is_ok());
    first.remove().unwrap();
    assert_eq!(names(directory.path()), Vec::<String>::new());
    assert_eq!(
        PartialWriter::create(&path, &Meta::default())
            .unwrap()
            .kept(),
        None
    );
}

#[test]
fn a_recording_that_never_finished_is_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    for n in 1..4 {
        let meta = Meta {
            cpus: n,
            ..Meta::default()
        };
        let writer = PartialWriter::create(&path, &meta).unwrap();
        let aside = directory.path().join(format!("t.json.partial.{}", n - 1));
        assert_eq!(writer.kept(), (n > 1).then_some(aside.as_path()));
    }
    let cpus = |name: &str| read(&directory.path().join(name)).unwrap().trace.meta.cpus;
    assert_eq!(cpus("t.json.partial.1"), 1);
    assert_eq!(cpus("t.json.partial.2"), 2);
    assert_eq!(cpus("t.json.partial"), 3);
}

#[test]
fn nothing_reaches_the_file_before_a_flush_and_the_counts_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json.partial");
    let mut writer = PartialWriter::create(&path, &Meta::default()).unwrap();
    let at = TraceTime::ZERO;
    writer.push(&EventRef::Counter {
        pid: Pid(1),
        name: "depth",
        at,
        value: 1.0,
    });
    assert_eq!((writer.events_written(), writer.events_lost()), (0, 0));
    assert!(read(&path).unwrap().trace.counters.is_empty());
    writer.flush().unwrap();
    assert_eq!((writer.events_written(), writer.events_lost()), (1, 0));
    assert_eq!(read(&path).unwrap().trace.counters.len(), 1);
}
