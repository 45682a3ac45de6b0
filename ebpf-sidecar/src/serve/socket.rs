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

/// A listening socket; its file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
    inode: u64,
    /// Held as long as this sidecar serves there.
    _lock: File,
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
        let lock = lock(path)?;
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

/// The lock says whether a sidecar serves there; the kernel gives it back however that one ends.
fn lock(path: &Path) -> Result<File, ServeError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let failed = |source| ServeError::Socket {
        what: "make the lock of",
        path: path.into(),
        source,
    };
    let file = File::create(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(ServeError::Serves(path.into())),
        Err(fs::TryLockError::Error(error)) => Err(failed(error)),
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
        assert!(!path.exists());
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
