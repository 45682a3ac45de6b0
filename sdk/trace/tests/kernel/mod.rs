//! Stretches off CPU, and what a viewer makes of the scheduler text that the writer makes of them.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_trace::vocab::{arg, cat, state};
use gpustall_trace::*;
use std::collections::HashMap;
use std::path::Path;

/// A stretch off CPU of a thread.
#[derive(Debug, Clone)]
pub(crate) struct Off {
    pub(crate) tid: u32,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) state: &'static str,
    pub(crate) runnable: u64,
    pub(crate) cpus: (Option<u32>, Option<u32>),
    /// Who took the CPU, who gave it back, who woke the thread; 0 for the idle thread.
    pub(crate) others: [u32; 3],
}

/// A sleep of `tid` on CPU 0, alone.
pub(crate) fn sleep(tid: u32, start: u64, length: u64) -> Off {
    Off {
        tid,
        start,
        length,
        state: state::SLEEPING,
        runnable: 0,
        cpus: (Some(0), Some(0)),
        others: [0; 3],
    }
}

pub(crate) fn time(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

/// A trace of process 7 with these stretches, each thread with its lane.
pub(crate) fn trace(stretches: &[Off]) -> Trace {
    let mut trace = Trace::default();
    trace.meta.pid = Pid(7);
    trace.meta.state = State::Finished;
    let mut lanes: HashMap<u32, TrackId> = HashMap::new();
    for off in stretches {
        let lane = *lanes.entry(off.tid).or_insert_with(|| {
            let lane = 0xD000_0000 + off.tid;
            for (tid, title, kind) in [
                (off.tid, "worker", TrackKind::Thread),
                (lane, "worker off CPU", TrackKind::Synthetic),
            ] {
                let name = trace.strings.intern(title);
                let (pid, tid) = (Pid(7), Tid(tid));
                let sort = 0;
                trace.tracks.push(Track {
                    pid,
                    tid,
                    name,
                    sort,
                    kind,
                });
            }
            TrackId(trace.tracks.len() as u32 - 1)
        });
        push(&mut trace, lane, off);
    }
    let end = stretches.iter().map(|off| off.start + off.length).max();
    trace.meta.end = time(end.unwrap_or(0));
    trace.sort();
    trace
}

fn push(trace: &mut Trace, lane: TrackId, off: &Off) {
    let strings = &mut trace.strings;
    let mut args: Vec<Arg> = vec![
        (strings.intern(arg::THREAD), Value::U64(off.tid.into())),
        (
            strings.intern(arg::STATE),
            Value::Str(strings.intern(off.state)),
        ),
        (strings.intern(arg::RUNNABLE_NS), Value::U64(off.runnable)),
    ];
    for (key, tid) in [arg::DISPLACED_BY, arg::GAVE_BACK, arg::WAKER]
        .into_iter()
        .zip(off.others)
    {
        if tid > 0 {
            let name = strings.intern(&format!("other {tid}"));
            args.push((strings.intern(key), Value::Str(name)));
            let key = strings.intern(&format!("{key}_tid"));
            args.push((key, Value::U64(tid.into())));
        }
    }
    for (key, cpu) in [(arg::CPU_OUT, off.cpus.0), (arg::CPU_IN, off.cpus.1)] {
        if let Some(cpu) = cpu {
            args.push((strings.intern(key), Value::U64(cpu.into())));
        }
    }
    let slice = Slice {
        track: lane,
        name: strings.intern(off.state),
        cat: strings.intern(cat::OFF_CPU),
        span: Interval::new(time(off.start), time(off.start + off.length)),
        args: args.into(),
    };
    trace.slices.push(slice);
}

/// The states that a viewer must show for these stretches: thread, state, start, length.
pub(crate) fn states(stretches: &[Off]) -> Vec<(u32, String, u64, u64)> {
    let mut list = Vec::new();
    for off in stretches.iter().filter(|off| off.length > 0) {
        let code = match off.state {
            state::PREEMPTED => "R+",
            state::STARTING => "R",
            state::SLEEPING => "S",
            state::UNINTERRUPTIBLE => "D",
            _ => "T",
        };
        let woken = match code {
            "S" | "D" | "T" if off.runnable < off.length => off.runnable,
            _ => 0,
        };
        let blocked = off.length - woken;
        list.push((off.tid, code.to_owned(), off.start, blocked));
        if woken > 0 {
            list.push((off.tid, "R".to_owned(), off.start + blocked, woken));
        }
    }
    list.sort();
    list
}

/// The lines of scheduler text in a finished file.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let Some(text) = json.get("systemTraceEvents") else {
        return Vec::new();
    };
    let text = text.as_str().unwrap();
    assert!(text.ends_with('\n'), "every line ends");
    text.lines().map(str::to_owned).collect()
}

