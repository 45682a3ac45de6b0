//! Memory work, requests to disks and the machine's counters in a trace.

use super::tests::{at, recording};
use crate::disk::{BlockIo, RequestKind};
use crate::host::HostSample;
use crate::memory::{MemoryWork, MemoryWorkKind, OomKill};
use crate::recording::{OtherId, Recording};
use gpustall_trace::vocab::{arg, cat, host};
use gpustall_trace::{Pid, Slice, Trace, TrackKind, Value};

fn work(kind: MemoryWorkKind, from: u64, to: u64) -> MemoryWork {
    MemoryWork {
        thread: 1,
        kind,
        begin: at(from),
        end: at(to),
        pages: Some(32),
        unfinished: false,
    }
}

fn read(start: u64, done: u64) -> BlockIo {
    BlockIo {
        thread: 1,
        submitter: None,
        kind: RequestKind::Read,
        bytes: 4096,
        disk: "nvme0n1".into(),
        start: at(start),
        done: at(done),
        unfinished: false,
    }
}

fn trace(recording: Recording) -> Trace {
    recording.to_trace("job", Pid(7))
}

fn of_category<'a>(trace: &'a Trace, cat: &str) -> Vec<&'a Slice> {
    let slices = trace.slices.iter();
    slices.filter(|s| trace.text(s.cat) == cat).collect()
}

#[test]
fn memory_work_lies_on_the_thread_itself() {
    let trace = trace(Recording {
        memory_work: vec![
            work(MemoryWorkKind::CgroupReclaim, 10_000, 12_000),
            MemoryWork {
                unfinished: true,
                pages: None,
                ..work(MemoryWorkKind::Migration, 14_000, 100_000)
            },
        ],
        ..recording()
    });
    let [reclaim] = of_category(&trace, cat::RECLAIM)[..] else {
        panic!("one reclaim");
    };
    let track = trace.track(reclaim.track).expect("a track");
    assert_eq!((track.tid.0, track.kind), (9, TrackKind::Thread));
    assert_eq!(trace.text(reclaim.name), "cgroup reclaim");
    assert_eq!(trace.arg_u64(&reclaim.args, arg::RECLAIMED), Some(32));
    let [migration] = of_category(&trace, cat::MIGRATION)[..] else {
        panic!("one migration");
    };
    assert_eq!(trace.arg(&migration.args, arg::MOVED), None);
    let unfinished = trace.arg(&migration.args, arg::UNFINISHED);
    assert_eq!(unfinished, Some(Value::Bool(true)));
}

#[test]
fn a_kill_is_on_the_first_thread_of_its_process() {
    let mut recording = recording();
    // The kernel may name another thread of the process.
    let mut first = recording.threads[1].clone();
    first.tid.0 = 8;
    recording.threads.push(first);
    recording.oom_kills = vec![OomKill {
        thread: 1,
        pid: Pid(8),
        at: at(80_000),
        wanted_by: OtherId(2),
    }];
    let trace = trace(recording);
    let mut kills = trace.instants.iter();
    let kill = kills.find(|i| trace.text(i.cat) == cat::OOM_KILL);
    let kill = kill.expect("the kill");
    assert_eq!(trace.track(kill.track).map(|t| t.tid.0), Some(8));
    assert_eq!(trace.arg_str(&kill.args, arg::WANTED_BY), Some("rival"));
}

#[test]
fn requests_that_overlap_are_on_lanes_of_their_own() {
    let by_kernel = BlockIo {
        submitter: Some(OtherId(2)),
        ..read(50_000, 60_000)
    };
    let trace = trace(Recording {
        block_io: vec![read(20_000, 30_000), read(10_000, 40_000), by_kernel],
        ..recording()
    });
    let slices = of_category(&trace, cat::BLOCK_IO);
    let lanes: Vec<&str> = slices
        .iter()
        .map(|s| trace.text(trace.track(s.track).expect("a track").name))
        .collect();
    assert_eq!(lanes, ["worker disk", "worker disk (2)", "worker disk"]);
    let last = slices[2];
    assert_eq!(trace.text(last.name), "read");
    assert_eq!(trace.arg_u64(&last.args, arg::THREAD), Some(9));
    assert_eq!(trace.arg_u64(&last.args, arg::BYTES), Some(4096));
    assert_eq!(trace.arg_str(&last.args, arg::DISK), Some("nvme0n1"));
    assert_eq!(trace.arg_str(&last.args, arg::SUBMITTER), Some("rival"));
    assert_eq!(trace.arg(&slices[0].args, arg::SUBMITTER), None);
}

#[test]
fn the_machine_is_a_process_with_counters_of_what_was_measured() {
    let sample = HostSample {
        at: at(20_000),
        cpus: vec![(0, 0.5), (3, 1.0)],
        run_queue: Some(4),
        pressure: [Some(0.25), None, Some(0.0)],
        memory_available: None,
    };
    let trace = trace(Recording {
        host: vec![sample],
        ..recording()
    });
    let process = trace.processes.iter().find(|p| p.pid == Pid(host::PID));
    assert_eq!(process.map(|p| trace.text(p.name)), Some("host"));
    let of_host = |s: &&_| {
        let s: &gpustall_trace::CounterSample = s;
        trace.counter_series[s.series as usize].pid == Pid(host::PID)
    };
    let values: Vec<(&str, f64)> = trace
        .counters
        .iter()
        .filter(of_host)
        .map(|s| {
            (
                trace.text(trace.counter_series[s.series as usize].name),
                s.value,
            )
        })
        .collect();
    assert_eq!(
        values,
        [
            ("cpus busy", 1.5),
            ("cpu busy % 0", 50.0),
            ("cpu busy % 3", 100.0),
            ("run queue", 4.0),
            ("pressure % cpu", 25.0),
            ("pressure % io", 0.0),
        ]
    );
}
