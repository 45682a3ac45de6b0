//! The committed eBPF object is the one of the sources beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// Needs no tools of eBPF: it compares what the object was built from with what is there.
/// `probes/build.sh --check` builds it again, too.
#[test]
fn the_committed_object_was_built_from_these_sources() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/build.sh");
    let run = Command::new(script)
        .arg("--check-sources")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
}
