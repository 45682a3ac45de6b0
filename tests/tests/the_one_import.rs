//! `use gpustall::instrument` is all that a trainer imports: tried in a crate outside of the
//! workspace.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_tests::{only, slices};
use gpustall_trace::{Value, vocab::cat};
use std::path::Path;
use std::process::Command;

const MAIN: &str = r#"
use gpustall::instrument;

#[instrument]
fn forward(rows: u64) {
    let _optimizer = instrument::phase("optimizer");
}

fn main() {
    let session = gpustall::session("outside").output("outside.trace.json").start().unwrap();
    {
        let _step = instrument::step("direct");
        forward(3);
    }
    session.finish().unwrap();
}
"#;

#[test]
fn one_import_brings_the_module_and_the_attribute_to_a_crate_outside_the_workspace() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crate_directory = tempfile::tempdir().unwrap();
    let outside = crate_directory.path();
    let manifest = format!(
        r#"
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[dependencies]
gpustall = {{ path = "{}", default-features = false }}
tracing = "0.1"

[workspace]
"#,
        workspace.join("sdk").display()
    );
    std::fs::write(outside.join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace was tested with, and that are here already.
    std::fs::copy(workspace.join("Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    std::fs::create_dir(outside.join("src")).unwrap();
    std::fs::write(outside.join("src/main.rs"), MAIN).unwrap();

    let output = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .current_dir(outside)
        .env("CARGO_TARGET_DIR", workspace.join("target/outside"))
        .env_remove("GPUSTALL")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");

    let trace = gpustall_trace::read(&outside.join("outside.trace.json"))
        .unwrap()
        .trace;
    let forward = only(&trace, "forward");
    assert_eq!(trace.text(forward.cat), cat::SPAN);
    assert_eq!(trace.arg(&forward.args, "rows"), Some(Value::U64(3)));
    assert_eq!(trace.text(only(&trace, "optimizer").cat), cat::PHASE);
    assert_eq!(slices(&trace, cat::STEP).len(), 1);
}
