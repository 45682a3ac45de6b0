//! The stand-in for the CUDA driver's library, built when a test first asks for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Names of all functions in `library.rs`.
#[allow(dead_code, reason = "not every test binary needs them")]
pub(crate) const EXPORTS: [&str; 10] = [
    "cuInit",
    "cuStreamSynchronize",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoD_v2_ptds",
    "cuMemcpy2D_v2",
    "cuMemsetD2D32Async",
    "cuMemAlloc_v2",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuEventSynchronize",
];

/// A folder with `libcuda.so.1`, for one test. Each has a file of its own: probes stay with a file.
pub(crate) struct FakeCuda(TempDir);

impl FakeCuda {
    pub(crate) fn new() -> Self {
        static BUILT: LazyLock<Vec<u8>> = LazyLock::new(build);
        let fake = Self(tempfile::tempdir().unwrap());
        std::fs::write(fake.path(), BUILT.as_slice()).unwrap();
        fake
    }

    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("libcuda.so.1")
    }
}

fn build() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda/library.rs");
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("built.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", "-O", "--crate-type", "cdylib", "-o"])
        .args([&library, &source])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    std::fs::read(library).unwrap()
}
