//! Recordings that the tests make themselves.

use gpustall_diagnose::{Report, annotate, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};
use gpustall_trace::{
    EventRef, Interval, Meta, MonoTime, PartialWriter, Pid, Slice, State, Tid, Trace, TraceTime,
    Track, TrackId, TrackKind, Value, ValueRef, partial_path, read, write_finished,
};
use std::path::{Path, PathBuf};

const PID: Pid = Pid(100);
const STEPS: Pid = Pid(Pid::SYNTHETIC);

/// A recording of 20 steps of 10 ms, 7 of which are wait, as a job leaves it that is killed.
pub(crate) fn partial(dir: &Path, name: &str) -> PathBuf {
    let path = partial_path(&dir.join(format!("{name}.trace.json.gz")));
    let meta = Meta {
        name: name.into(),
        pid: PID,
        cpus: 8,
        start_mono: MonoTime::from_nanos(7_000_000),
        ..Meta::default()
    };
    let mut writer = PartialWriter::create(&path, &meta).expect("the directory is writable");
    writer.push(&EventRef::Process {
        pid: PID,
        name: "trainer",
        sort: 0,
    });
    for (pid, tid, name, kind) in [
        (PID, 100, "main", TrackKind::Thread),
        (PID, 101, "dataloader-0", TrackKind::Thread),
        (STEPS, Pid::SYNTHETIC, "steps", TrackKind::Synthetic),
    ] {
        writer.push(&EventRef::Track {
            pid,
            tid: Tid(tid),
            name,
            sort: 0,
            kind,
        });
    }
    for step in 0..20 {
        let at = step * 10_000_000;
        let mut slice = |pid, tid, name, cat, (start, end), args: &[_]| {
            let time = |t| TraceTime::from_nanos(at + t);
            let span = Interval::new(time(start), time(end));
            writer.push(&EventRef::Slice {
                pid,
                tid: Tid(tid),
                name,
                cat,
                span,
                args,
            });
        };
        let args = [
            (arg::LOADER, ValueRef::Str("train")),
            (arg::KIND, ValueRef::Str(kind::TRAIN)),
            (arg::EPOCH, ValueRef::U64(0)),
            (arg::STEP, ValueRef::U64(step)),
            (arg::THREAD, ValueRef::U64(100)),
            (arg::BATCH, ValueRef::U64(step)),
            (arg::WORKER, ValueRef::U64(101)),
        ];
        let batch = [
            (arg::BATCH, ValueRef::U64(step)),
            (arg::ITEMS, ValueRef::U64(32)),
        ];
        slice(
            STEPS,
            Pid::SYNTHETIC,
            "step",
            cat::STEP,
            (0, 10_000_000),
            &args,
        );
        slice(PID, 100, "data wait", cat::DATA_WAIT, (0, 7_000_000), &args);
        slice(PID, 101, "get", cat::DATA_GET, (0, 6_000_000), &batch);
        slice(
            PID,
            101,
            "collate",
            cat::DATA_COLLATE,
            (6_000_000, 6_900_000),
            &batch,
        );
    }
    writer.flush().expect("the disk is not full");
    path
}

/// The same, finished as a session does it, and what it printed.
pub(crate) fn finished(dir: &Path, name: &str) -> (PathBuf, Report) {
    let mut trace = read(&partial(dir, name))
        .expect("it was just written")
        .trace;
    trace.meta.state = State::Finished;
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let path = dir.join(format!("{name}.trace.json.gz"));
    write_finished(&path, &trace).expect("the directory is writable");
    (path, report)
}

/// What the sidecar recorded beside `partial`: thread 101 asleep all the time. The kernel calls it as its
/// program.
pub(crate) fn kernel(dir: &Path, start_mono: u64) -> PathBuf {
    let mut trace = Trace::default();
    trace.meta.start_mono = MonoTime::from_nanos(start_mono);
    trace.meta.end = TraceTime::from_nanos(5_000_000);
    trace.meta.pid = PID;
    trace.meta.recorder = "gpustall-sidecar".into();
    let (lane, kind) = (
        trace.strings.intern("lane"),
        trace.strings.intern(cat::OFF_CPU),
    );
    let thread = trace.strings.intern(arg::THREAD);
    trace.tracks.push(Track {
        pid: PID,
        tid: Tid(0xD000_0000),
        name: lane,
        sort: 0,
        kind: TrackKind::Synthetic,
    });
    let program = trace.strings.intern("trainer");
    trace.tracks.push(Track {
        pid: PID,
        tid: Tid(101),
        name: program,
        sort: 0,
        kind: TrackKind::Thread,
    });
    trace.slices.push(Slice {
        track: TrackId(0),
        name: kind,
        cat: kind,
        span: Interval::new(TraceTime::ZERO, trace.meta.end),
        args: Box::new([(thread, Value::U64(101))]),
    });
    let path = dir.join(format!("kernel{start_mono}.trace.json"));
    write_finished(&path, &trace).expect("the directory is writable");
    path
}
