//! When the hook's last mark was made.

use super::mark::{MARK_BYTES, Mark};
use gpustall_trace::MonoTime;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

/// The end of the last mark in the files of `folder`. Their own times do not say it: a mark is stored into
/// memory that is shared with its file.
pub(in crate::run) fn latest(folder: &Path) -> Option<MonoTime> {
    let files = fs::read_dir(folder).ok()?.flatten();
    let marks = files.filter(|file| file.path().extension().is_some_and(|end| end == "marks"));
    let latest = marks.filter_map(|file| in_file(&file.path())).max()?;
    Some(MonoTime::from_nanos(latest))
}

fn in_file(path: &Path) -> Option<u64> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).ok()?);
    let mut slot = [0; MARK_BYTES];
    let mut latest = None;
    while file.read_exact(&mut slot).is_ok() {
        latest = latest.max(Mark::of(&slot).map(|mark| mark.end));
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mark_of_all_processes_counts_wherever_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(latest(folder.path()), None);
        let slot = |kind: u32, end: u64| {
            let mut bytes = [0; MARK_BYTES];
            bytes[8..16].copy_from_slice(&end.to_le_bytes());
            bytes[60..].copy_from_slice(&kind.to_le_bytes());
            bytes
        };
        // The head is no mark, and the rest of a file is empty.
        let first = [slot(1, u64::MAX), slot(3, 700), slot(10, 500), slot(0, 0)].concat();
        let second = [slot(1, 0), slot(10, 600)].concat();
        fs::write(folder.path().join("python.7.0.marks"), first).expect("written");
        fs::write(folder.path().join("python.8.0.marks"), second).expect("written");
        fs::write(folder.path().join("python.8.0.details"), "x").expect("written");
        assert_eq!(latest(folder.path()), Some(MonoTime::from_nanos(700)));
    }
}
