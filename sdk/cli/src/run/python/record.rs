//! Reading what the hook left: the marks and the details of each Python process.

use super::mark::{Kind, MARK_BYTES, Mark};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// First number of a file of marks.
const FORMAT: u64 = 0x3173_6b72_616d_7067;

/// What a process says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProcessInfo {
    pub(super) pid: u32,
    pub(super) ppid: u32,
    pub(super) mono_ns: u64,
    pub(super) unix_ns: u64,
    pub(super) argv: Vec<String>,
    pub(super) cpus: u32,
    pub(super) python: String,
    pub(super) torch: String,
    pub(super) rank: String,
    pub(super) world_size: String,
}

impl ProcessInfo {
    /// What people call the process: its script.
    pub(super) fn script(&self) -> String {
        let word = self.argv.first().map_or("", String::as_str);
        match Path::new(word).file_name() {
            Some(name) if word != "-c" && word != "-m" => name.to_string_lossy().into_owned(),
            _ => "python".to_owned(),
        }
    }
}

/// A loader of the program.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoaderInfo {
    pub(super) number: u32,
    /// The lines that made it, as `train.py:42`, the innermost first.
    pub(super) places: Vec<String>,
    /// When, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) made: u64,
    /// The class of its data set.
    pub(super) dataset: String,
    /// What it reads, and in which order: alike if it is the same data set and sampler.
    pub(super) of: String,
    pub(super) persistent_workers: bool,
    /// 0 if the thread that takes batches makes them.
    pub(super) num_workers: u64,
    /// Batches that each worker may have ahead; `None` without workers.
    pub(super) prefetch_factor: Option<u64>,
    /// Whether the data set is an IterableDataset.
    pub(super) iterable: bool,
}

/// A loop over a loader.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct IterationInfo {
    pub(super) number: u32,
    pub(super) loader: u32,
    pub(super) thread: u32,
    /// From when to when `iter()` took.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Processes of its workers.
    pub(super) workers: Vec<u32>,
}

/// A worker process, in one iteration.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkerInfo {
    pub(super) id: u32,
}

/// A thread that took batches or stepped an optimizer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ThreadInfo {
    pub(super) tid: u32,
    pub(super) name: String,
    /// Whether the program started it; else a library did, as PyTorch does for the backward pass.
    pub(super) python: bool,
}

/// What an exception said.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorText {
    pub(super) tid: u32,
    /// When what it ended began: a call of `next()`, or a stage. Nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) start: u64,
    /// Its class and first line.
    pub(super) text: String,
}

/// A thread that an exception ended, which nobody caught.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ThreadEnd {
    pub(super) tid: u32,
    /// When it was told, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) at: u64,
    /// Its class and first line.
    pub(super) text: String,
}

/// A worker that ended before its time, as the trainer saw it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Death {
    pub(super) pid: u32,
    /// When the trainer saw it, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) at: u64,
    /// The signal that ended it, as `SIGKILL`.
    pub(super) signal: Option<String>,
    /// Without a signal: its exit code.
    pub(super) code: u32,
}

/// What is told of a program that ended itself and called nothing that does.
const RAISED_EXIT: &str = "it raised SystemExit";

/// The exception that nobody caught, told as its process ended, or the call in which the program ended itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Uncaught {
    /// When it was told, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) at: u64,
    /// Its class and first line, and those of the exceptions that it came from.
    pub(super) texts: Vec<String>,
    /// Of a call that ends a program: with which exit code; 0 where it is what else may have ended one, with any other
    /// code than 0. The program may have gone on after it.
    pub(super) code: Option<u8>,
    /// Whether another process of the job began after it: it did not end the run.
    #[serde(skip)]
    pub(super) outlived: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Detail {
    Process(ProcessInfo),
    Thread(ThreadInfo),
    Loader(LoaderInfo),
    Iteration(IterationInfo),
    Worker(WorkerInfo),
    Error(ErrorText),
    ThreadEnded(ThreadEnd),
    Death(Death),
    Uncaught(Uncaught),
    Ends(u64),
    Note(String),
}

/// What one process left.
#[derive(Debug, Clone, Default)]
pub(super) struct Recording {
    pub(super) process: ProcessInfo,
    pub(super) threads: BTreeMap<u32, ThreadInfo>,
    pub(super) loaders: BTreeMap<u32, LoaderInfo>,
    pub(super) iterations: Vec<IterationInfo>,
    /// If it is a worker of a loader.
    pub(super) worker: Option<WorkerInfo>,
    pub(super) errors: Vec<ErrorText>,
    /// Its threads that an exception ended.
    pub(super) thread_ends: Vec<ThreadEnd>,
    /// Of its workers.
    pub(super) deaths: Vec<Death>,
    /// When it had run the program, and was about to end its workers; nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) ends: Option<u64>,
    /// What ended it, if an exception did.
    pub(super) uncaught: Option<Uncaught>,
    pub(super) notes: Vec<String>,
    pub(super) marks: Vec<Mark>,
    /// Marks that found no room.
    pub(super) lost: u64,
    /// Details that could not be read.
    pub(super) unread: usize,
}

