//! Who is at the other end of a socket.

#![allow(unsafe_code, reason = "asks the kernel for a pidfd of the peer")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The process that connected.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its id in the root pid namespace. As long as [`lives`](Self::lives) it is nobody else's.
    pub(super) pid: u32,
    /// Its effective user when it connected.
    pub(super) user: u32,
    pidfd: OwnedFd,
}

impl Peer {
    /// The process that connected to this socket.
    pub(super) fn of(socket: &UnixStream) -> io::Result<Self> {
        let credentials = socket_peercred(socket)?;
        let pidfd = match peer_pidfd(socket) {
            Ok(pidfd) => pidfd,
            // Before Linux 6.5 the kernel hands out none. That the process opened by its number has
            // the user of the one that connected is checked with its hello.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                pidfd_open(credentials.pid, PidfdFlags::empty())?
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            pid: credentials.pid.as_raw_nonzero().get().cast_unsigned(),
            user: credentials.uid.as_raw(),
            pidfd,
        })
    }

    /// Whether the process that connected still runs.
    pub(super) fn lives(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec::default();
        matches!(poll(&mut fds, Some(&now)), Ok(0))
    }

    /// Becomes readable when the process ends.
    pub(super) fn pidfd(&self) -> impl AsFd {
        self.pidfd.as_fd()
    }
}

/// A pidfd of exactly the process that connected, whoever has its number by now.
fn peer_pidfd(socket: &UnixStream) -> io::Result<OwnedFd> {
    /// `asm-generic/socket.h`
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `fd` is ours and `length` says how large it is.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has made this descriptor for us, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = Peer::of(&one).expect("a peer");
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert!(peer.lives());
    }

    #[test]
    fn a_peer_that_ended_is_gone_whoever_has_its_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let script = format!(
            "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect({:?}); sys.stdin.read()",
            path.display().to_string()
        );
        let mut child = std::process::Command::new("python3")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let (socket, _) = listener.accept().expect("it connected");
        let peer = Peer::of(&socket).expect("a peer");
        assert_eq!(peer.pid, child.id());
        assert!(peer.lives());
        drop(child.stdin.take());
        // Waited for: the number is free from here on.
        child.wait().expect("it ended");
        assert!(!peer.lives());
    }
}
