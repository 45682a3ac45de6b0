use super::Conversion;
use crate::recording::{CpuSample, Faults, RunId, ThreadRecord, WaitId};
use crate::recording::{OffCpuInterval, Other, OtherId, Recording, Totals, Waker, Why};
use crate::run::{Run, RunClass};
use crate::wait::{Wait, WaitClass};
use gpustall_protocol::Introduced;
use gpustall_trace::vocab::{arg, cat, totals};
use gpustall_trace::{
    MonoTime, Nanos, Pid, Tid, Trace, TraceTime, TrackKind, Value, read, write_finished,
};

pub(crate) fn at(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

fn thread(pid: u32, tid: u32, name: &str) -> ThreadRecord {
    ThreadRecord {
        number: tid,
        tid: Tid(tid),
        pid: Pid(pid),
        name: name.to_owned(),
        parent: None,
        first: at(10_000),
        last: at(90_000),
        ended: true,
        faults_before: Faults {
            minor: 1000,
            major: 10,
        },
        totals: Totals {
            on_cpu: Nanos::new(20_000),
            sleeping: Nanos::new(40_000),
            woken: Nanos::new(5_000),
            preempted: Nanos::new(15_000),
            waits: 3,
            faults: Faults {
                minor: 50,
                major: 2,
            },
            page_allocs: Some(64),
            ..Totals::default()
        },
    }
}

fn other(tid: u32, name: &str) -> Other {
    Other {
        tid: Tid(tid),
        pid: Pid(tid),
        name: name.to_owned(),
        has_ids: true,
    }
}

/// Two threads of two processes; the second waits on a futex and is then preempted by `rival`.
pub(crate) fn recording() -> Recording {
    let wait = OffCpuInterval {
        thread: 1,
        out: at(20_000),
        woken: Some(at(60_000)),
        back: at(65_000),
        why: Why::Sleeping,
        iowait: false,
        truncated: false,
        inferred: false,
        unfinished: false,
        cpu_out: Some(0),
        cpu_in: Some(1),
        waker: Waker::Thread(OtherId(1)),
        taker: Some(OtherId(0)),
        giver: Some(OtherId(2)),
        wait: Some(WaitId(0)),
        faults: Faults {
            minor: 1020,
            major: 10,
        },
    };
    let preempted = OffCpuInterval {
        out: at(70_000),
        woken: None,
        back: at(85_000),
        why: Why::Preempted,
        unfinished: true,
        cpu_in: None,
        waker: Waker::None,
        taker: Some(OtherId(2)),
        giver: None,
        wait: None,
        ..wait
    };
    Recording {
        start: MonoTime::from_nanos(5),
        end: at(100_000),
        threads: vec![thread(7, 7, "main"), thread(8, 9, "worker")],
        intervals: vec![wait, preempted],
        others: vec![other(0, "swapper/0"), other(7, "main"), other(50, "rival")],
        samples: vec![CpuSample {
            thread: 0,
            at: at(30_000),
            cpu: 1,
            run: RunId(0),
        }],
        cuda_calls: Vec::new(),
        runs: vec![Run {
            class: RunClass::User,
            function: "gather".to_owned(),
            kernel: vec![],
            user: vec!["gather".to_owned(), "main".to_owned()],
        }],
        waits: vec![Wait {
            class: WaitClass::Futex,
            function: "futex_do_wait".to_owned(),
            stack: vec!["futex_do_wait".to_owned(), "do_futex".to_owned()],
        }],
        losses: vec![(at(50_000), "off-cpu intervals", 4)],
        notes: vec!["a note".to_owned()],
        finished: true,
        ..Recording::default()
    }
}

/// As it comes back from a file.
fn trace() -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.trace.json.gz");
    let trace = recording().to_trace("job", Pid(7));
    write_finished(&path, &trace).expect("written");
    let outcome = read(&path).expect("read back");
    assert_eq!(outcome.warnings, [""; 0]);
    outcome.trace
}

#[test]
fn an_interval_is_a_slice_on_the_lane_of_its_thread_with_all_that_is_known() {
    let trace = trace();
    let [wait, preempted] = &trace.slices[..] else {
        panic!("two slices");
    };
    let lane = trace.track(wait.track).expect("a track");
    assert_eq!((lane.pid, lane.kind), (Pid(8), TrackKind::Synthetic));
    assert_eq!(trace.text(lane.name), "worker off CPU");
    assert_eq!((wait.span.start, wait.span.end), (at(20_000), at(65_000)));
    assert_eq!(
        (trace.text(wait.name), trace.text(wait.cat)),
        ("futex", cat::OFF_CPU)
    );
    for (key, text) in [
        (arg::STATE, "sleeping"),
        (arg::WAIT, "futex"),
        (arg::FUNCTION, "futex_do_wait"),
        (arg::STACK, "futex_do_wait;do_futex"),
        (arg::WAKER, "main"),
        (arg::GAVE_BACK, "rival"),
    ] {
        assert_eq!(trace.arg_str(&wait.args, key), Some(text), "{key}");
    }
    for (key, number) in [
        (arg::THREAD, 9),
        (arg::RUNNABLE_NS, 5_000),
        (arg::MINOR_FAULTS, 1020),
        ("waker_tid", 7),
        ("gave_back_pid", 50),
        (arg::CPU_OUT, 0),
        (arg::CPU_IN, 1),
    ] {
        assert_eq!(trace.arg_u64(&wait.args, key), Some(number), "{key}");
    }
    // The CPU went idle: nobody displaced the thread.
    assert_eq!(trace.arg(&wait.args, arg::DISPLACED_BY), None);

    assert_eq!(trace.text(preempted.name), "preempted");
    assert_eq!(
        trace.arg_str(&preempted.args, arg::DISPLACED_BY),
        Some("rival")
    );
    assert_eq!(
        trace.arg_u64(&preempted.args, arg::RUNNABLE_NS),
        Some(15_000)
    );
    let unfinished = trace.arg(&preempted.args, arg::UNFINISHED);
    assert_eq!(unfinished, Some(Value::Bool(true)));
    for absent in [
        arg::WAKER,
        arg::WAIT,
        arg::GAVE_BACK,
        arg::CPU_IN,
        arg::IOWAIT,
    ] {
        assert_eq!(trace.arg(&preempted.args, absent), None, "{absent}");
    }
}

