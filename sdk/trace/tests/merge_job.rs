//! The processes of one job as one trace: one number means one thing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::*;

/// When the machine of these tests was started, on the wall clock.
const BOOT_UNIX: u64 = 1_700_000_000_000_000_000;
const NCCL: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)";

/// A rank as CUPTI sees it: thread `pid`, its device 0 with one stream, and operations by start and end.
fn rank(pid: u32, number: Option<(u32, u32)>, uuid: &str, ops: &[(&str, u64, u64)]) -> Trace {
    let mut trace = Trace::default();
    let mut text = |text: &str| trace.strings.intern(text);
    let (kernel, runtime, launch) = (text(cat::KERNEL), text(cat::CUDA_RUNTIME), text("launch"));
    let keys = [arg::DEVICE, arg::STREAM, arg::CORRELATION].map(&mut text);
    let (gpu, stream, name, ac2g) = (
        text("GPU 0 (H200)"),
        text("stream 7"),
        text("train"),
        text("ac2g"),
    );
    for (pid, name) in [(Pid(pid), name), (Pid::of_device(0), gpu)] {
        trace.processes.push(Process { pid, name, sort: 0 });
    }
    for (pid, tid, name, kind) in [
        (Pid(pid), Tid(pid), name, TrackKind::Thread),
        (
            Pid::of_device(0),
            Tid(0xC000_0000),
            stream,
            TrackKind::Synthetic,
        ),
    ] {
        trace.tracks.push(Track {
            pid,
            tid,
            name,
            sort: 0,
            kind,
        });
    }
    let time = TraceTime::from_nanos;
    for (id, &(name, start, end)) in (1..).zip(ops) {
        let name = trace.strings.intern(name);
        trace.slices.push(Slice {
            track: TrackId(0),
            name: launch,
            cat: runtime,
            span: Interval::new(time(start - 2), time(start - 1)),
            args: Box::new([(keys[2], Value::U64(id))]),
        });
        trace.slices.push(Slice {
            track: TrackId(1),
            name,
            cat: kernel,
            span: Interval::new(time(start), time(end)),
            args: Box::new([
                (keys[0], Value::U64(0)),
                (keys[1], Value::U64(7)),
                (keys[2], Value::U64(id)),
            ]),
        });
        let at = |track, at| FlowEnd {
            track: TrackId(track),
            at: time(at),
        };
        trace.flows.push(Flow {
            id,
            name: ac2g,
            cat: ac2g,
            from: at(0, start - 2),
            to: at(1, start),
        });
    }
    trace.meta = Meta {
        name: "train".into(),
        start_mono: MonoTime::from_nanos(1_000),
        start_unix_ns: BOOT_UNIX + 1_000,
        end: time(10_000),
        pid: Pid(pid),
        boot: "b".into(),
        devices: vec![DeviceInfo {
            name: "H200".into(),
            uuid: uuid.into(),
            ..DeviceInfo::default()
        }],
        distributed: number.map(|(rank, world_size)| DistributedInfo { rank, world_size }),
        ..Meta::default()
    };
    trace.sort();
    trace
}

fn joined(traces: Vec<Trace>) -> Trace {
    let part = |(n, trace): (usize, Trace)| Part {
        label: format!("/runs/{n}.json"),
        trace,
    };
    merge_job(traces.into_iter().enumerate().map(part).collect()).unwrap()
}

/// What marks loops of process `pid` beside what records its device: a step and the end of the epoch, of which
/// the last one did not end.
fn loops(pid: u32, ends: &[(&str, u64)]) -> Trace {
    let mut trace = rank(pid, None, "", &[]);
    trace.meta.devices.clear();
    trace.meta.end = TraceTime::from_nanos(50_000);
    for (n, &(cat, end)) in ends.iter().enumerate() {
        let cat = trace.strings.intern(cat);
        let key = trace.strings.intern(arg::UNFINISHED);
        let open = (key, Value::Bool(true));
        trace.slices.push(Slice {
            track: TrackId(0),
            name: cat,
            cat,
            span: Interval::new(TraceTime::from_nanos(9_000), TraceTime::from_nanos(end)),
            args: match n + 1 == ends.len() {
                true => Box::new([open]),
                false => Box::new([]),
            },
        });
    }
    trace.sort();
    trace
}

#[test]
fn a_recording_ends_with_the_last_step_that_was_seen_to_end() {
    let ends = [
        (cat::STEP, 10_015),
        (cat::EPOCH_END, 12_000),
        (cat::DATA_WAIT, 50_000),
    ];
    let of = |pid: u32, ends: &[(&str, u64)]| {
        let device = rank(7, None, "GPU-a", &[("gemm", 100, 200)]);
        joined(vec![device, loops(pid, ends)]).meta.end
    };
    assert_eq!(of(7, &ends), TraceTime::from_nanos(12_000));
    // Not of what another process does, nor of what had not ended.
    assert_eq!(of(8, &ends), TraceTime::from_nanos(10_000));
    assert_eq!(of(7, &ends[2..]), TraceTime::from_nanos(10_000));
}

