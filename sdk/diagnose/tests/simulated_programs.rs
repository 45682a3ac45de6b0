//! Programs of PyTorch that nobody recorded, played through by a simulator: the cause that was planted
//! must be found first, and the shares must be those that were played, however the file is written.
//!
//! `cargo test -p gpustall-diagnose --test simulated_programs -- --nocapture` prints what was found.

mod simulated;

use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::read_any;
use simulated::machine::Machine;
use simulated::writing::{EVERY, Writing};
use simulated::{NOTHING, Program, frames, healthy, rare, starved_data, starved_host, unmarked};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Percent of the window that shares may be off.
const SHARE_OFF: f64 = 0.5;
const DATA_OFF: f64 = 1.0;

fn read(machine: &Machine, writing: Writing) -> Report {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("gpustall-simulated-{}-{number}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, writing.json(machine)).expect("it is written");
    let read = read_any(&path);
    std::fs::remove_file(&path).expect("it goes");
    let read = read.expect("the trace is readable");
    assert_eq!(read.warnings, [""; 0], "{writing:?}");
    let report = diagnose(&read.trace);
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    report
}

/// The cause that is found first.
fn cause(report: &Report) -> &'static str {
    let first = report.findings.first();
    first.map_or(NOTHING, |finding| finding.cause.id())
}

/// What is wrong with the report on a program, in words.
fn wrong(machine: &Machine, expected: &str, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let found = cause(report);
    if !expected.split('|').any(|cause| cause == found) {
        wrong.push(format!("found {found}"));
    }
    let truth = machine.truth.shares(machine.device);
    let Some(device) = report.devices.get(machine.device as usize) else {
        wrong.push("no device".to_owned());
        return wrong;
    };
    let data = report
        .breakdown
        .iter()
        .filter(|of| of.0.starts_with("data"));
    let data: f64 = data.map(|(_, share)| share).sum();
    let exchange = device.exposed_comm.unwrap_or(f64::NAN);
    let copies = device.exposed_copy.unwrap_or(f64::NAN);
    for (what, got, is, off) in [
        ("compute", device.compute, truth.compute, SHARE_OFF),
        ("exchange", exchange, truth.exchange, SHARE_OFF),
        ("copies", copies, truth.copies, SHARE_OFF),
        ("idle", device.idle, truth.idle, SHARE_OFF),
        ("data", data, truth.data, DATA_OFF),
    ] {
        let got = got * 100.0;
        if got.is_nan() || (got - is).abs() > off {
            wrong.push(format!("{what} {got:.1} % instead of {is:.1} %"));
        }
    }
    wrong
}

/// Plays each program and reads each way of writing it; prints what was planted and what was found
/// first, and fails if anything is wrong.
fn try_all(programs: &[Program]) {
    let mut failures = Vec::new();
    let mut matrix: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for &(name, expected, play) in programs {
        let mut machine = Machine::new();
        play(&mut machine);
        for writing in EVERY {
            let report = read(&machine, writing);
            *matrix.entry((expected, cause(&report))).or_default() += 1;
            let wrong = wrong(&machine, expected, &report);
            if !wrong.is_empty() {
                let wrong = wrong.join("; ");
                failures.push(format!("{name} ({writing:?}): {wrong}\n{report}"));
            }
        }
    }
    for ((planted, found), files) in matrix {
        println!("planted {planted:<32} found {found:<20} in {files:>3} files");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_healthy_program_has_no_finding() {
    try_all(&healthy::HEALTHY);
}

#[test]
fn a_device_that_waits_for_data_is_told_so() {
    try_all(&starved_data::DATA);
}

#[test]
fn a_device_that_waits_for_copies_is_told_so() {
    try_all(&starved_data::COPIES);
}

#[test]
fn a_device_that_waits_for_the_host_or_for_others_is_told_why() {
    try_all(&starved_host::HOST);
}

#[test]
fn a_program_of_a_rarer_kind_is_told_right() {
    try_all(&rare::RARE);
}

#[test]
fn what_nobody_marked_is_known_by_its_function() {
    try_all(&frames::FRAMES);
}

#[test]
fn a_loop_whose_steps_nothing_marks_is_told_right() {
    try_all(&unmarked::UNMARKED);
}
