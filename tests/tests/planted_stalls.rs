//! Programs with one planted cause each, and healthy ones: the first finding must name the cause,
//! and its loss must be what the plant took by its own clocks.
//!
//! `PLANTED_RUNS` is how often each runs (1; CI: 3), `PLANTED` the names of those to run.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::plant::catalogue::Truth;
use gpustall_tests::plant::{PLANTS, Plant, run};
use gpustall_tests::sidecar::Sidecar;
use gpustall_tests::skip;
use serde_json::Value;
use std::collections::BTreeMap;

/// How far a loss may be from the truth.
const TOLERANCE: f64 = 0.10;

/// What one run of a plant came to.
struct Run {
    plant: &'static Plant,
    /// The cause of the first finding.
    found: Option<String>,
    found_ns: f64,
    true_ns: f64,
    verdict: String,
    /// Others kept the machine busy: this run is no test.
    disturbed: bool,
}

impl Run {
    /// Whether the cause is the planted one, or without the kernel's evidence a coarser one.
    fn is_right(&self, kernel: bool) -> bool {
        match (self.plant.cause, self.found.as_deref()) {
            (None, found) => found.is_none(),
            (Some(cause), Some(found)) => found == cause || (!kernel && cause.starts_with(found)),
            // What only the kernel sees looks like compute without it.
            (Some(cause), None) => !kernel && !cause.starts_with("data"),
        }
    }

    fn error(&self) -> f64 {
        (self.found_ns - self.true_ns) / self.true_ns
    }
}

#[test]
fn each_planted_cause_is_found_and_its_loss_is_what_the_plant_took() {
    let sidecar = Sidecar::start("planted_stalls");
    let default = if std::env::var_os("CI").is_some() {
        3
    } else {
        1
    };
    let runs = std::env::var("PLANTED_RUNS").map_or(default, |runs| runs.parse().unwrap());
    let chosen = std::env::var("PLANTED").ok();
    let chosen = |plant: &Plant| {
        chosen
            .as_ref()
            .is_none_or(|names| names.split(',').any(|n| n == plant.name))
    };
    let mut all = Vec::new();
    for _ in 0..runs {
        for plant in PLANTS.iter().filter(|plant| chosen(plant)) {
            all.push(run(plant, sidecar.as_ref()));
            print_line(all.last().unwrap());
        }
    }
    print_matrix(&all);
    let kernel = sidecar.is_some();
    let (disturbed, judged): (Vec<Run>, Vec<Run>) = all.into_iter().partition(|run| run.disturbed);
    let wrong: Vec<String> = judged
        .iter()
        .filter_map(|run| complaint(run, kernel))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    if disturbed.len() > judged.len() {
        let why = "other programs kept the machine busy in most of the runs: nothing is judged";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        skip("planted_stalls", why);
    }
}

/// What is wrong with a run, if anything.
fn complaint(run: &Run, kernel: bool) -> Option<String> {
    let Run {
        plant,
        found,
        verdict,
        ..
    } = run;
    if !run.is_right(kernel) {
        let (planted, found) = (
            plant.cause.unwrap_or("nothing"),
            found.as_deref().unwrap_or("nothing"),
        );
        return Some(format!(
            "{}: planted {planted}, found {found}: {verdict}",
            plant.name
        ));
    }
    let compared = kernel && plant.cause.is_some();
    (compared && run.error().abs() > TOLERANCE).then(|| {
        format!(
            "{}: the loss is off by {:+.1} %",
            plant.name,
            100.0 * run.error()
        )
    })
}

fn run(plant: &'static Plant, sidecar: Option<&Sidecar>) -> Run {
    let program = env!("CARGO_BIN_EXE_plant");
    let ran = run::run(program, plant, sidecar, &[]);
    let mut disturbed = ran.disturbed;
    let mut true_ns = ran.truth_ns("lost_ns");
    if plant.truth == Truth::PairedRun {
        let bare = run::run(program, plant, sidecar, &["--bare"]);
        disturbed |= bare.disturbed;
        true_ns = ran.truth_ns("trained_ns") - bare.truth_ns("trained_ns");
    }
    let found = ran.report["findings"][0]["cause"].as_str();
    Run {
        plant,
        found_ns: found_ns(plant, &ran.report["charges_ns"]),
        found: found.map(ToOwned::to_owned),
        true_ns,
        disturbed,
        verdict: ran.report["verdict"].as_str().unwrap().to_owned(),
    }
}

/// What the report charges to what the plant took: for a slow start, starts; for other plants in
/// the loader, all of its waits, whatever else the same batches needed; else the cause itself.
fn found_ns(plant: &Plant, charges: &Value) -> f64 {
    let Some(planted) = plant.cause else {
        return 0.0;
    };
    let counts = |cause: &str| match planted {
        "data.startup" => cause == planted,
        _ if planted.starts_with("data") => cause.starts_with("data") && cause != "data.startup",
        _ => cause == planted,
    };
    let charges = charges.as_object().unwrap().iter();
    let counted = charges.filter(|(cause, _)| counts(cause));
    counted.map(|(_, ns)| ns.as_f64().unwrap()).sum()
}

fn print_line(run: &Run) {
    if run.disturbed {
        println!(
            "{}: not judged, others kept the machine busy",
            run.plant.name
        );
        return;
    }
    let planted = run.plant.cause.unwrap_or("-");
    let found = run.found.as_deref().unwrap_or("-");
    print!(
        "{:<26} planted {planted:<18} found {found:<18}",
        run.plant.name
    );
    match run.plant.cause {
        Some(_) => println!(
            " lost {:>7.1} ms, found {:>7.1} ms ({:+.1} %)",
            run.true_ns / 1e6,
            run.found_ns / 1e6,
            100.0 * run.error()
        ),
        None => println!(),
    }
}

/// How often each planted cause was found as which.
fn print_matrix(all: &[Run]) {
    let mut matrix: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for run in all.iter().filter(|run| !run.disturbed) {
        let row = matrix
            .entry(run.plant.cause.unwrap_or("nothing"))
            .or_default();
        *row.entry(run.found.as_deref().unwrap_or("nothing"))
            .or_default() += 1;
    }
    println!("\nplanted             found as");
    for (planted, row) in matrix {
        let cells: Vec<String> = row
            .iter()
            .map(|(found, n)| format!("{found} x{n}"))
            .collect();
        println!("{planted:<19} {}", cells.join(", "));
    }
}
