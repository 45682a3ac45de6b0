//! A sidecar that serves while a test runs.

use crate::eventually;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running `gpustall-sidecar serve`; ended when dropped.
#[derive(Debug)]
pub struct Sidecar {
    child: Child,
    directory: tempfile::TempDir,
}

impl Sidecar {
    /// Starts one on a socket of its own; `None`, with a line that says so, where this is not root.
    ///
    /// # Panics
    /// When `CI` is set and this is not root, and when the sidecar does not come up.
    pub fn start(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(
                std::env::var_os("CI").is_none(),
                "{test}: CI must run this as root"
            );
            crate::skip(
                test,
                "kernel evidence needs root: only what spans say is tested",
            );
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(beside("gpustall-sidecar"))
            .arg("serve")
            .arg("--socket")
            .arg(directory.path().join("socket"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut sidecar = Self { child, directory };
        eventually("the sidecar listens", || {
            let ended = sidecar.child.try_wait().unwrap();
            assert_eq!(
                ended, None,
                "the sidecar ended: run `gpustall-sidecar check`"
            );
            UnixStream::connect(sidecar.socket()).ok()
        });
        Some(sidecar)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of this workspace, which `cargo test --workspace` has built beside this test.
pub fn beside(program: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).map(|to| to.join(program));
    let built = built.filter(|program| Path::is_file(program));
    built.unwrap_or_else(|| panic!("{program} is not built: cargo test --workspace builds it"))
}
