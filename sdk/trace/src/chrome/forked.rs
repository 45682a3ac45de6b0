//! Letting go of a recording in forked children.
//!
//! The lock on a partial file belongs to the open file, which a forked child shares: it would go on
//! holding the lock of a parent that was killed, and the next run would be told that the recording
//! still goes on. A POSIX lock (`fcntl`) is not inherited, but is lost as soon as the process closes any
//! other descriptor of the file, as reading it back does. So each child gives up its copy: behind
//! its number stands `/dev/null`, so that nothing the child does reaches the file either.
#![allow(
    unsafe_code,
    reason = "registers a handler that runs in forked children"
)]

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Recordings of one process at a time; further ones are shared with children.
const MOST: usize = 256;

const NONE: RawFd = -1;

/// Descriptors that children give up.
static GIVEN_UP: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

/// `/dev/null`, for the children.
static NOWHERE: AtomicI32 = AtomicI32::new(NONE);

/// As long as it lives, forked children give a file up.
#[derive(Debug)]
pub(super) struct NotInChildren {
    place: Option<&'static AtomicI32>,
}

impl NotInChildren {
    /// Drop it before the file is closed.
    pub(super) fn new(file: &File) -> Self {
        let free = |place: &&AtomicI32| {
            let fd = file.as_raw_fd();
            let (done, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            place.compare_exchange(NONE, fd, done, failed).is_ok()
        };
        Self {
            place: prepare().then(|| GIVEN_UP.iter().find(free)).flatten(),
        }
    }
}

impl Drop for NotInChildren {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(NONE, Ordering::Release);
        }
    }
}

/// Sees to it that children run [`in_child`]; whether they will.
fn prepare() -> bool {
    static PREPARED: OnceLock<Option<File>> = OnceLock::new();
    let nowhere = PREPARED.get_or_init(|| {
        let nowhere = OpenOptions::new().append(true).open("/dev/null").ok()?;
        NOWHERE.store(nowhere.as_raw_fd(), Ordering::Release);
        // SAFETY: the handler only does what is allowed between fork and exec.
        let registered = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        (registered == 0).then_some(nowhere)
    });
    nowhere.is_some()
}

/// Runs in each forked child, where no lock may be taken and nothing allocated.
unsafe extern "C" fn in_child() {
    let nowhere = NOWHERE.load(Ordering::Acquire);
    for place in &GIVEN_UP {
        let fd = place.swap(NONE, Ordering::AcqRel);
        if fd != NONE {
            // SAFETY: a system call on two descriptors that this process has, and that is allowed after
            // a fork. The number stays taken, so whoever owns it in the child owns no other file.
            unsafe { libc::dup3(nowhere, fd, libc::O_CLOEXEC) };
        }
    }
}