/// What a viewer knows after some lines. It does what Perfetto does, and panics where Perfetto would
/// count an error.
#[derive(Default)]
pub(crate) struct Kernel {
    now: u64,
    cpus: HashMap<u32, u32>,
    threads: HashMap<u32, (String, u64)>,
    /// States that are over: thread, state, start, length.
    pub(crate) over: Vec<(u32, String, u64, u64)>,
}

impl Kernel {
    pub(crate) fn read(lines: &[String]) -> Self {
        let mut kernel = Self::default();
        for line in lines {
            kernel.line(line);
        }
        kernel
    }

    fn line(&mut self, line: &str) {
        let (head, rest) = line.split_once("] .... ").expect(line);
        let (_, cpu) = head.rsplit_once('[').expect(line);
        let cpu = cpu.parse().expect(line);
        let (at, rest) = rest.split_once(": ").expect(line);
        let at = (at.parse::<f64>().expect(line) * 1e9) as u64;
        assert!(self.now <= at, "in the order of time: {line}");
        self.now = at;
        let (event, rest) = rest.split_once(": ").expect(line);
        let args: HashMap<&str, &str> = rest
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .collect();
        match event {
            "sched_switch" => {
                let prev = args["prev_pid"].parse().expect(line);
                let next = args["next_pid"].parse().expect(line);
                assert_ne!(prev, next, "{line}");
                if let Some(has) = self.cpus.insert(cpu, next) {
                    assert_eq!(has, prev, "the CPU had another thread: {line}");
                }
                let running = self.threads.get(&prev);
                assert!(
                    running.is_none_or(|(state, _)| state == "Running"),
                    "{line}"
                );
                let twice = self.cpus.iter().filter(|(_, has)| **has == next).count();
                assert!(next == 0 || twice == 1, "on two CPUs: {line}");
                self.turn(prev, args["prev_state"], at);
                self.turn(next, "Running", at);
            }
            "sched_waking" => {
                let tid = args["pid"].parse().expect(line);
                let state = self.threads.get(&tid).map(|(state, _)| state.as_str());
                assert!(!matches!(state, Some("Running" | "R")), "{line}");
                self.turn(tid, "R", at);
            }
            "sched_blocked_reason" => assert!(args.contains_key("iowait"), "{line}"),
            other => panic!("{other}"),
        }
    }

    fn turn(&mut self, tid: u32, state: &str, at: u64) {
        if tid == 0 {
            return;
        }
        if let Some((before, since)) = self.threads.insert(tid, (state.to_owned(), at))
            && at > since
        {
            self.over.push((tid, before, since, at - since));
        }
    }

    /// States other than running of these threads.
    pub(crate) fn not_running(&self, tids: &[u32]) -> Vec<(u32, String, u64, u64)> {
        let of = self.over.iter().filter(|(tid, ..)| tids.contains(tid));
        let mut list: Vec<_> = of
            .filter(|(_, state, ..)| state != "Running" && state != "X")
            .cloned()
            .collect();
        list.sort();
        list
    }
}
