//! The places of traces: what lies there already is not lost.

use anyhow::bail;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// How the names of traces end, the longest first.
const ENDINGS: [&str; 5] = [".trace.json.gz", ".trace.json", ".json.gz", ".json", ".gz"];

/// Bytes of the longest name of a trace. File systems take 255; while a trace is written, and when an
/// earlier one is kept, there are names a little longer beside it.
const MOST_BYTES: usize = 230;

/// Refuses a place that the user named and where a file lies, unless it may be written over.
pub(crate) fn refuse_taken(path: &Path, force: bool) -> anyhow::Result<()> {
    if is_taken(path) && !force {
        bail!(
            "{} is there already; say another place with -o, or write over it with --force",
            path.display()
        );
    }
    Ok(())
}

/// Refuses a place at which no file can lie: a folder, and a name that only a folder has.
pub(crate) fn refuse_folder(path: &Path) -> anyhow::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let last = bytes.rsplit(|&byte| byte == b'/').next();
    if bytes.is_empty() {
        bail!("a trace needs a name; name a file with -o");
    }
    if path.is_dir() {
        bail!("{} is a directory; name a file with -o", path.display());
    }
    if last.is_none_or(|last| [&b""[..], b".", b".."].contains(&last)) {
        bail!(
            "{} is the name of a directory; name a file with -o",
            path.display()
        );
    }
    let length = last.map_or(0, <[u8]>::len);
    if length > MOST_BYTES {
        bail!(
            "the name of the trace is too long, {length} bytes; name a file of at most {MOST_BYTES} with -o"
        );
    }
    Ok(())
}

/// Gives the file that lies at `path` another name, the first of `x.1.trace.json.gz`, `x.2.trace.json.gz`
/// that is free. Returns it; `None` if there is no file.
///
/// # Errors
///
/// When the folder cannot be written to.
pub(crate) fn keep_earlier(path: &Path) -> io::Result<Option<PathBuf>> {
    if !is_taken(path) {
        return Ok(None);
    }
    for number in 1u32.. {
        let kept = numbered(path, number);
        // Made first, so that nobody else takes the name meanwhile.
        match File::create_new(&kept) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        fs::rename(path, &kept).inspect_err(|_| {
            let _ = fs::remove_file(&kept);
        })?;
        return Ok(Some(kept));
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Whether a file lies there. A pipe or a device may always be written to.
fn is_taken(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.is_file())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().map(OsStr::to_string_lossy);
    let name = name.unwrap_or_default();
    let ending = ENDINGS.into_iter().find(|of| name.ends_with(of));
    let ending = ending.unwrap_or_default();
    let stem = name.strip_suffix(ending).unwrap_or(&name);
    path.with_file_name(format!("{stem}.{number}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_file_gets_the_first_name_that_is_free() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, kept) in [
            (
                "x.trace.json.gz",
                ["x.1.trace.json.gz", "x.2.trace.json.gz"],
            ),
            ("y.json", ["y.1.json", "y.2.json"]),
            ("notes", ["notes.1", "notes.2"]),
        ] {
            let path = folder.path().join(name);
            assert_eq!(keep_earlier(&path).expect("it can be asked"), None);
            for (text, kept) in ["first", "second"].into_iter().zip(kept) {
                fs::write(&path, text).expect("it can be written");
                let found = keep_earlier(&path).expect("the folder is writable");
                let kept = folder.path().join(kept);
                assert_eq!(found.as_ref(), Some(&kept));
                assert_eq!(fs::read_to_string(&kept).expect("it is there"), text);
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn only_a_file_is_refused_and_only_without_force() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x.trace.json");
        assert!(refuse_taken(&path, false).is_ok());
        assert!(refuse_taken(Path::new("/dev/null"), false).is_ok());
        fs::write(&path, "precious").expect("it can be written");
        let said = refuse_taken(&path, false)
            .expect_err("it is taken")
            .to_string();
        assert!(
            said.contains("is there already") && said.contains("--force"),
            "{said}"
        );
        assert!(refuse_taken(&path, true).is_ok());
    }

    #[test]
    fn what_only_a_folder_is_called_is_refused() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let long = "x".repeat(MOST_BYTES + 1);
        for name in ["", "nowhere/", "nowhere/.", "nowhere/..", &long] {
            let path = match name {
                "" => folder.path().to_path_buf(),
                name => folder.path().join(name),
            };
            assert!(refuse_folder(&path).is_err(), "{name}");
        }
        assert!(refuse_folder(Path::new("")).is_err());
        // Whether its folder is there is seen when the parts are made.
        for name in ["x", "nowhere/x", "..x", &long[1..]] {
            assert!(refuse_folder(&folder.path().join(name)).is_ok(), "{name}");
        }
    }
}
