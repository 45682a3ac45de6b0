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

/// What PyTorch says of a worker that is gone begins with this.
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
    pub(super) fn of_call(&self, pid: u32, call: &Call, batch: usize) -> String {
        let (tid, (start, end)) = call.inner.unwrap_or((call.tid, (call.start, call.end)));
        let mut ends = self.ends.values();
        if let Some(end) = ends.find(|of| (start..=end).contains(&of.at)) {
            return end.message.clone();
        }
        let of_worker = call.made.and_then(|made| self.failed.get(&made));
        match of_worker {
            Some((worker, stage, text)) => {
                format!("{worker} raised {text} in {stage} of batch {batch}, counted from 0")
            }
            None => {
                let text = self.text(pid, tid, start);
                format!("next() raised {text} for batch {batch}, counted from 0")
            }
        }
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

    /// Whether what `message` tells is what nobody caught: the same exception, or the end of a worker for which
    /// PyTorch raised it.
    pub(super) fn is_told_in(&self, uncaught: &Uncaught, message: &str) -> bool {
        let is_same = |text: &String| {
            let of_worker = text.contains(OF_WORKER);
            message.contains(text.as_str())
                || (of_worker && self.ends().any(|end| end.message == message))
        };
        uncaught.texts.iter().any(is_same)
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

    #[test]
    fn what_nobody_caught_is_what_was_told_of_a_call_or_a_worker() {
        let mut trainer = recording(TRAINER, None, &[]);
        trainer.deaths.push(Death {
            pid: WORKER,
            at: 60,
            signal: Some("SIGKILL".to_owned()),
            code: 0,
        });
        let worker = recording(WORKER, Some(0), &[]);
        let failures = Failures::of(&trainer, &[(&worker, Vec::new())]);
        let end = &failures.end(WORKER).expect("it ended").message;
        let uncaught = |texts: &[&str]| Uncaught {
            at: 70,
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
        };
        let killed = "RuntimeError: DataLoader worker (pid 8) is killed by signal: Killed. ";
        assert!(failures.is_told_in(&uncaught(&[killed]), end));
        assert!(failures.is_told_in(&uncaught(&["ValueError: no", killed]), end));
        assert!(!failures.is_told_in(&uncaught(&["ValueError: no"]), end));
        let call = "next() raised KeyError: 3 for batch 3, counted from 0";
        assert!(failures.is_told_in(&uncaught(&["KeyError: 3"]), call));
        assert!(!failures.is_told_in(&uncaught(&["KeyError: 4"]), call));
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
            failures.of_call(TRAINER, &call(Some(1)), 3),
            "worker-1 raised ValueError: bad item in get of batch 3, counted from 0"
        );
        assert_eq!(
            failures.of_call(TRAINER, &call(None), 3),
            "next() raised ValueError: Caught it for batch 3, counted from 0"
        );
        let silent = Failures::of(&recording(TRAINER, None, &[]), &[]);
        let said = silent.of_call(TRAINER, &call(None), 0);
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
            assert_eq!(failures.of_call(TRAINER, &call(None), 3), told);
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
