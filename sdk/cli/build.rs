//! Builds the library that the CUDA driver loads into jobs, so that the command can carry it.
//!
//! Cargo cannot yet hand one crate's cdylib to another on stable. So this script runs the same
//! cargo once more, on a crate of its own making in `OUT_DIR` whose only source is that of
//! gpustall-inject, with a target directory of its own. Every crate that it needs is a dependency
//! of the command too, so it needs no network: `cargo install`, `--offline` and vendored builds
//! work. `GPUSTALL_INJECT_LIBRARY` names a library that was built elsewhere, and nothing is built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Crates of gpustall that the library consists of, by their folder in the repository.
const PARTS: [(&str, &str); 2] = [("gpustall-trace", "trace"), ("gpustall-cuda", "cuda")];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GPUSTALL_INJECT_LIBRARY");
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = match env::var_os("GPUSTALL_INJECT_LIBRARY") {
        Some(library) => fs::canonicalize(library).expect("GPUSTALL_INJECT_LIBRARY names no file"),
        // The page of the documentation needs no library, and may not be allowed to build one.
        None if env::var_os("DOCS_RS").is_some() => {
            let empty = out.join("none.so");
            fs::write(&empty, "").expect("cannot write to OUT_DIR");
            empty
        }
        None => build(&out),
    };
    println!("cargo:rerun-if-changed={}", library.display());
    println!("cargo:rustc-env=GPUSTALL_INJECT_SO={}", library.display());
}

fn build(out: &Path) -> PathBuf {
    let source = source();
    watch(&source.join("src"));
    let package = out.join("carried");
    fs::create_dir_all(&package).expect("cannot make a folder in OUT_DIR");
    fs::write(package.join("Cargo.toml"), manifest(&source)).expect("cannot write to OUT_DIR");
    seed_lock(&package);
    let target = out.join("target");
    // Without the network first: everything is there already, and must be what the command uses.
    let built = cargo(&package, &target, true) || cargo(&package, &target, false);
    assert!(
        built,
        "the library for jobs could not be built; build gpustall-inject by itself and name the result in GPUSTALL_INJECT_LIBRARY"
    );
    let mut folder = target;
    if variable("TARGET") != variable("HOST") {
        folder = folder.join(variable("TARGET"));
    }
    folder.join("release/libgpustall_carried.so")
}

/// The folder of gpustall-inject: beside this one in the repository, else where its own build script says. What
/// that said may be kept in the target directory from the build of another checkout, which is gone by now.
fn source() -> PathBuf {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let beside = own.with_file_name("inject");
    match beside.join("Cargo.toml").exists() {
        true => beside,
        false => PathBuf::from(variable("DEP_GPUSTALL_INJECT_DIRECTORY")),
    }
}

/// Runs this script again when something in `folder` changes; the path is told from here, so that another
/// checkout with the same target directory watches its own.
fn watch(folder: &Path) {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let beside = own.parent().and_then(|all| folder.strip_prefix(all).ok());
    match beside {
        Some(beside) => println!("cargo:rerun-if-changed=../{}", beside.display()),
        None => println!("cargo:rerun-if-changed={}", folder.display()),
    }
}

/// The crate: the source of gpustall-inject, as nothing but a shared library.
fn manifest(source: &Path) -> String {
    let version = variable("CARGO_PKG_VERSION");
    let mut dependencies = String::new();
    let mut patches = String::new();
    for (name, folder) in PARTS {
        // Beside it in the repository, or in the folder into which cargo unpacks packages.
        let places = [folder.to_owned(), format!("{name}-{version}")];
        let places = places.map(|place| source.with_file_name(place));
        let place = places
            .iter()
            .find(|place| place.join("Cargo.toml").exists());
        let Some(place) = place else {
            dependencies += &format!("{name} = \"{version}\"\n");
            continue;
        };
        watch(&place.join("src"));
        dependencies += &format!("{name} = {{ path = {:?} }}\n", place);
        patches += &format!("{name} = {{ path = {:?} }}\n", place);
    }
    format!(
        "[package]\nname = \"gpustall-carried\"\nversion = \"{version}\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\npath = {:?}\n\n\
         [dependencies]\nlibc = \"0.2\"\n{dependencies}\n\
         [patch.crates-io]\n{patches}\n\
         [profile.release]\nopt-level = 2\nstrip = true\npanic = \"unwind\"\n\n[workspace]\n",
        source.join("src/lib.rs")
    )
}

/// Begins with the versions that the command itself is built with.
fn seed_lock(package: &Path) {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let lock = own.ancestors().map(|folder| folder.join("Cargo.lock"));
    if let Some(lock) = lock.into_iter().find(|lock| lock.exists()) {
        let _ = fs::copy(lock, package.join("Cargo.lock"));
    }
}

fn cargo(package: &Path, target: &Path, offline: bool) -> bool {
    let mut command = Command::new(variable("CARGO"));
    command
        .args(["build", "--release", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        // Where the settings of this build are found.
        .current_dir(variable("CARGO_MANIFEST_DIR"));
    if offline {
        command.arg("--offline");
    }
    if variable("TARGET") != variable("HOST") {
        command.args(["--target", &variable("TARGET")]);
    }
    // What this build was told for itself, a checker in the compiler's place above all.
    for name in [
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_MAKEFLAGS",
        "MAKEFLAGS",
    ] {
        command.env_remove(name);
    }
    command.status().is_ok_and(|status| status.success())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets no {name}"))
}
