//! How batches were made: their stages, the way of those that workers made, and what went wrong.

use super::drawing::{Args, Place};
use super::failures::Process;
use super::record::Recording;
use super::stages::Stage;
use super::story::Story;
use gpustall_trace::{Value, vocab};
use std::collections::BTreeMap;
use vocab::{arg, cat};

impl Story {
    /// The stages of batches, and the way of those that workers made.
    pub(super) fn made(&mut self, processes: Vec<Process<'_>>) {
        let mut depths: BTreeMap<String, Vec<(u64, i64)>> = BTreeMap::new();
        for (recording, stages) in processes {
            let pid = recording.process.pid;
            let own = pid == self.pid;
            // A loader that a worker's data set uses is part of its get.
            let full = recording.full().is_some();
            let known = |s: &Stage| s.works != own && (s.end.is_some() || !full);
            for stage in stages.into_iter().filter(known) {
                let batch = self.batches.of_stage(pid, &stage);
                let end = stage.end.unwrap_or(self.over(pid).max(stage.start));
                self.stage((pid, stage.tid), &stage, batch, end);
                let taken = batch.and_then(|batch| Some((batch, self.taken.get(&batch)?)));
                let Some((batch, (loader, tid, wait))) = taken.filter(|_| stage.last) else {
                    continue;
                };
                let depths = depths.entry(loader.clone()).or_default();
                depths.extend([(end, 1), (wait.1, -1)]);
                let from = ((pid, stage.tid), (stage.start, end));
                let to = ((self.pid, *tid), *wait);
                self.drawing.batch((batch, loader), from, to);
            }
        }
        for (loader, mut changes) in depths {
            changes.sort_unstable();
            let name = format!("{} {loader}", vocab::QUEUE_DEPTH);
            let mut depth = 0;
            for (at, change) in changes {
                depth += change;
                self.drawing.counter(&name, at, depth as f64);
            }
        }
    }

    /// When a process was over: at its end, or that of the recording.
    fn over(&self, pid: u32) -> u64 {
        let over = self.failures.over(pid).unwrap_or(u64::MAX);
        over.min(self.drawing.end())
    }

    /// Workers that ended before their time.
    pub(super) fn ends(&mut self) {
        for end in self.failures.ends() {
            let main = (self.pid, self.pid);
            self.drawing.fault(main, end.at, &end.message);
        }
    }

    /// Threads that an exception ended, unless it was told already as that of a call of next().
    pub(super) fn thread_ends(&mut self, trainer: &Recording) {
        for end in &trainer.thread_ends {
            if !self.raised.contains(&(end.tid, end.text.clone())) {
                let at = end.at.min(self.drawing.end());
                self.drawing.fault((self.pid, end.tid), at, &end.text);
            }
        }
    }

    /// The exception that ended the trainer. If it is what was told of already, that is marked as the end.
    pub(super) fn uncaught(&mut self, trainer: &Recording) {
        let Some(uncaught) = &trainer.uncaught else {
            return;
        };
        let Some(text) = uncaught.texts.first() else {
            return;
        };
        let last = self.last.as_ref().and_then(|(_, told)| told.as_ref());
        if let Some(cause) = self.failures.cause(uncaught, last) {
            if !uncaught.outlived {
                self.drawing.ended_by(cause);
            }
            return;
        }
        let main = (self.pid, self.pid);
        let at = uncaught.at.min(self.drawing.end());
        self.drawing.fault(main, at, text);
        if !uncaught.outlived {
            self.drawing.ended_by(text);
        }
    }

    fn stage(&mut self, place: Place, stage: &Stage, batch: Option<u64>, end: u64) {
        let mut args: Args<'_> = Vec::new();
        let mut put = |key, value: Option<u64>| {
            args.extend(value.map(|value| (key, Value::U64(value))));
        };
        put(arg::BATCH, batch);
        put(arg::ITEMS, stage.items);
        put(arg::CPU_NS, stage.cpu);
        put(arg::RUNNABLE_NS, stage.ready);
        let ended = self.failures.end(place.0).filter(|_| stage.end.is_none());
        let error = match ended {
            Some(end) => Some(format!("its process {}", end.how)),
            None if stage.failed => {
                let text = self.failures.text(place.0, stage.tid, stage.start);
                Some(format!("it raised {text}"))
            }
            None => None,
        };
        if let Some(error) = &error {
            args.push((arg::ERROR, self.drawing.text(error)));
        }
        if stage.cut || (stage.end.is_none() && ended.is_none()) {
            args.push((arg::UNFINISHED, Value::Bool(true)));
        }
        let cat = match stage.collates {
            true => cat::DATA_COLLATE,
            false => cat::DATA_GET,
        };
        self.drawing
            .slice(place, cat, stage.name(), (stage.start, end), args);
    }
}

