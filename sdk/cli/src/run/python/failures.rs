//! What went wrong while batches were made, in words: exceptions, and workers that ended before their time.

use super::calls::{Call, Made};
use super::record::{Death, Recording, Uncaught};
use super::stages::Stage;
use std::collections::{BTreeMap, HashMap};

/// A process: its number, and the stages that it went through.
pub(super) type Process<'a> = (&'a Recording, Vec<Stage>);

/// The exceptions of a trainer and its workers, and the ends of these.
pub(super) struct Failures {
    /// What exceptions said, by process, thread and the start of what they ended.
    texts: HashMap<(u32, u32, u64), String>,
    /// Stages that failed, of workers: who it was, the stage, and the text.
    failed: HashMap<Made, (String, &'static str, String)>,
    ends: BTreeMap<u32, End>,
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
    text: String,
    /// The same with who raised it, and where.
    pub(super) message: String,
}

/// What PyTorch says of workers that are gone begins with this; `(s)`, their processes and `)` follow.
const OF_WORKER: &str = "DataLoader worker (pid";

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
            ends: BTreeMap::new(),
        };
        for (recording, stages) in processes {
            let pid = recording.process.pid;
            let Some(worker) = recording.worker else {
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
    use super::super::calls::Outcome;
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
