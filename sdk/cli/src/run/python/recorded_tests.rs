//! Recordings of the hook in PyTorch 2.11 (`tests/pytorch/record.sh`), against what the program
//! itself wrote down.

use super::parts;
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{MonoTime, Pid, Slice, Trace, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Truth {
    pid: u32,
    batches: Vec<Batch>,
}

#[derive(Deserialize)]
struct Batch {
    kind: String,
    maker: u32,
    thread: u32,
}

fn recorded(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/python");
    Path::new(fixtures).join(name)
}

fn truth(name: &str) -> Truth {
    let text = std::fs::read_to_string(recorded(name).join("truth.json"));
    serde_json::from_str(&text.expect("it was recorded")).expect("it is of this form")
}

/// The trace of a recording that began half a second before the first mark.
fn trace(name: &str) -> Trace {
    trace_of(&recorded(name))
}

fn trace_of(folder: &Path) -> Trace {
    let mut notes = Vec::new();
    let (first, _) = super::record::read(folder).expect("the folder is there");
    let first = first.iter().flat_map(|of| &of.marks).map(|mark| mark.start);
    let start = first.min().expect("there are marks") - 500_000_000;
    let span = (
        MonoTime::from_nanos(start),
        gpustall_trace::MonotonicClock::read(),
    );
    let mut found = parts(folder, (0, None), span, &mut notes);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(found.len(), 1);
    found.swap_remove(0).trace
}

fn of<'a>(trace: &'a Trace, cat: &'a str) -> impl Iterator<Item = &'a Slice> {
    let slices = trace.slices.iter();
    slices.filter(move |slice| trace.text(slice.cat) == cat)
}

fn pid_of(trace: &Trace, slice: &Slice) -> Pid {
    trace.track(slice.track).expect("it has a track").pid
}

#[test]
fn every_batch_is_tied_to_who_made_it_and_to_who_took_it() {
    for name in ["in-process", "fork", "spawn", "prefetch"] {
        let (truth, trace) = (truth(name), trace(name));
        assert_eq!(trace.meta.pid, Pid(truth.pid));
        let mut makers: BTreeMap<u64, Vec<(&str, Pid)>> = BTreeMap::new();
        for stage in [cat::DATA_GET, cat::DATA_COLLATE] {
            for slice in of(&trace, stage) {
                let batch = trace.arg_u64(&slice.args, arg::BATCH);
                let batch = batch.expect("every stage is of a batch");
                let made = (stage, pid_of(&trace, slice));
                makers.entry(batch).or_default().push(made);
            }
        }
        let waits: Vec<&Slice> = of(&trace, cat::DATA_WAIT).collect();
        assert_eq!(waits.len(), truth.batches.len(), "{name}");
        for (wait, batch) in waits.iter().zip(&truth.batches) {
            let kind = trace.arg_str(&wait.args, arg::KIND);
            assert_eq!(kind, Some(batch.kind.as_str()), "{name}");
            let track = trace.track(wait.track).expect("it has a track");
            assert_eq!((track.pid.0, track.tid.0), (truth.pid, batch.thread));
            let number = trace.arg_u64(&wait.args, arg::BATCH).expect("it has one");
            let maker = Pid(batch.maker);
            let made = [(cat::DATA_GET, maker), (cat::DATA_COLLATE, maker)];
            assert_eq!(makers[&number], made, "{name}");
        }
        let outside = truth.batches.iter().filter(|b| b.maker != truth.pid);
        assert_eq!(trace.flows.len(), outside.count(), "{name}");
    }
}

#[test]
fn steps_go_from_call_to_call_and_evaluation_is_a_kind_of_its_own() {
    for name in ["in-process", "fork", "spawn"] {
        let (truth, trace) = (truth(name), trace(name));
        let report = diagnose(&trace);
        let trained = truth.batches.iter().filter(|b| b.kind == "train").count();
        // The first step of each of two epochs is told apart.
        let steps = report.steps.count + report.first_steps.length.count;
        assert_eq!(steps, trained as u64, "{name}");
        let names: Vec<_> = report.loaders.iter().map(|of| of.name.as_str()).collect();
        let called = |name: &&str| name.contains(", called at program.py:");
        assert!(names.iter().all(called), "{names:?}");
        assert_ne!(names[0], names[1]);
        let kinds: Vec<_> = report.loaders.iter().map(|of| of.kind.as_str()).collect();
        assert_eq!(kinds, ["train", "valid"], "{name}");
        let inside = report.loaders[0].in_process;
        assert_eq!(inside, Some(name == "in-process"));
        let workers = if name == "in-process" { 0 } else { 4 };
        assert_eq!(report.workers.len(), workers, "{name}");
    }
}

#[test]
fn a_loader_says_whether_its_data_set_is_iterated() {
    let folder = tempfile::tempdir().expect("the directory for temporary files is writable");
    for entry in std::fs::read_dir(recorded("in-process")).expect("it was recorded") {
        let (path, name) = entry
            .map(|of| (of.path(), of.file_name()))
            .expect("it is listed");
        let mut bytes = std::fs::read(&path).expect("it is read");
        if path.extension().is_some_and(|of| of == "details") {
            let text = String::from_utf8(bytes).expect("it is text");
            let of_rows = "\"dataset\": \"Rows\"";
            assert!(text.contains(of_rows));
            bytes = text
                .replace(of_rows, &format!("{of_rows}, \"iterable\": true"))
                .into();
        }
        std::fs::write(folder.path().join(name), bytes).expect("it is written");
    }
    for (trace, iterable) in [
        (trace("in-process"), false),
        (trace_of(folder.path()), true),
    ] {
        let says = |slice: &Slice| {
            let key = trace.strings.find(arg::ITERABLE);
            let mut args = slice.args.iter();
            args.any(|&(of, value)| Some(of) == key && matches!(value, Value::Bool(true)))
        };
        assert!(of(&trace, cat::DATA_WAIT).count() > 0);
        assert!(of(&trace, cat::DATA_WAIT).all(|wait| says(wait) == iterable));
    }
}

#[test]
fn a_thread_that_hands_batches_on_makes_no_steps_and_the_one_that_trains_waits() {
    let (truth, trace) = (truth("prefetch"), trace("prefetch"));
    let steps: Vec<&Slice> = of(&trace, cat::STEP).collect();
    assert_eq!(steps.len(), truth.batches.len());
    let thread = |slice: &&Slice| trace.arg_u64(&slice.args, arg::THREAD);
    assert!(
        steps
            .iter()
            .all(|step| thread(step) == Some(truth.pid.into()))
    );
    let report = diagnose(&trace);
    assert_eq!(report.loaders.len(), 1);
    assert_eq!(report.loaders[0].kind, "train");
    assert_eq!(report.devices.len(), 1);
}

#[test]
fn the_window_ends_with_the_last_loop() {
    let trace = trace("fork");
    let last = of(&trace, cat::EPOCH_END).map(|slice| slice.span.end).max();
    let report = diagnose(&trace);
    assert!(Some(trace.meta.end) > last);
    let end = report.window_start_ns + report.window_ns;
    assert_eq!(Some(end), last.map(|end| end.as_nanos()));
}

/// A copy of a recording in which the trainer has room for `slots` marks alone.
fn capped(name: &str, slots: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let own = format!("python.{}.0.marks", truth(name).pid);
    for entry in std::fs::read_dir(recorded(name)).expect("it was recorded") {
        let entry = entry.expect("it can be read");
        let mut bytes = std::fs::read(entry.path()).expect("it can be read");
        if entry.file_name().to_string_lossy() == own {
            let room = (1 + slots) * super::mark::MARK_BYTES;
            let lost = (bytes.len() - room) / super::mark::MARK_BYTES;
            bytes.truncate(room);
            bytes[16..24].copy_from_slice(&(lost as u64).to_le_bytes());
        }
        std::fs::write(folder.path().join(entry.file_name()), bytes).expect("there is room");
    }
    folder
}

#[test]
fn the_window_of_a_process_without_room_for_more_marks_ends_with_its_last_one() {
    for name in ["in-process", "fork", "spawn"] {
        for slots in [30, 31, 32, 33, 34, 35] {
            let folder = capped(name, slots);
            let (read, _) = super::record::read(folder.path()).expect("the folder is there");
            let trainer = read.iter().find(|of| of.lost > 0).expect("it is capped");
            let trace = trace_of(folder.path());
            let last = trainer.full().expect("marks were lost") - trace.meta.start_mono.as_nanos();
            let pauses: Vec<&Slice> = of(&trace, cat::PAUSE).collect();
            assert_eq!(pauses.len(), 1, "{name} {slots}");
            let process = trace.arg_u64(&pauses[0].args, arg::PROCESS);
            assert_eq!(process, Some(trainer.process.pid.into()));
            assert_eq!(pauses[0].span.start.as_nanos(), last);
            assert_eq!(pauses[0].span.end, trace.meta.end);
            let report = diagnose(&trace);
            assert!(report.window_ns > 0, "{name} {slots}");
            assert!(report.window_start_ns + report.window_ns <= last);
            assert_eq!(report.unfinished, [], "{name} {slots}");
            let lost = report
                .notes
                .iter()
                .any(|note| note.contains("Events were lost"));
            assert!(lost, "{:?}", report.notes);
        }
    }
}

#[test]
fn a_recording_that_was_cut_off_anywhere_is_read_as_far_as_it_goes() {
    let folder = recorded("fork");
    let pid = truth("fork").pid;
    let file = |end: &str| folder.join(format!("python.{pid}.0.{end}"));
    let marks = std::fs::read(file("marks")).expect("it was recorded");
    let details = std::fs::read_to_string(file("details")).expect("it was recorded");
    let whole = super::record::recording(&marks, &details).expect("it is whole");
    for cut in (0..marks.len()).step_by(7) {
        let read = super::record::recording(&marks[..cut], &details).ok();
        let slots = cut / super::mark::MARK_BYTES;
        assert_eq!(read.is_some(), slots > 0, "{cut}");
        let read = read.map_or(0, |read| read.marks.len());
        assert!(read <= slots && read <= whole.marks.len());
    }
    for cut in 0..details.len() {
        let read = super::record::recording(&marks, &details[..cut]).ok();
        let loops = read.map_or(0, |read| read.iterations.len());
        assert!(loops <= whole.iterations.len());
    }
    assert!(super::record::recording(b"no marks", &details).is_err());
}
