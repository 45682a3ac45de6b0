//! Where the CUDA driver's library is: on the loader's path, and in the memory of processes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folders where a driver's installer, a container runtime or a distribution puts it.
const FOLDERS: [&str; 11] = [
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib/wsl/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
];

/// A file by what it is, whatever path leads to it: device and inode.
pub(crate) type FileId = (u64, u64);

/// The file that a path leads to.
pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    let data = fs::metadata(path).ok()?;
    data.is_file().then(|| (data.dev(), data.ino()))
}

/// Those that a program finds that starts now: `LD_LIBRARY_PATH`, and the usual folders.
pub(crate) fn on_loader_path() -> Vec<PathBuf> {
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let own = std::env::split_paths(&own).filter(|folder| folder.is_absolute());
    let usual = FOLDERS.iter().map(PathBuf::from);
    let mut found: Vec<(FileId, PathBuf)> = Vec::new();
    for folder in own.chain(usual) {
        let path = folder.join("libcuda.so.1");
        match file_id(&path) {
            Some(id) if found.iter().all(|(other, _)| *other != id) => found.push((id, path)),
            _ => {}
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

/// The one that a process has mapped, as this process can open it: a process in a container has a root
/// of its own.
pub(crate) fn mapped_by(pid: u32) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = maps.lines().find_map(library_in)?;
    Some(PathBuf::from(format!("/proc/{pid}/root{path}")))
}

/// The path in a line `start-end rwxp offset dev inode   /path`, when it is the library's.
fn library_in(line: &str) -> Option<&str> {
    let path = &line[line.find('/')?..];
    let (_, name) = path.rsplit_once('/')?;
    name.starts_with("libcuda.so").then_some(path)
}

/// Looks again and again at processes that have not mapped the library yet.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Size of the address space of each when it was last looked at, as `/proc` writes it.
    sizes: HashMap<u32, Option<String>>,
    next: Instant,
}

impl Watch {
    /// How often at most.
    pub(crate) const EVERY: Duration = Duration::from_millis(200);
    /// A look may take this share of the time until the next.
    const SHARE: u32 = 100;

    pub(crate) fn new() -> Self {
        Self {
            sizes: HashMap::new(),
            next: Instant::now(),
        }
    }

    pub(crate) fn due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Libraries that these processes have mapped, each process told once. One whose memory has the
    /// size of the last look has mapped nothing since.
    pub(crate) fn look(&mut self, pids: impl IntoIterator<Item = u32>) -> Vec<PathBuf> {
        let begun = Instant::now();
        let before = std::mem::take(&mut self.sizes);
        let mut found = Vec::new();
        for pid in pids {
            // A process that was told has `None`.
            let known = before.get(&pid);
            let mut size = Some(size_of(pid));
            if known == Some(&None) {
                size = None;
            } else if known != Some(&size)
                && let Some(path) = mapped_by(pid)
            {
                found.push(path);
                size = None;
            }
            self.sizes.insert(pid, size);
        }
        self.next = begun + Self::EVERY.max(begun.elapsed() * Self::SHARE);
        found
    }
}

/// The first field of `/proc/PID/statm`; empty when the process is gone.
fn size_of(pid: u32) -> String {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    statm.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_known_by_its_name_with_any_version() {
        let line = |path: &str| format!("7f00-7f10 r-xp 00000000 08:01 42    {path}");
        let is = |path: &str| library_in(&line(path)) == Some(path);
        assert!(is("/usr/lib/libcuda.so.1") && is("/a b/libcuda.so.580.65.06"));
        assert!(!is("/usr/lib/libcudart.so.12") && !is("/usr/lib/libcuda.so/x"));
        assert_eq!(library_in("7f00-7f10 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn a_process_without_the_library_is_looked_at_again_only_when_it_grew() {
        let mut watch = Watch::new();
        let me = std::process::id();
        assert!(watch.look([me]).is_empty());
        assert!(!watch.due());
        assert!(matches!(watch.sizes.get(&me), Some(Some(_))));
        assert!(watch.look([]).is_empty() && watch.sizes.is_empty());
    }
}
