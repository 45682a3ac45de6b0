//! Tells the command's build script where this crate's source lies.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:directory={directory}");
}