/// Device, stream and correlation of each operation, and its process.
fn operations(trace: &Trace) -> Vec<[u64; 4]> {
    let kernel = trace.strings.find(cat::KERNEL).unwrap();
    let of = trace.slices.iter().filter(|slice| slice.cat == kernel);
    let number = |slice: &Slice, key| trace.arg_u64(&slice.args, key).unwrap();
    of.map(|slice| {
        let pid = trace.track(slice.track).unwrap().pid.0;
        let [device, stream, id] =
            [arg::DEVICE, arg::STREAM, arg::CORRELATION].map(|key| number(slice, key));
        [device, stream, id, u64::from(pid - Pid::FIRST_DEVICE)]
    })
    .collect()
}

#[test]
fn two_ranks_that_call_their_devices_0_have_two_devices() {
    let ops = [("gemm", 100, 200), ("gemm", 300, 400)];
    let trace = joined(vec![
        rank(7, Some((0, 2)), "GPU-a", &ops),
        rank(8, Some((1, 2)), "GPU-b", &ops),
    ]);
    let ops = operations(&trace);
    let of = |device| {
        ops.iter()
            .filter(|op| op[0] == device)
            .map(|op| op[2])
            .collect::<Vec<_>>()
    };
    assert_eq!((of(0), of(1)), (vec![1, 2], vec![3, 4]));
    assert!(
        ops.iter().all(|op| op[0] == op[3]),
        "a device has a process of its own: {ops:?}"
    );
    // Arrows go on joining what they joined.
    let mut arrows: Vec<u64> = trace.flows.iter().map(|flow| flow.id).collect();
    arrows.sort_unstable();
    assert_eq!(arrows, [1, 2, 3, 4]);
    let names: Vec<&str> = trace.processes.iter().map(|p| trace.text(p.name)).collect();
    for name in [
        "train (rank 0)",
        "train (rank 1)",
        "GPU 0 (H200)",
        "GPU 1 (H200)",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let ranks: Vec<_> = trace
        .meta
        .members
        .iter()
        .map(|of| (of.pid.0, of.devices.clone()))
        .collect();
    assert_eq!(ranks, [(7, vec![0]), (8, vec![1])]);
    assert_eq!(trace.meta.devices.len(), 2);
}

#[test]
fn a_worker_with_the_environment_of_its_rank_is_no_rank() {
    let ops = [("gemm", 100, 200)];
    let trace = joined(vec![
        rank(9, Some((0, 2)), "GPU-a", &ops),
        rank(7, Some((0, 2)), "", &[]),
        rank(8, Some((1, 2)), "", &[]),
    ]);
    let pids: Vec<u32> = trace.meta.members.iter().map(|of| of.pid.0).collect();
    assert_eq!(pids, [8, 9]);
}

#[test]
fn two_processes_on_one_card_share_its_device_and_keep_their_streams() {
    let ops = [("gemm", 100, 200)];
    let trace = joined(vec![
        rank(7, None, "GPU-a", &ops),
        rank(8, None, "GPU-a", &ops),
    ]);
    let mut ops = operations(&trace);
    ops.sort_unstable();
    assert_eq!(ops, [[0, 7, 1, 0], [0, 15, 2, 0]]);
    let devices = trace
        .processes
        .iter()
        .filter(|of| of.pid.is_device())
        .count();
    assert_eq!((devices, trace.meta.devices.len()), (1, 1));
    assert!(
        trace
            .tracks
            .iter()
            .any(|of| trace.text(of.name) == "stream 7 of 8")
    );
    assert!(
        trace
            .meta
            .members
            .iter()
            .all(|member| member.devices == [0])
    );
}

#[test]
fn devices_have_the_numbers_of_the_machine_where_those_were_read() {
    let mut counters = rank(1, None, "", &[]);
    counters.meta.devices = ["GPU-b", "GPU-a"]
        .into_iter()
        .zip(0..)
        .map(|(uuid, id)| DeviceInfo {
            id,
            uuid: uuid.into(),
            ..DeviceInfo::default()
        })
        .collect();
    counters.processes.clear();
    counters.tracks.clear();
    let trace = joined(vec![
        rank(7, None, "GPU-a", &[("gemm", 100, 200)]),
        counters,
    ]);
    assert_eq!(operations(&trace), [[1, 7, 1, 1]]);
    assert!(
        trace.meta.members.is_empty(),
        "one process alone is no job of several"
    );
}

#[test]
fn what_one_process_did_not_record_is_said_of_it() {
    let pause = |mut trace: Trace| {
        let pause = trace.strings.intern(cat::PAUSE);
        let time = TraceTime::from_nanos;
        let span = Interval::new(time(500), time(600));
        trace.slices.push(Slice {
            track: TrackId(0),
            name: pause,
            cat: pause,
            span,
            args: Box::default(),
        });
        trace
    };
    let ops = [("gemm", 100, 200)];
    let trace = joined(vec![
        rank(7, Some((0, 2)), "GPU-a", &ops),
        pause(rank(8, Some((1, 2)), "GPU-b", &ops)),
    ]);
    let pause = trace.strings.find(cat::PAUSE).unwrap();
    let pause = trace
        .slices
        .iter()
        .find(|slice| slice.cat == pause)
        .unwrap();
    assert_eq!(trace.arg_u64(&pause.args, arg::PROCESS), Some(8));
}

/// Ten collectives, `late` nanoseconds later than on the other machine's clock.
fn collectives(late: i64) -> Vec<(&'static str, u64, u64)> {
    let at = |n: u64| (1_000_000 + n * 100_000).saturating_add_signed(late);
    (0..10)
        .map(|n| (NCCL, at(n), at(n) + 50_000 + n % 3))
        .collect()
}

fn foreign(mut trace: Trace) -> Trace {
    trace.meta.start_mono = MonoTime::default();
    trace.meta.boot = String::new();
    trace.meta.recorder = "kineto".into();
    trace
}

#[test]
fn clocks_of_two_machines_are_set_by_the_ends_of_collectives() {
    for (late, moved) in [(3_000_000, true), (-700_000, true), (4_000, false)] {
        let trace = joined(vec![
            foreign(rank(7, Some((0, 2)), "", &collectives(0))),
            foreign(rank(7, Some((1, 2)), "", &collectives(late))),
        ]);
        let kernel = trace.strings.find(cat::KERNEL).unwrap();
        let ends = |device| -> Vec<u64> {
            let of = trace.slices.iter().filter(|slice| slice.cat == kernel);
            let of = of.filter(|of| trace.arg_u64(&of.args, arg::DEVICE) == Some(device));
            of.map(|slice| slice.span.end.as_nanos()).collect()
        };
        let apart = ends(0)[0].abs_diff(ends(1)[0]);
        assert_eq!(apart, if moved { 0 } else { late.unsigned_abs() });
        let notes = trace.meta.notes.join("\n");
        assert_eq!(
            notes.contains("The clock of 1.json was moved by "),
            moved,
            "{notes}"
        );
        // One process id of two machines is two processes.
        let pids: Vec<u32> = trace.meta.members.iter().map(|of| of.pid.0).collect();
        assert_eq!(pids.len(), 2);
        assert_ne!(pids[0], pids[1]);
    }
}

#[test]
fn without_common_collectives_the_wall_clock_stands_and_a_note_says_so() {
    let trace = joined(vec![
        foreign(rank(7, Some((0, 2)), "", &collectives(0))),
        foreign(rank(8, Some((1, 2)), "", &[("gemm", 100, 200)])),
    ]);
    assert!(
        trace
            .meta
            .notes
            .join("\n")
            .contains("by the wall clocks alone")
    );
    let mut clockless = foreign(rank(8, Some((1, 2)), "", &[]));
    clockless.meta.start_unix_ns = 0;
    let parts = [rank(7, None, "", &[]), clockless].map(|trace| Part {
        label: "x".into(),
        trace,
    });
    assert!(matches!(
        merge_job(parts.into()),
        Err(MergeError::NoClock { .. })
    ));
    assert_eq!(merge_job(Vec::new()).unwrap_err(), MergeError::TooFew);
}

#[test]
fn many_ranks_are_joined_without_a_clash() {
    let ops: Vec<_> = (0..50)
        .map(|n| ("gemm", 100 + n * 10, 105 + n * 10))
        .collect();
    let ranks = (0..64).map(|n| rank(100 + n, Some((n, 64)), &format!("GPU-{n}"), &ops));
    let trace = joined(ranks.collect());
    let mut ids: Vec<u64> = operations(&trace).iter().map(|op| op[2]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 64 * 50);
    assert_eq!(trace.meta.members.len(), 64);
    let devices: std::collections::BTreeSet<u64> =
        operations(&trace).iter().map(|op| op[0]).collect();
    assert_eq!(devices.len(), 64);
}

#[test]
fn a_rank_that_is_in_a_joined_recording_already_is_refused() {
    let ops = [("gemm", 100, 200)];
    let ranks = || [0, 1].map(|n| rank(7 + n, Some((n, 2)), ["GPU-a", "GPU-b"][n as usize], &ops));
    let part = |label: &str, trace| Part {
        label: label.to_owned(),
        trace,
    };
    let both = joined(ranks().to_vec());
    let [_, one] = ranks();
    for parts in [
        vec![part("both", both.clone()), part("one", one.clone())],
        vec![part("one", one.clone()), part("both", both.clone())],
    ] {
        let error = merge_job(parts).unwrap_err();
        assert!(matches!(&error, MergeError::Within { .. }), "{error}");
        assert!(
            error.to_string().starts_with("both holds one already"),
            "{error}"
        );
    }
}
