//! `gpustall merge`: recordings of one job set side by side.

use crate::program::{folder, gpustall, stderr, stdout};
use crate::recording::{kernel, partial};
use gpustall_diagnose::diagnose;
use gpustall_trace::vocab::cat;
use gpustall_trace::{Slice, Trace, read};
use std::path::Path;

#[test]
fn merge_sets_two_recordings_side_by_side_and_reports_on_them() {
    let dir = folder();
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
    let over = gpustall(&["merge", "--force", "-o"], &[&both, &sdk, &kernel]);
    assert_eq!(over.status.code(), Some(0), "{}", stderr(&over));
}

#[test]
fn the_order_of_the_traces_changes_nothing() {
    let dir = folder();
    let sdk = partial(dir.path(), "killed");
    let start = read(&sdk).expect("it was just written").trace;
    let start = start.meta.start_mono.as_nanos();
    // Two recordings of the kernel have tracks of one name, of which one must give way.
    let [kernel, late] = [1, 2].map(|later| kernel(dir.path(), start + later));
    let merged = |name: &str, traces: [&Path; 3]| {
        let both = dir.path().join(name);
        let [first, second, third] = traces;
        let output = gpustall(&["merge", "-o"], &[&both, first, second, third]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        read(&both).expect("it was just written").trace
    };
    let one = merged("one.json", [&sdk, &kernel, &late]);
    let other = merged("other.json", [&late, &kernel, &sdk]);
    assert_eq!(one.meta.name, "killed");
    assert_eq!(diagnose(&one), diagnose(&other));
    let names = |trace: &Trace| -> Vec<String> {
        let tracks = trace.tracks.iter();
        tracks
            .map(|track| trace.text(track.name).to_owned())
            .collect()
    };
    assert_eq!(names(&one), names(&other));
    assert_eq!(one.slices, other.slices);
    assert!(names(&one).iter().any(|name| name == "dataloader-0"));
}

#[test]
fn merge_tells_what_does_not_belong_together() {
    let dir = folder();
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
