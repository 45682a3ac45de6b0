//! Taking a path for one recording: nobody else writes there, and nothing there is destroyed.

use crate::WriteError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A path that belongs to this recording as long as the file is open.
pub(super) struct Claim {
    pub(super) file: File,
    /// Where a recording that never finished and lay at the path was moved to.
    pub(super) kept: Option<PathBuf>,
}

/// Takes `path`: a new, empty, locked file.
pub(super) fn claim(path: &Path) -> Result<Claim, WriteError> {
    let mut kept = None;
    // Another process may come in between any two steps; each round starts from what is there.
    for _ in 0..16 {
        match OpenOptions::new().append(true).create_new(true).open(path) {
            Ok(file) => {
                lock(&file, path)?;
                if names(path, &file) {
                    return Ok(Claim { file, kept });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
                    // It would wait for a reader, for ever.
                    return Err(create_error(path, error));
                }
                let file = match OpenOptions::new().append(true).open(path) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(create_error(path, error)),
                };
                lock(&file, path)?;
                if !names(path, &file) {
                    continue;
                }
                let empty = file.metadata().is_ok_and(|m| m.len() == 0);
                if empty {
                    return Ok(Claim { file, kept });
                }
                kept = Some(move_aside(path).map_err(|error| create_error(path, error))?);
            }
            Err(error) => return Err(create_error(path, error)),
        }
    }
    Err(WriteError::Busy { path: path.into() })
}

/// Locks `file`, or says that another recording holds it. A file system without locks is fine.
fn lock(file: &File, path: &Path) -> Result<(), WriteError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(WriteError::Busy { path: path.into() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Whether `path` still names `file`.
pub(super) fn names(path: &Path, file: &File) -> bool {
    match (fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(ours)) => (there.dev(), there.ino()) == (ours.dev(), ours.ino()),
        _ => false,
    }
}

/// Renames the file at `path` to the first free of `path.1`, `path.2`, ...
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    for n in 1..10_000 {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        let aside = PathBuf::from(name);
        // A link never replaces a file that is there, unlike a rename.
        match fs::hard_link(path, &aside) {
            Ok(()) => {
                fs::remove_file(path)?;
                return Ok(aside);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) if !aside.exists() => {
                fs::rename(path, &aside)?;
                return Ok(aside);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Why a file could not be created.
pub(super) fn create_error(path: &Path, source: io::Error) -> WriteError {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if source.kind() == io::ErrorKind::NotFound && !directory.exists() {
        return WriteError::NoDirectory {
            path: path.into(),
            directory: directory.into(),
        };
    }
    WriteError::Create {
        path: path.into(),
        source,
    }
}
