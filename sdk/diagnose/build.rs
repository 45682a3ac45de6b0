//! Gives the rules of the diagnosis a number: one of its sources, so that it changes with each of them.

use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files)?;
    files.sort();
    let mut number = FNV_BASIS;
    for file in files {
        let name = file.to_string_lossy().into_owned().into_bytes();
        for byte in name.into_iter().chain(fs::read(&file)?) {
            number = (number ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    // Half of its digits tell versions apart as well, and can be read out.
    let short = (number ^ (number >> 32)) as u32;
    println!("cargo::rustc-env=GPUSTALL_RULES={short:08x}");
    Ok(())
}

/// FNV-1a: the same wherever it is built, whatever the compiler.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|of| of == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
