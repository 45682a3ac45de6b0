//! The steps of a Python program, from the marks that the hook leaves while it runs.
//!
//! The capture wants to know how long steps take inside its windows and outside. The hook marks each
//! call of a loader's `next()`, and each step of an optimizer, in a file of this process
//! (`gpustall_hook/marks.py` says what is in it). A step goes from one call to the following one of the same
//! loader, or of the same optimizer, since a program may have no loader. Where there are both the capture
//! takes those of which a window has more.

use gpustall_trace::{MonoTime, Pid};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of one mark, of which the first of the file is its head.
const MARK_BYTES: usize = 64;

/// Marks that are read at once; what is more comes with the next look.
const AT_ONCE: usize = 1024;

/// The kind of the mark of a `next()`, and what bits of its last number say how that ended: 0 with a batch.
const NEXT: u32 = 3;
const HOW_IT_ENDED: u32 = 3;

/// The kind of the mark of an optimizer's step, and what tells the number of one from that of an iteration.
const OPTIMIZED: u32 = 10;
const OPTIMIZER: u32 = 1 << 31;

/// Looks at which a mark may be missing while later ones are there: its thread may be in between.
const PATIENCE: u32 = 3;

/// Iterations and optimizers that are followed at a time.
const FOLLOWED: usize = 64;

/// Reads the marks of one process as they are written.
#[derive(Debug)]
pub(crate) struct Steps {
    path: PathBuf,
    file: Option<File>,
    /// The next mark to read.
    next: u64,
    missing_for: u32,
    /// When `next()` was last called in each iteration, and when each optimizer last began a step.
    called: Vec<(u32, u64)>,
}

impl Steps {
    /// Of the process `pid`, whose files are in `folder`.
    pub(crate) fn new(folder: &Path, pid: Pid) -> Self {
        Self {
            path: folder.join(format!("python.{pid}.0.marks")),
            file: None,
            next: 1,
            missing_for: 0,
            called: Vec::new(),
        }
    }

    /// Hands over the steps that have ended since the last look: the loop's number, and from when to
    /// when. A process without marks costs one look for a file.
    pub(crate) fn look(&mut self, mut ended: impl FnMut(u32, MonoTime, MonoTime)) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &self.file else { return };
        let mut bytes = vec![0; AT_ONCE * MARK_BYTES];
        let Ok(read) = file.read_at(&mut bytes, self.next * MARK_BYTES as u64) else {
            return;
        };
        let (marks, _) = bytes[..read].as_chunks::<MARK_BYTES>();
        let last = marks.iter().rposition(|mark| kind(mark) != 0);
        let there = last.map_or(&[][..], |last| &marks[..=last]);
        for mark in there {
            if kind(mark) == 0 && self.missing_for < PATIENCE {
                self.missing_for += 1;
                return;
            }
            self.missing_for = 0;
            self.next += 1;
            let Some(of) = looped(mark) else { continue };
            if let Some(before) = self.call(of, time(mark)) {
                ended(
                    of,
                    MonoTime::from_nanos(before),
                    MonoTime::from_nanos(time(mark)),
                );
            }
        }
    }

    /// `of` was called; returns when it was before.
    fn call(&mut self, of: u32, at: u64) -> Option<u64> {
        match self.called.iter_mut().find(|(known, _)| *known == of) {
            Some((_, before)) => Some(std::mem::replace(before, at)),
            None => {
                if self.called.len() == FOLLOWED {
                    self.called.remove(0);
                }
                self.called.push((of, at));
                None
            }
        }
    }
}

/// Which loop goes on with this mark: an iteration that gave a batch, or an optimizer.
fn looped(mark: &[u8; MARK_BYTES]) -> Option<u32> {
    let of = number(mark, 44);
    match kind(mark) {
        NEXT if number(mark, 56) & HOW_IT_ENDED == 0 => Some(of),
        OPTIMIZED => Some(OPTIMIZER | of),
        _ => None,
    }
}

/// When the call began, nanoseconds of `CLOCK_MONOTONIC`.
fn time(mark: &[u8; MARK_BYTES]) -> u64 {
    mark.first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn number(mark: &[u8; MARK_BYTES], at: usize) -> u32 {
    mark.get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn kind(mark: &[u8; MARK_BYTES]) -> u32 {
    number(mark, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mark as the hook packs it.
    fn mark(kind: u32, start: u64, iteration: u32, how: u32) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&start.to_le_bytes());
        for (at, number) in [(40, 99), (44, iteration), (56, how), (60, kind)] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn look(steps: &mut Steps) -> Vec<(u32, u64, u64)> {
        let mut found = Vec::new();
        steps.look(|of, start, end| found.push((of, start.as_nanos(), end.as_nanos())));
        found
    }

    #[test]
    fn steps_go_from_one_call_to_the_next_of_the_same_loop() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut steps = Steps::new(folder.path(), Pid(7));
        assert_eq!(look(&mut steps), [], "no file yet");
        let file = File::create(folder.path().join("python.7.0.marks")).expect("made");
        let write = |slot: u64, mark: [u8; MARK_BYTES]| {
            file.write_all_at(&mark, slot * 64).expect("written");
        };
        file.set_len(64 * 64).expect("long enough");
        write(0, mark(1, 5, 0, 0));
        write(1, mark(NEXT, 100, 1, 0));
        write(2, mark(2, 150, 1, 0));
        write(3, mark(NEXT, 200, 1, 4));
        write(4, mark(NEXT, 250, 2, 0));
        assert_eq!(look(&mut steps), [(1, 100, 200)]);
        assert_eq!(look(&mut steps), []);
        // The end of a loop begins no step, and a mark that is being written is waited for.
        write(6, mark(NEXT, 400, 2, 0));
        assert_eq!(look(&mut steps), []);
        write(5, mark(NEXT, 300, 1, 0));
        write(7, mark(NEXT, 450, 1, 1));
        assert_eq!(look(&mut steps), [(1, 200, 300), (2, 250, 400)]);
        // One that never comes is not waited for.
        write(9, mark(NEXT, 500, 2, 0));
        let all: Vec<_> = (0..8).flat_map(|_| look(&mut steps)).collect();
        assert_eq!(all, [(2, 400, 500)]);
        // Without a loader the optimizer tells the steps, and is no iteration of the same number.
        write(10, mark(OPTIMIZED, 600, 2, 0));
        write(11, mark(OPTIMIZED, 700, 2, 0));
        assert_eq!(look(&mut steps), [(OPTIMIZER | 2, 600, 700)]);
    }
}
