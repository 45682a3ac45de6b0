//! The socket that clients connect to.

use super::ServeError;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Where clients connect, and who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOptions {
    /// The socket.
    pub path: PathBuf,
    /// Its permissions; who may write to it may connect.
    pub mode: u32,
    /// Number of the group that it is given to.
    pub group: Option<u32>,
}

impl SocketOptions {
    /// Everybody may connect: a client sees its own processes only.
    pub const DEFAULT_MODE: u32 = 0o666;
}

/// A listening socket; its file and that of its lock are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
    inode: u64,
    /// Held as long as this sidecar serves there.
    _lock: Lock,
}

impl Listener {
    /// Listens. A socket that a dead sidecar left behind is replaced.
    pub(super) fn bind(options: &SocketOptions) -> Result<Self, ServeError> {
        let path = &options.path;
        let failed = |what| {
            move |source| ServeError::Socket {
                what,
                path: path.clone(),
                source,
            }
        };
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed("make the folder of"))?;
        }
        let lock = Lock::take(path)?;
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                fs::remove_file(path).map_err(failed("replace"))?;
            }
            Ok(_) => return Err(ServeError::NoSocket(path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at")(error)),
        }
        let socket = UnixListener::bind(path).map_err(failed("bind"))?;
        socket.set_nonblocking(true).map_err(failed("set up"))?;
        if options.group.is_some() {
            chown(path, None, options.group).map_err(failed("give a group to"))?;
        }
        let mode = Permissions::from_mode(options.mode);
        fs::set_permissions(path, mode).map_err(failed("set the permissions of"))?;
        let inode = fs::symlink_metadata(path).map_err(failed("look at"))?.ino();
        Ok(Self {
            socket,
            path: path.clone(),
            inode,
            _lock: lock,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Unless somebody has put another one there.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The lock says whether a sidecar serves there; the kernel gives it back however that one ends.
#[derive(Debug)]
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of the socket `socket`.
    fn take(socket: &Path) -> Result<Self, ServeError> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = |source| ServeError::Socket {
            what: "make the lock of",
            path: socket.into(),
            source,
        };
        for _ in 0..16 {
            let file = File::create(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {
                    let lock = Self {
                        file,
                        path: path.clone(),
                    };
                    // One that ended just now may have removed the file that was opened here.
                    if lock.is_in_place() {
                        return Ok(lock);
                    }
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(ServeError::Serves(socket.into()));
                }
                Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(ServeError::Serves(socket.into()))
    }

    /// Whether its path leads to its file.
    fn is_in_place(&self) -> bool {
        match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(ours)) => (there.dev(), there.ino()) == (ours.dev(), ours.ino()),
            _ => false,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is held: whoever opened this file and gets the lock next finds that it is gone.
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn options(path: PathBuf) -> SocketOptions {
        SocketOptions {
            path,
            mode: 0o600,
            group: None,
        }
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub/s.sock");
        fs::create_dir(folder.path().join("sub")).expect("made");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(UnixStream::connect(&path).is_err());

        let live = Listener::bind(&options(path.clone())).expect("replaced");
        UnixStream::connect(&path).expect("connected");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = Listener::bind(&options(path.clone())).expect_err("refused");
        assert!(matches!(error, ServeError::Serves(_)), "{error}");
        UnixStream::connect(&path).expect("still there");
        drop(live);
        let left = fs::read_dir(folder.path().join("sub")).expect("a folder");
        assert_eq!(left.count(), 0, "neither the socket nor its lock");
        drop(Listener::bind(&options(path)).expect("bound again"));
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("precious");
        fs::write(&path, "data").expect("written");
        let error = Listener::bind(&options(path.clone())).expect_err("refused");
        assert!(matches!(error, ServeError::NoSocket(_)), "{error}");
        assert_eq!(fs::read_to_string(path).expect("there"), "data");
    }
}
