//! What went wrong while batches were made, in words: exceptions, and workers that ended before their time.

use super::calls::{Call, Made, Outcome};
use super::loops::Loop;
use super::mark::Kind;
use super::record::{Death, Recording, Uncaught};
use super::stages::Stage;
use gpustall_trace::Nanos;
use std::collections::{BTreeMap, HashMap};

/// A process: its number, and the stages that it went through.
pub(super) type Process<'a> = (&'a Recording, Vec<Stage>);

/// The exceptions of a trainer and its workers, and the ends of these.
pub(super) struct Failures {
    /// What exceptions said, by process, thread and the start of what they ended.
    texts: HashMap<(u32, u32, u64), String>,
    /// Stages that failed, of workers: who it was, the stage, and the text.
    failed: HashMap<Made, (String, &'static str, String)>,
    /// The same of stages that the trainer went through itself, by thread and start of the stage.
    own: BTreeMap<(u32, u64), (&'static str, String)>,
    ends: BTreeMap<u32, End>,
    /// When workers had been told to stop, and had.
    stopped: HashMap<u32, u64>,
    /// When the trainer was about to end those that were left.
    end: Option<u64>,
}

/// The end of a worker before its time.
pub(super) struct End {
    /// When the trainer saw it, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) at: u64,
    /// As `was killed by SIGKILL`.
    pub(super) how: String,
    /// Who ended, how, after how many batches, and what that often means.
    pub(super) message: String,
}

/// What is told of a call of next() that raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// What the exception said to the trainer.
    pub(super) text: String,
    /// The same with who raised it, and where.
    pub(super) message: String,
}

/// What PyTorch says of workers that are gone begins with this; `(s)`, their processes and `)` follow.
const OF_WORKER: &str = "DataLoader worker (pid";

/// The end of a worker is said to be noticed late from this on, nanoseconds.
const LATE: u64 = 1_000_000_000;

/// What is said of an exception without words.
const NO_TEXT: &str = "an exception";

impl Failures {
    /// Those of the trainer and its workers, all of `processes`.
    pub(super) fn of(trainer: &Recording, processes: &[Process<'_>]) -> Self {
        let mut texts = HashMap::new();
        for (recording, _) in processes {
            let pid = recording.process.pid;
            for error in &recording.errors {
                texts.insert((pid, error.tid, error.start), error.text.clone());
            }
        }
        let mut failures = Self {
            texts,
            failed: HashMap::new(),
            own: BTreeMap::new(),
            ends: BTreeMap::new(),
            stopped: stopped(trainer),
            end: trainer.ends,
        };
        for (recording, stages) in processes {
            let pid = recording.process.pid;
            let Some(worker) = recording.worker else {
                for stage in stages.iter().filter(|stage| !stage.works && stage.failed) {
                    let text = failures.text(pid, stage.tid, stage.start).to_owned();
                    failures
                        .own
                        .insert((stage.tid, stage.start), (stage.name(), text));
                }
                continue;
            };
            let name = format!("worker-{}", worker.id);
            for stage in stages.iter().filter(|stage| stage.works && stage.failed) {
                let text = failures.text(pid, stage.tid, stage.start);
                let said = (name.clone(), stage.name(), text.to_owned());
                failures.failed.insert(stage.made(pid), said);
            }
            let death = trainer.deaths.iter().find(|death| death.pid == pid);
            failures
                .ends
                .extend(death.and_then(|death| Some((pid, end(&name, death, stages)?))));
        }
        failures
    }

    /// Says of the ends of workers how much later a call of next() raised for them: PyTorch passes over a worker that
    /// exits with code 0, until it looks for itself.
    pub(super) fn noticed_by(&mut self, loops: &[Loop]) {
        let calls = loops.iter().flat_map(|of| &of.calls);
        for call in calls.filter(|call| call.outcome == Outcome::Error) {
            let during = |of: &&mut End| (call.start..=call.end).contains(&of.at);
            for end in self.ends.values_mut().filter(during) {
                let later = call.end - end.at;
                if later >= LATE {
                    let noticed = format!("; PyTorch noticed it {} later", Nanos::new(later));
                    end.message.push_str(&noticed);
                }
            }
        }
    }

    /// What a call of next() that raised says; it asked for the batch of this number in its loop.
    pub(super) fn of_call(&self, pid: u32, call: &Call, batch: usize) -> Told {
        let (tid, (start, end)) = call.inner.unwrap_or((call.tid, (call.start, call.end)));
        let text = self.text(pid, tid, start).to_owned();
        let during = || {
            self.ends
                .values()
                .filter(|of| (start..=end).contains(&of.at))
        };
        let of_worker = call.made.and_then(|made| self.failed.get(&made));
        let message = if let Some(end) = self.named(&text).or_else(|| during().next()) {
            end.message.clone()
        } else if let Some((worker, stage, text)) = of_worker {
            format!("{worker} raised {text} in {stage} of batch {batch}, counted from 0")
        } else {
            format!("next() raised {text} for batch {batch}, counted from 0")
        };
        Told { text, message }
    }

    /// What a call of next() says that ended a loop, if that was not the end of its data set: an exception of a data
    /// set that is no iterator, or of collate_fn, that says the same as such an end. `batch` as for
    /// [`of_call`](Self::of_call).
    pub(super) fn of_early_end(&self, call: &Call, batch: usize) -> Option<String> {
        let (tid, (start, end)) = call.inner.unwrap_or((call.tid, (call.start, call.end)));
        let said = match call.made {
            Some(made) => {
                let (worker, stage, text) = self.failed.get(&made)?;
                format!("{worker} raised {text} in {stage}")
            }
            None => {
                let mut inside = self.own.range((tid, start)..(tid, end));
                let (_, (stage, text)) = inside.next()?;
                format!("next() raised {text} in {stage}")
            }
        };
        Some(format!(
            "{said} of batch {batch}, counted from 0, which ended the loop early, as the end of the data would"
        ))
    }

    /// What the exception said that ended what a thread began at `start`.
    pub(super) fn text(&self, pid: u32, tid: u32, start: u64) -> &str {
        self.texts
            .get(&(pid, tid, start))
            .map_or(NO_TEXT, String::as_str)
    }

    /// The end of a worker, if it ended before its time.
    pub(super) fn end(&self, pid: u32) -> Option<&End> {
        self.ends.get(&pid)
    }

    /// When the process of a worker was over, if that is known.
    pub(super) fn over(&self, pid: u32) -> Option<u64> {
        let end = self.end(pid).map(|end| end.at);
        let stopped = self.stopped.get(&pid).copied();
        [end, stopped, self.end].into_iter().flatten().min()
    }

    /// The message that told of what nobody caught: of the end of a worker that PyTorch names, or of the trainer's
    /// last call, if it raised the same exception.
    pub(super) fn cause<'a>(
        &'a self,
        uncaught: &Uncaught,
        last: Option<&'a Told>,
    ) -> Option<&'a str> {
        let of = |text: &String| {
            let end = self.named(text).map(|end| end.message.as_str());
            end.or_else(|| Some(last.filter(|of| of.text == *text)?.message.as_str()))
        };
        uncaught.texts.iter().find_map(of)
    }