impl Recording {
    /// A process that iterates its first loader once, from 8 on, for tests.
    #[cfg(test)]
    pub(super) fn of_loop(pid: u32, thread: u32) -> Self {
        let mut recording = Self::default();
        recording.process.pid = pid;
        recording.iterations.push(IterationInfo {
            number: 1,
            loader: 1,
            thread,
            start: 8,
            end: 9,
            workers: Vec::new(),
        });
        recording
    }

    /// Forgets the call in which the program ended itself where it went on after it, as far as its marks tell, or as
    /// the job of the process `job` ended with another code.
    pub(super) fn forget_exit(&mut self, job: u32, exit: Option<u8>) {
        let main = self.process.pid;
        let Some((at, code)) = (self.uncaught.as_ref()).and_then(|of| Some((of.at, of.code?)))
        else {
            return;
        };
        let goes_on = |mark: &Mark| {
            let active = matches!(mark.kind, Kind::Asked | Kind::Optimized);
            active && mark.tid == main && mark.start > at
        };
        let own = exit.filter(|_| main == job);
        let other = match code {
            0 => own.is_none_or(|exit| exit == 0),
            code => exit == Some(0) || own.is_some_and(|exit| exit != code),
        };
        let last = self
            .marks
            .iter()
            .filter(|mark| goes_on(mark))
            .map(|mark| mark.start);
        let Some(last) = last.max() else {
            self.uncaught = self.uncaught.take().filter(|_| !other);
            return;
        };
        // Of a program that went on and ended with that code all the same, all that calls nothing is left.
        self.uncaught = own.filter(|_| !other && code != 0).map(|_| Uncaught {
            at: self.ends.unwrap_or(last),
            texts: vec![RAISED_EXIT.to_owned()],
            code: Some(code),
            outlived: false,
        });
    }

    /// Whether a library's own thread: what it does, it does for one of the program's.
    pub(super) fn is_foreign(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| !thread.python)
    }

    /// If marks found no room: when the last one was stored. What the process did later is not known.
    pub(super) fn full(&self) -> Option<u64> {
        let ends = self.marks.iter().map(|mark| mark.end.max(mark.start));
        ends.max().filter(|_| self.lost > 0)
    }
}

/// The recordings in a folder, by process, and of how many processes not all could be read.
pub(super) fn read(folder: &Path) -> std::io::Result<(Vec<Recording>, usize)> {
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let marks = |path: &PathBuf| path.extension().is_some_and(|of| of == "marks");
    let mut paths: Vec<PathBuf> = entries.filter(marks).collect();
    paths.sort();
    let mut found = Vec::new();
    let mut unread = 0;
    for path in paths {
        let marks = fs::read(&path);
        let details = fs::read(path.with_extension("details"));
        // A process that ended at once may have no details yet.
        let missing = |error: &std::io::Error| error.kind() != std::io::ErrorKind::NotFound;
        let failed = marks.is_err() || details.as_ref().is_err_and(missing);
        let (marks, details) = (marks.unwrap_or_default(), details.unwrap_or_default());
        match recording(&marks, &String::from_utf8_lossy(&details)) {
            Ok(recording) => {
                unread += usize::from(failed || recording.unread > 0);
                found.push(recording);
            }
            Err(Unread::Nothing) => unread += usize::from(failed),
            Err(Unread::Unknown) => unread += 1,
        }
    }
    found.sort_by_key(|recording: &Recording| recording.process.pid);
    Ok((found, unread))
}

/// How many processes found no room for any mark.
pub(super) fn empty(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let marks = entries.filter(|entry| entry.path().extension().is_some_and(|of| of == "marks"));
    marks
        .filter(|entry| entry.metadata().is_ok_and(|of| of.len() == 0))
        .count()
}

/// Why the files of a process make no recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// There is nothing in them: the process ended before it marked anything.
    Nothing,
    /// They are not of this format, or do not say whose they are.
    Unknown,
}