#[cfg(test)]
mod tests {
    use super::super::loaders::identities;
    use super::super::mark::{Kind, Mark};
    use super::super::record::{ErrorText, Recording, ThreadEnd, Uncaught};
    use super::super::story;
    use gpustall_trace::{Instant, MonoTime, Value, vocab::arg};
    use std::collections::{BTreeMap, BTreeSet};

    /// How a `next()` ended; the hook's numbers.
    const BATCH: u32 = 0;
    const ERROR: u32 = 2;

    /// What is told of a process with these calls of `next()`, of which the first raises `KeyError: 31`, if nobody
    /// caught `uncaught`; and whether it is told to have ended the process.
    fn told(calls: &[(u64, u64, u32)], uncaught: &str) -> Vec<(String, bool)> {
        let mut trainer = Recording::of_loop(7, 7);
        for &(start, end, d) in calls {
            let asked = Mark::at(Kind::Asked, 7, (start, 0));
            let next = Mark::at(Kind::Next, 7, (start, end));
            trainer.marks.extend([asked, Mark { d, ..next }]);
        }
        trainer.errors.push(ErrorText {
            tid: 7,
            start: calls[0].0,
            text: "KeyError: 31".to_owned(),
        });
        trainer.uncaught = Some(Uncaught {
            at: 90,
            texts: vec![uncaught.to_owned()],
            code: None,
            outlived: false,
        });
        told_of(&trainer)
    }

    /// What is told of a process, and whether it is told to have ended it.
    fn told_of(trainer: &Recording) -> Vec<(String, bool)> {
        let loaders = identities(trainer);
        let span = (MonoTime::from_nanos(1), MonoTime::from_nanos(100));
        let mut notes = BTreeSet::new();
        let loaders = (&loaders, BTreeMap::new());
        let trace = story::trace(trainer, &[], loaders, span, &mut notes);
        let ended = trace.strings.find(arg::ENDED_RUN);
        let of = |instant: &Instant| {
            let message = trace.arg_str(&instant.args, arg::MESSAGE);
            let ends = (instant.args.iter())
                .any(|&(key, value)| Some(key) == ended && value == Value::Bool(true));
            (message.unwrap_or_default().to_owned(), ends)
        };
        trace.instants.iter().map(of).collect()
    }

    #[test]
    fn a_thread_that_an_exception_ended_is_told_unless_next_raised_it() {
        let ended = |text: &str| {
            let mut trainer = Recording::of_loop(7, 7);
            let next = Mark::at(Kind::Next, 7, (10, 20));
            trainer.marks.push(Mark { d: ERROR, ..next });
            trainer.errors.push(ErrorText {
                tid: 7,
                start: 10,
                text: "KeyError: 31".to_owned(),
            });
            trainer.thread_ends.push(ThreadEnd {
                tid: 7,
                at: 30,
                text: text.to_owned(),
            });
            told_of(&trainer).len()
        };
        assert_eq!(ended("KeyError: 31"), 1);
        assert_eq!(ended("KeyError: 32"), 2);
    }

    #[test]
    fn an_exception_of_the_last_call_is_told_once_and_any_other_one_for_itself() {
        let said = "next() raised KeyError: 31 for batch 0, counted from 0";
        let one = |text: &str, ends| (text.to_owned(), ends);
        let last = [(10, 20, ERROR)];
        assert_eq!(told(&last, "KeyError: 31"), [one(said, true)]);
        let other = [one(said, false), one("KeyError: 3", true)];
        assert_eq!(told(&last, "KeyError: 3"), other);
        // The program went on after the first one.
        let again = [one(said, false), one("KeyError: 31", true)];
        let calls = [(10, 20, ERROR), (30, 40, BATCH)];
        assert_eq!(told(&calls, "KeyError: 31"), again);
    }
}
