//! A forked child has no part in the recording of its parent.
#![allow(unsafe_code, reason = "forks, as Python and pre-forking servers do")]
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use gpustall_trace::{EventRef, Meta, PartialWriter, Pid, WriteError, read};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

/// A child that another test forks while a file is being opened has a part in it.
static ALONE: Mutex<()> = Mutex::new(());

/// A child that only waits; ended when dropped.
struct Child(libc::pid_t);

impl Child {
    /// Forks one and waits until `job` was done in it; what it came to.
    fn fork(job: impl FnOnce() -> bool) -> (Self, bool) {
        let (mut told, mut tells) = UnixStream::pair().unwrap();
        // SAFETY: the child does `job`, waits and is killed; it returns to nothing of this test.
        match unsafe { libc::fork() } {
            0 => {
                let _ = tells.write_all(&[u8::from(job())]);
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            pid => {
                assert!(pid > 0, "{}", std::io::Error::last_os_error());
                let mut answer = [0];
                told.read_exact(&mut answer).unwrap();
                (Self(pid), answer == [1])
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is ours and has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

const PROCESS: EventRef<'_> = EventRef::Process {
    pid: Pid(7),
    name: "trainer",
    sort: 0,
};

#[test]
fn a_child_that_outlives_its_parent_does_not_hold_its_recording() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace.json.partial");
    let mut writer = PartialWriter::create(&path, &Meta::default()).unwrap();
    let (child, _) = Child::fork(|| true);
    let busy = PartialWriter::create(&path, &Meta::default());
    assert!(matches!(busy, Err(WriteError::Busy { .. })), "the parent's");
    writer.push(&PROCESS);
    writer.flush().unwrap();
    // As when the parent is killed: its descriptor is closed and nothing else happens.
    drop(writer);
    let next = PartialWriter::create(&path, &Meta::default()).unwrap();
    assert!(next.kept().is_some(), "the parent's recording was kept");
    drop(child);
}

#[test]
fn what_a_child_writes_does_not_reach_the_file() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace.json.partial");
    let mut writer = PartialWriter::create(&path, &Meta::default()).unwrap();
    writer.push(&PROCESS);
    // What waited in memory at the fork would be in the file twice.
    let (child, flushed) = Child::fork(|| writer.flush().is_ok());
    assert!(flushed, "the child is not told of an error");
    let before = read(&path).unwrap().trace;
    assert_eq!(before.processes.len(), 0);
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().trace.processes.len(), 1);
    drop(child);
}