#[test]
fn each_thread_ends_in_its_totals() {
    let trace = trace();
    let ends = trace.instants.iter();
    let ends = ends.filter(|i| trace.text(i.cat) == cat::THREAD_TOTALS);
    assert_eq!(ends.clone().count(), 2);
    for instant in ends {
        let number = |key| trace.arg_u64(&instant.args, key).expect(key);
        let parts = [
            totals::ON_CPU_NS,
            totals::PREEMPTED_NS,
            totals::WOKEN_NS,
            totals::SLEEPING_NS,
            totals::UNINTERRUPTIBLE_NS,
            totals::STOPPED_NS,
        ];
        let sum: u64 = parts.map(number).iter().sum();
        assert_eq!(sum, instant.at.as_nanos() - number(totals::FIRST_NS));
        assert_eq!(number(totals::WAITS), 3);
        assert_eq!(number(totals::MINOR_FAULTS), 50);
        assert_eq!(number(totals::PAGE_ALLOCS), 64);
    }
}

#[test]
fn a_sample_is_an_instant_with_its_stacks() {
    let trace = trace();
    let mut instants = trace.instants.iter();
    let sample = instants.find(|i| trace.text(i.cat) == cat::CPU_SAMPLE);
    let sample = sample.expect("the sample");
    assert_eq!((trace.text(sample.name), sample.at), ("gather", at(30_000)));
    let text = |key| trace.arg_str(&sample.args, key);
    assert_eq!(text(arg::RUNNING), Some("user"));
    assert_eq!(text(arg::USER_STACK), Some("gather;main"));
    assert_eq!(text(arg::STACK), None);
}

#[test]
fn losses_and_notes_go_with_the_trace() {
    let trace = trace();
    assert_eq!(trace.lost_by_source(), [("off-cpu intervals", 4)].into());
    assert_eq!(trace.meta.notes, ["a note"]);
    assert_eq!((trace.meta.end, trace.meta.pid), (at(100_000), Pid(7)));
    let processes = trace.processes.iter().map(|p| trace.text(p.name));
    assert_eq!(processes.collect::<Vec<_>>(), ["main", "worker"]);
}

#[test]
fn an_id_that_two_threads_had_has_one_track_and_two_lanes() {
    let mut recording = recording();
    recording.threads.push(ThreadRecord {
        number: 10,
        ..thread(8, 9, "later")
    });
    let trace = recording.to_trace("job", Pid(7));
    let of_9 = trace.tracks.iter().filter(|t| t.tid == Tid(9));
    assert_eq!(of_9.count(), 1);
    let lanes = trace
        .tracks
        .iter()
        .filter(|t| t.kind == TrackKind::Synthetic);
    assert_eq!(lanes.count(), 3);
}

#[test]
fn a_recording_in_parts_makes_the_same_trace_as_a_whole() {
    let whole = recording();
    let mut expected = Conversion::default();
    expected.add(&whole);

    let mut first = whole.clone();
    first.finished = false;
    first.threads.iter_mut().for_each(|t| t.ended = false);
    first.threads[0].name = "python".to_owned();
    first.intervals.truncate(1);
    first.samples.clear();
    first.losses.clear();
    let mut second = whole.clone();
    second.intervals.remove(0);
    let mut parts = Conversion::default();
    parts.add(&first);
    assert_eq!(parts.introduced.tracks.len(), 4);
    assert_eq!(parts.trace.instants, []);
    parts.introduced = Introduced::default();
    parts.add(&second);
    // The new name of a thread, of its lane and of its process is told.
    assert_eq!(parts.introduced.tracks.len(), 2);
    assert_eq!(parts.introduced.processes.len(), 1);
    assert_eq!(texts(&parts.trace), texts(&expected.trace));

    parts.forget_strings();
    let names = |trace: &Trace| -> Vec<String> {
        let tracks = trace.tracks.iter().map(|t| t.name);
        tracks.map(|name| trace.text(name).to_owned()).collect()
    };
    assert_eq!(names(&parts.trace), names(&expected.trace));
    assert_eq!(parts.trace.strings.len(), 4);
}

/// Names, times and arguments of all events and tracks.
pub(crate) fn texts(trace: &Trace) -> Vec<String> {
    let args = |args: &[gpustall_trace::Arg]| -> Vec<String> {
        let text = |(key, value): &gpustall_trace::Arg| match value {
            Value::Str(text) => format!("{}={}", trace.text(*key), trace.text(*text)),
            other => format!("{}={other:?}", trace.text(*key)),
        };
        args.iter().map(text).collect()
    };
    let tracks = trace.tracks.iter();
    let tracks = tracks.map(|t| format!("{} {} {}", t.pid, t.tid, trace.text(t.name)));
    let slices = trace.slices.iter();
    let place = |track| trace.track(track).map(|t| (t.pid, t.tid));
    let slices = slices.map(|s| format!("{:?} {:?} {:?}", place(s.track), s.span, args(&s.args)));
    let instants = trace.instants.iter();
    let instants = instants.map(|i| format!("{:?} {:?} {:?}", place(i.track), i.at, args(&i.args)));
    tracks.chain(slices).chain(instants).collect()
}
