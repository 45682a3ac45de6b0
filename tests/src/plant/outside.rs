//! What is planted outside of the training program's own threads.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Keeps the calling thread, and the threads that it makes, on one CPU.
pub fn pin(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).expect("this CPU may be used");
}

/// A process that ends with its owner.
#[derive(Debug)]
pub struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Beside {
    /// This program once more, as `plant spin CPU`.
    pub fn spinner(cpu: usize) -> io::Result<Self> {
        let exe = std::env::current_exe()?;
        let child = Command::new(exe).arg("spin").arg(cpu.to_string()).spawn()?;
        Ok(Self(child))
    }
}

/// A store in a process of its own: it answers each byte with a byte, after `delay`.
pub fn slow_store(delay: Duration) -> io::Result<(UnixStream, Beside)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let listener = std::os::unix::net::UnixListener::bind(&path)?;
    let exe = std::env::current_exe()?;
    let child = Command::new(exe)
        .arg("store")
        .arg(&path)
        .arg(delay.as_micros().to_string())
        .spawn()?;
    Ok((listener.accept()?.0, Beside(child)))
}

/// The other end of [`slow_store`].
pub fn serve_store(path: &Path, delay: Duration) -> io::Result<()> {
    let mut asked = UnixStream::connect(path)?;
    let mut byte = [0];
    while asked.read(&mut byte)? == 1 {
        std::thread::sleep(delay);
        asked.write_all(&byte)?;
    }
    Ok(())
}

/// A memory cgroup with a limit, of either version; removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
}

impl MemoryLimit {
    /// Puts this process into a new group that may use `bytes`.
    pub fn enter(bytes: u64) -> io::Result<Self> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = match v1.is_dir() {
            true => (v1.to_owned(), "memory.limit_in_bytes"),
            false => (PathBuf::from("/sys/fs/cgroup"), "memory.max"),
        };
        let name = format!("gpustall-plant-{}", std::process::id());
        let group = root.join(name);
        fs::create_dir(&group)?;
        let entered = Self {
            group,
            parent: root,
        };
        fs::write(entered.group.join(limit), bytes.to_string())?;
        entered.move_to(&entered.group)?;
        Ok(entered)
    }

    fn move_to(&self, group: &Path) -> io::Result<()> {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = self.move_to(&self.parent);
        let _ = fs::remove_dir(&self.group);
    }
}
