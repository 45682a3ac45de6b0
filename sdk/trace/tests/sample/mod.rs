//! Traces for the tests of this crate: arbitrary ones, and how two are compared.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arbitrary;
mod compare;
mod push;

pub(crate) use arbitrary::any_trace;
pub(crate) use compare::{as_partial, canonical};
pub(crate) use push::write_partial;

use gpustall_trace::*;

/// A trace with its processes and tracks, and no events.
pub(crate) fn skeleton(notes: Vec<String>, numbers: [u64; 3], sort: i32) -> Trace {
    let meta = Meta {
        name: "run \"1\"".into(),
        recorder: "0.1.0".into(),
        start_mono: MonoTime::from_nanos(numbers[0]),
        start_unix_ns: numbers[1],
        end: TraceTime::from_nanos(numbers[2]),
        pid: Pid(7),
        cpus: 4,
        state: State::Finished,
        notes,
        devices: vec![DeviceInfo {
            id: 0,
            name: "NVIDIA H200".into(),
            memory_bytes: numbers[0],
            multiprocessors: 132,
            uuid: "GPU-1".into(),
        }],
        distributed: Some(gpustall_trace::DistributedInfo {
            rank: 1,
            world_size: 4,
        }),
        job: "node:29500".into(),
        boot: "6f0c".into(),
        members: vec![gpustall_trace::Member {
            pid: Pid(7),
            devices: vec![0],
            ..gpustall_trace::Member::default()
        }],
        exit_code: Some(137),
    };
    let mut trace = Trace {
        meta,
        ..Trace::default()
    };
    let trainer = trace.strings.intern("trainer");
    let lanes = trace.strings.intern("lanes");
    let group = Pid(Pid::SYNTHETIC + 1);
    trace.processes.push(Process {
        pid: Pid(7),
        name: trainer,
        sort,
    });
    trace.processes.push(Process {
        pid: group,
        name: lanes,
        sort: -1,
    });
    for (pid, tid, kind) in [
        (Pid(7), 7, TrackKind::Thread),
        (Pid(7), 8, TrackKind::Thread),
        (group, 0xE000_0000, TrackKind::Synthetic),
    ] {
        let name = trace.strings.intern(&format!("track {tid}"));
        trace.tracks.push(Track {
            pid,
            tid: Tid(tid),
            name,
            sort,
            kind,
        });
    }
    for name in ["queue depth train", "memory"] {
        let name = trace.strings.intern(name);
        trace
            .counter_series
            .push(CounterSeries { pid: Pid(7), name });
    }
    trace
}