    /// The end of the worker that PyTorch says is gone; of several the one that was seen first.
    fn named(&self, text: &str) -> Option<&End> {
        let (_, rest) = text.split_once(OF_WORKER)?;
        let (pids, _) = rest.trim_start_matches("(s)").split_once(')')?;
        let pids = pids.split(',').filter_map(|pid| pid.trim().parse().ok());
        pids.filter_map(|pid| self.end(pid))
            .min_by_key(|end| end.at)
    }

    /// The ends of all workers that ended before their time.
    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        self.ends.values()
    }
}

/// When the workers of the trainer had been told to stop, and had.
fn stopped(trainer: &Recording) -> HashMap<u32, u64> {
    let marks = trainer
        .marks
        .iter()
        .filter(|mark| mark.kind == Kind::Stopped);
    let ends: HashMap<u32, u64> = marks.map(|mark| (mark.a, mark.end)).collect();
    let of = |number: &u32| ends.get(number).copied();
    let iterations = trainer.iterations.iter();
    let workers = iterations.filter_map(|of_one| Some((&of_one.workers, of(&of_one.number)?)));
    let one = |(workers, end): (&Vec<u32>, u64)| -> Vec<(u32, u64)> {
        workers.iter().map(|&pid| (pid, end)).collect()
    };
    workers.flat_map(one).collect()
}