/// What the two files of a process say.
pub(super) fn recording(marks: &[u8], details: &str) -> Result<Recording, Unread> {
    let (slots, _) = marks.as_chunks::<MARK_BYTES>();
    let (head, slots) = slots.split_first().ok_or(Unread::Nothing)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    match number(0) {
        FORMAT => {}
        0 => return Err(Unread::Nothing),
        _ => return Err(Unread::Unknown),
    }
    let mut found = Recording {
        lost: number(16),
        marks: slots.iter().filter_map(Mark::of).collect(),
        ..Recording::default()
    };
    for line in details.split_inclusive('\n') {
        match serde_json::from_str(line) {
            Ok(Detail::Process(process)) => found.process = process,
            Ok(Detail::Thread(thread)) => {
                found.threads.insert(thread.tid, thread);
            }
            Ok(Detail::Loader(loader)) => {
                found.loaders.insert(loader.number, loader);
            }
            Ok(Detail::Iteration(iteration)) => found.iterations.push(iteration),
            Ok(Detail::Worker(worker)) => found.worker = Some(worker),
            Ok(Detail::Error(error)) => found.errors.push(error),
            Ok(Detail::ThreadEnded(end)) => found.thread_ends.push(end),
            Ok(Detail::Death(death)) => found.deaths.push(death),
            Ok(Detail::Uncaught(uncaught)) => found.uncaught = Some(uncaught),
            Ok(Detail::Ends(at)) => found.ends = Some(at),
            Ok(Detail::Note(note)) => found.notes.push(note),
            // The last line may be cut off.
            Err(_) => found.unread += usize::from(line.ends_with('\n')),
        }
    }
    let marked = found.unread > 0 || !found.marks.is_empty();
    match found.process.pid {
        0 if marked => Err(Unread::Unknown),
        0 => Err(Unread::Nothing),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(format: u64, marks: &[u32], details: &str) -> Result<Recording, Unread> {
        let mut bytes = vec![0; MARK_BYTES];
        bytes[..8].copy_from_slice(&format.to_le_bytes());
        for kind in marks {
            let mut slot = [0; MARK_BYTES];
            slot[MARK_BYTES - 4..].copy_from_slice(&kind.to_le_bytes());
            bytes.extend(slot);
        }
        recording(&bytes, details)
    }

    #[test]
    fn a_line_that_is_no_json_is_counted_and_one_that_was_cut_off_is_not() {
        let who = "{\"process\": {\"pid\": 7}}\n";
        for (rest, unread) in [
            ("", 0),
            ("{\"note\": \"cut o", 0),
            ("{\"note\": \"\\udce9\"}\n", 1),
        ] {
            let found = of(FORMAT, &[], &format!("{who}{rest}")).expect("it says who it is");
            assert_eq!(found.unread, unread, "{rest}");
        }
    }

    #[test]
    fn a_call_that_ends_a_program_is_forgotten_where_the_program_went_on() {
        let left = |code: u8, job: u32, exit: Option<u8>, later: Option<u64>| {
            let line =
                format!(r#"{{"uncaught": {{"at": 50, "code": {code}, "texts": ["left"]}}}}"#);
            let text = format!("{{\"process\": {{\"pid\": 7}}}}\n{line}\n");
            let mut found = of(FORMAT, &[], &text).expect("it says who it is");
            let mark = later.map(|at| Mark::at(Kind::Optimized, 7, (at, at)));
            found.marks.extend(mark);
            found.forget_exit(job, exit);
            found.uncaught.is_some()
        };
        let exited = |job, exit, later| left(3, job, exit, later);
        assert!(exited(7, Some(3), None) && exited(7, None, Some(40)));
        // A launcher ends with a code of its own.
        assert!(exited(6, Some(1), None));
        assert!(!exited(7, Some(1), None) && !exited(6, Some(0), None));
        // It was caught, and another one raised.
        assert!(exited(7, Some(3), Some(60)));
        assert!(!exited(7, None, Some(60)) && !exited(6, Some(3), Some(60)));
        // Of what ended it otherwise the code is not known.
        assert!(left(0, 7, Some(1), None));
        assert!(
            !left(0, 7, Some(0), None) && !left(0, 7, None, None) && !left(0, 6, Some(1), None)
        );
    }

    #[test]
    fn marks_without_a_process_are_lost_and_no_marks_are_nothing() {
        let why = |format, marks: &[u32], details| of(format, marks, details).err();
        let bad = "{\"process\": {\"pid\": 7, \"argv\": [\"\\udce9\"]}}\n";
        assert_eq!(why(FORMAT, &[2], ""), Some(Unread::Unknown));
        assert_eq!(why(FORMAT, &[], bad), Some(Unread::Unknown));
        assert_eq!(why(FORMAT + 1, &[], ""), Some(Unread::Unknown));
        assert_eq!(why(FORMAT, &[], ""), Some(Unread::Nothing));
        assert_eq!(why(0, &[], ""), Some(Unread::Nothing));
    }
}