/// `None` if the worker ended because it had nothing left to do.
fn end(worker: &str, death: &Death, stages: &[Stage]) -> Option<End> {
    let made = stages.iter().filter(|stage| stage.works && stage.last);
    let made = made.filter(|stage| !stage.failed).count();
    let batches = match made {
        1 => "1 batch".to_owned(),
        made => format!("{made} batches"),
    };
    let ended_in = |stage: &&Stage| stage.end.is_none() || stage.cut;
    let open = stages.iter().rev().find(ended_in);
    if open.is_none() && death.signal.is_none() && death.code == 0 {
        return None;
    }
    let stage = open.map_or(String::new(), |stage| format!(" in {}", stage.name()));
    let (how, hint) = match &death.signal {
        Some(signal) => (format!("was killed by {signal}"), hint(signal)),
        None => (format!("exited with code {}", death.code), ""),
    };
    Some(End {
        at: death.at,
        message: format!("{worker} {how}{stage}, after {batches}{hint}"),
        how,
    })
}

/// What often sends a signal.
fn hint(signal: &str) -> &'static str {
    match signal {
        "SIGKILL" => " (out of memory? see dmesg)",
        "SIGBUS" => " (no room in shared memory? see df /dev/shm)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::Mark;
    use super::super::record::{ErrorText, WorkerInfo};
    use super::*;

    const TRAINER: u32 = 7;
    const WORKER: u32 = 8;

    fn recording(pid: u32, worker: Option<u32>, errors: &[(u64, &str)]) -> Recording {
        let mut of = Recording::default();
        of.process.pid = pid;
        of.worker = worker.map(|id| WorkerInfo { id });
        let error = |&(start, text): &(u64, &str)| ErrorText {
            tid: pid,
            start,
            text: text.to_owned(),
        };
        of.errors = errors.iter().map(error).collect();
        of
    }

    /// A stage of the worker's batch `n`.
    fn stage(n: u64, span: (u64, Option<u64>), failed: bool) -> Stage {
        Stage {
            tid: WORKER,
            collates: false,
            works: true,
            served: 0,
            n,
            start: span.0,
            end: span.1,
            last: span.1.is_some(),
            items: None,
            cpu: None,
            ready: None,
            failed,
            cut: false,
        }
    }

    fn call(n: Option<u64>) -> Call {
        Call {
            tid: TRAINER,
            start: 50,
            end: 60,
            outcome: Outcome::Error,
            gradients: true,
            made: n.map(|n| Made {
                pid: WORKER,
                served: 0,
                n,
            }),
            inner: None,
        }
    }

    fn uncaught(texts: &[&str]) -> Uncaught {
        Uncaught {
            at: 70,
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            code: None,
            outlived: false,
        }
    }

    #[test]
    fn what_nobody_caught_is_what_was_told_of_the_last_call() {
        let trainer = recording(TRAINER, None, &[(50, "KeyError: 31")]);
        let failures = Failures::of(&trainer, &[(&trainer, Vec::new())]);
        let told = failures.of_call(TRAINER, &call(None), 3);
        let said = "next() raised KeyError: 31 for batch 3, counted from 0";
        assert_eq!(told.message, said);
        let cause = |texts: &[&str], last| failures.cause(&uncaught(texts), last);
        assert_eq!(cause(&["KeyError: 31"], Some(&told)), Some(said));
        let from = ["ValueError: no", "KeyError: 31"];
        assert_eq!(cause(&from, Some(&told)), Some(said));
        assert_eq!(cause(&["KeyError: 3"], Some(&told)), None);
        assert_eq!(cause(&["KeyError: 31"], None), None);
    }

    #[test]
    fn of_dead_workers_the_one_that_pytorch_names_is_the_cause() {
        let mut trainer = recording(TRAINER, None, &[]);
        for (pid, at) in [(WORKER, 60), (WORKER + 1, 55)] {
            trainer.deaths.push(Death {
                pid,
                at,
                signal: Some("SIGKILL".to_owned()),
                code: 0,
            });
        }
        let workers = [0, 1].map(|id| recording(WORKER + id, Some(id), &[]));
        let processes = workers.each_ref().map(|of| (of, Vec::new()));
        let failures = Failures::of(&trainer, &processes);
        let cause = |texts: &[&str]| failures.cause(&uncaught(texts), None);
        let end = |pid| failures.end(pid).map(|end| end.message.as_str());
        let killed = "RuntimeError: DataLoader worker (pid 8) is killed by signal: Killed. ";
        let exited = "RuntimeError: DataLoader worker (pid(s) 8, 9) exited unexpectedly";
        let other = "RuntimeError: DataLoader worker (pid 89) is killed by signal: Killed. ";
        assert!(end(WORKER).is_some_and(|message| message.starts_with("worker-0 was killed")));
        assert_eq!(cause(&[killed]), end(WORKER));
        assert_eq!(cause(&["ValueError: no", killed]), end(WORKER));
        assert_eq!(cause(&[exited]), end(WORKER + 1));
        assert_eq!(cause(&[other]), None);
        assert_eq!(cause(&["ValueError: no"]), None);
    }

    #[test]
    fn an_exception_is_told_of_the_worker_and_the_stage_that_raised_it() {
        let trainer = recording(TRAINER, None, &[(50, "ValueError: Caught it")]);
        let worker = recording(WORKER, Some(1), &[(20, "ValueError: bad item")]);
        let stages = vec![
            stage(0, (10, Some(20)), false),
            stage(1, (20, Some(25)), true),
        ];
        let all = [(&trainer, Vec::new()), (&worker, stages)];
        let failures = Failures::of(&trainer, &all);
        assert_eq!(
            failures.of_call(TRAINER, &call(Some(1)), 3).message,
            "worker-1 raised ValueError: bad item in get of batch 3, counted from 0"
        );
        assert_eq!(
            failures.of_call(TRAINER, &call(None), 3).message,
            "next() raised ValueError: Caught it for batch 3, counted from 0"
        );
        let silent = Failures::of(&recording(TRAINER, None, &[]), &[]);
        let said = silent.of_call(TRAINER, &call(None), 0).message;
        assert!(said.starts_with("next() raised an exception"), "{said}");
    }

    #[test]
    fn a_worker_that_a_signal_ends_is_told_with_what_it_had_made() {
        for (signal, code, told) in [
            (
                Some("SIGKILL"),
                0,
                "worker-0 was killed by SIGKILL in get, after 1 batch (out of memory? see dmesg)",
            ),
            (
                Some("signal 40"),
                0,
                "worker-0 was killed by signal 40 in get, after 1 batch",
            ),
            (None, 3, "worker-0 exited with code 3 in get, after 1 batch"),
            (None, 0, "worker-0 exited with code 0 in get, after 1 batch"),
        ] {
            let mut trainer = recording(TRAINER, None, &[(50, "RuntimeError: exited")]);
            trainer.deaths.push(Death {
                pid: WORKER,
                at: 55,
                signal: signal.map(str::to_owned),
                code,
            });
            let worker = recording(WORKER, Some(0), &[]);
            let stages = vec![stage(0, (10, Some(20)), false), stage(1, (20, None), false)];
            let all = [(&trainer, Vec::new()), (&worker, stages)];
            let failures = Failures::of(&trainer, &all);
            let end = failures.end(WORKER).expect("it ended");
            assert_eq!((end.at, end.message.as_str()), (55, told));
            assert_eq!(failures.of_call(TRAINER, &call(None), 3).message, told);
        }
    }

    #[test]
    fn an_end_that_a_call_noticed_late_says_how_much_later() {
        let s = 1_000_000_000;
        for (at, told) in [
            (50 * s, "; PyTorch noticed it 10.0 s later"),
            (60 * s - 1, ""),
        ] {
            let mut trainer = recording(TRAINER, None, &[]);
            trainer.deaths.push(Death {
                pid: WORKER,
                at,
                signal: None,
                code: 0,
            });
            let worker = recording(WORKER, Some(0), &[]);
            let stages = vec![stage(0, (10, None), false)];
            let mut failures = Failures::of(&trainer, &[(&worker, stages)]);
            let mut raised = super::super::loops::loops(&Recording::of_loop(TRAINER, TRAINER));
            raised[0].calls.push(Call {
                start: 50 * s,
                end: 60 * s,
                ..call(None)
            });
            failures.noticed_by(&raised);
            let said = format!("worker-0 exited with code 0 in get, after 0 batches{told}");
            assert_eq!(failures.end(WORKER).expect("it ended").message, said);
            assert_eq!(failures.over(WORKER), Some(at));
        }
    }

    #[test]
    fn workers_that_were_told_to_stop_are_over_then() {
        let mut trainer = Recording::of_loop(TRAINER, TRAINER);
        trainer.iterations[0].workers = vec![WORKER];
        let worker = recording(WORKER, Some(0), &[]);
        let over = |trainer: &Recording| {
            Failures::of(trainer, &[(&worker, vec![stage(0, (10, None), false)])]).over(WORKER)
        };
        assert_eq!(over(&trainer), None);
        trainer.ends = Some(90);
        assert_eq!(over(&trainer), Some(90));
        let stopped = Mark::at(Kind::Stopped, TRAINER, (40, 45));
        trainer.marks.push(stopped);
        assert_eq!(over(&trainer), Some(45));
    }

    #[test]
    fn what_says_the_same_as_the_end_of_the_data_is_told_with_who_said_it() {
        let trainer = recording(TRAINER, None, &[(52, "StopIteration")]);
        let worker = recording(WORKER, Some(1), &[(20, "StopIteration: 7")]);
        let mut own = stage(0, (52, Some(58)), true);
        (own.works, own.tid) = (false, TRAINER);
        let stages = vec![stage(1, (20, Some(25)), true)];
        let all = [(&trainer, vec![own]), (&worker, stages)];
        let failures = Failures::of(&trainer, &all);
        let early =
            "of batch 3, counted from 0, which ended the loop early, as the end of the data would";
        let said = |call: &Call| failures.of_early_end(call, 3);
        let by_worker = format!("worker-1 raised StopIteration: 7 in get {early}");
        assert_eq!(said(&call(Some(1))), Some(by_worker));
        let in_process = format!("next() raised StopIteration in get {early}");
        assert_eq!(said(&call(None)), Some(in_process));
        // The end of the data is in no stage.
        let (start, end) = (60, 62);
        let real = Call {
            start,
            end,
            ..call(None)
        };
        assert_eq!(said(&real), None);
    }

    #[test]
    fn a_worker_that_had_nothing_left_to_do_did_not_end_before_its_time() {
        let mut trainer = recording(TRAINER, None, &[(50, "ValueError: of another worker")]);
        trainer.deaths.push(Death {
            pid: WORKER,
            at: 55,
            ..Death::default()
        });
        let worker = recording(WORKER, Some(0), &[]);
        let mut last = stage(1, (20, Some(30)), false);
        for (cut, told) in [(false, false), (true, true)] {
            // sys.exit(0) in a data set.
            last.cut = cut;
            let stages = vec![stage(0, (10, Some(20)), false), last.clone()];
            let all = [(&trainer, Vec::new()), (&worker, stages)];
            let failures = Failures::of(&trainer, &all);
            assert_eq!(failures.end(WORKER).is_some(), told);
        }
    }
}
