//! Traces of several ranks on the command line.

use crate::program::{folder, gpustall, stderr, stdout};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{
    DeviceInfo, DistributedInfo, EventRef, Interval, Meta, MonoTime, PartialWriter, Pid, Tid,
    TraceTime, TrackKind, ValueRef,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const NCCL: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// What PyTorch's profiler writes of a rank, whose clock is `ahead_us`: ten steps of 1 ms, of which
/// rank 1 computes 700 us and the others 300 us before all reduce until 800 us.
fn profile(folder: &Path, rank: u32, ahead_us: u64) -> PathBuf {
    let mut events = Vec::new();
    let pid = 500 + rank;
    let mut slice = |cat: &str, name: &str, span: (u64, u64), id: u64, device: bool| {
        let (start, end) = span;
        let on = if device {
            (json!(0), json!(7))
        } else {
            (json!(pid), json!(pid))
        };
        let args = match (id, device) {
            (0, _) => json!({}),
            (id, false) => json!({"correlation": id}),
            (id, true) => json!({"correlation": id, "device": 0, "stream": 7}),
        };
        events.push(json!({
            "ph": "X", "cat": cat, "name": name, "pid": on.0, "tid": on.1,
            "ts": start + ahead_us, "dur": end - start, "args": args,
        }));
    };
    for step in 0..10 {
        let (at, id) = (1_000 + step * 1_000, step * 3 + 1);
        let busy = if rank == 1 { 700 } else { 300 };
        slice(
            "user_annotation",
            &format!("ProfilerStep#{step}"),
            (at, at + 1_000),
            0,
            false,
        );
        let ops = [
            ("gemm", (at + 3, at + busy)),
            (NCCL, (at + busy, at + 800)),
            ("add", (at + 800, at + 1_000)),
        ];
        for (id, (name, span)) in (id..).zip(ops) {
            slice(
                "cuda_runtime",
                "cudaLaunchKernel",
                (span.0 - 2, span.0 - 1),
                id,
                false,
            );
            slice("kernel", name, span, id, true);
        }
    }
    let trace = json!({
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 1_790_857_026_000_000_000_u64,
        "traceEvents": events,
    });
    let path = folder.join(format!("ddp-rank{rank}.pt.trace.json"));
    std::fs::write(&path, trace.to_string()).expect("the folder takes files");
    path
}

#[test]
fn files_of_the_ranks_of_one_job_are_one_report() {
    let dir = folder();
    let (one, two) = (profile(dir.path(), 0, 0), profile(dir.path(), 1, 0));
    let output = gpustall(&["report"], &[&two, &one]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.contains("(ranks 0, 1 of 2) <==\nddp: "), "{text}");
    assert!(
        text.contains("GPU 1 (rank 1) had not begun the collective"),
        "{text}"
    );

    let output = gpustall(&["report", "--json"], &[&one, &two]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(list[0]["traces"][1], two.display().to_string());
    let report = &list[0]["report"];
    // Rank 0 waits 400 us of each step.
    assert_eq!(
        report["devices"][0]["charges_ns"]["comm.straggler"],
        4_000_000
    );
    assert_eq!(
        report["devices"][1]["charges_ns"]["comm.straggler"],
        Value::Null
    );
    assert_eq!(report["ranks"][1]["last_in"], 10);
    assert_eq!(report["ranks"][1]["late_by_ns"]["compute"], 4_000_000);
}

#[test]
fn a_clock_that_is_off_changes_nothing_but_a_note() {
    let dir = folder();
    let (one, two) = (profile(dir.path(), 0, 0), profile(dir.path(), 1, 350));
    let output = gpustall(&["report", "--json"], &[&one, &two]);
    let list: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let report = &list[0]["report"];
    assert_eq!(
        report["devices"][0]["charges_ns"]["comm.straggler"],
        4_000_000
    );
    let notes = report["notes"].to_string();
    assert!(notes.contains("moved by -350 us"), "{notes}");
}

#[test]
fn files_that_do_not_belong_together_are_reported_one_after_the_other() {
    let dir = folder();
    // An hour later.
    let (one, two) = (
        profile(dir.path(), 0, 0),
        profile(dir.path(), 1, 3_600_000_000),
    );
    let missing = dir.path().join("none.json");
    let output = gpustall(&["report"], &[&one, &missing, &two]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert_eq!(text.matches("==> ").count(), 2, "{text}");
    assert!(text.contains("This is rank 1 of a job of 2."), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.json"));
}

#[test]
fn ranks_are_merged_into_one_trace_that_says_the_same() {
    let dir = folder();
    let (one, two) = (profile(dir.path(), 0, 0), profile(dir.path(), 1, 0));
    let merged = dir.path().join("job.trace.json.gz");
    let merged_arg = merged.display().to_string();
    let output = gpustall(&["merge", "-o", &merged_arg], &[&one, &two]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = gpustall(&["report", "--json"], &[&merged]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(
        report["devices"][0]["charges_ns"]["comm.straggler"],
        4_000_000
    );
    assert_eq!(report["ranks"].as_array().map(Vec::len), Some(2));
}

/// What the library in a process of a job leaves: its device 0, which is a card of its own. Rank 1
/// computes 700 us of each ms and the others 300 us before all reduce until 800 us.
fn captured(folder: &Path, rank: u32) {
    let pid = Pid(500 + rank);
    let device = Pid::of_device(0);
    let path = folder.join(format!("train.{pid}.json.partial"));
    let meta = Meta {
        name: "train".into(),
        start_mono: MonoTime::from_nanos(9_000_000 + u64::from(rank) * 50_000),
        pid,
        boot: "b".into(),
        distributed: Some(DistributedInfo {
            rank,
            world_size: 2,
        }),
        devices: vec![DeviceInfo {
            name: "H200".into(),
            uuid: format!("GPU-{rank}"),
            ..DeviceInfo::default()
        }],
        ..Meta::default()
    };
    let mut file = PartialWriter::create(&path, &meta).expect("the folder takes files");
    for (pid, name) in [(pid, "train"), (device, "GPU 0 (H200)")] {
        file.push(&EventRef::Process { pid, name, sort: 0 });
    }
    let stream = Tid(0xC000_0000);
    for (pid, tid, name, kind) in [
        (pid, Tid(pid.0), "python", TrackKind::Thread),
        (device, stream, "stream 7", TrackKind::Synthetic),
    ] {
        file.push(&EventRef::Track {
            pid,
            tid,
            name,
            sort: 0,
            kind,
        });
    }
    let mut slice = |(pid, tid), cat, name: &str, span: (u64, u64), args: &[_]| {
        // The processes did not begin to record at the same time.
        let time = |us: u64| TraceTime::from_nanos(us * 1_000 - u64::from(rank) * 50_000);
        let span = Interval::new(time(span.0), time(span.1));
        file.push(&EventRef::Slice {
            pid,
            tid,
            name,
            cat,
            span,
            args,
        });
    };
    for step in 0..20 {
        let (at, id) = (1_000 + step * 1_000, step * 3 + 1);
        let busy = if rank == 1 { 700 } else { 300 };
        let ops = [
            ("gemm", (at + 3, at + busy)),
            (NCCL, (at + busy, at + 800)),
            ("add", (at + 800, at + 1_000)),
        ];
        for (id, (name, span)) in (id..).zip(ops) {
            let id = (arg::CORRELATION, ValueRef::U64(id));
            let call = (span.0 - 2, span.0 - 1);
            slice(
                (pid, Tid(pid.0)),
                cat::CUDA_RUNTIME,
                "cudaLaunchKernel",
                call,
                &[id],
            );
            let args = [
                (arg::DEVICE, ValueRef::U64(0)),
                (arg::STREAM, ValueRef::U64(7)),
                id,
            ];
            slice((device, stream), cat::KERNEL, name, span, &args);
        }
    }
    file.flush().expect("the folder takes files");
}

#[test]
fn all_processes_of_a_job_are_in_its_trace() {
    let dir = folder();
    let left = dir.path().join("left");
    std::fs::create_dir(&left).expect("the folder takes folders");
    for rank in [0, 1] {
        captured(&left, rank);
    }
    let trace = dir.path().join("job.trace.json.gz");
    let trace_arg = trace.display().to_string();
    // As if the driver had loaded the library into two processes of it.
    let job = format!("cp {}/* \"$GPUSTALL_OUTPUT\"", left.display());
    let args = [
        "run",
        "--no-sidecar",
        "-o",
        &trace_arg,
        "--",
        "sh",
        "-c",
        &job,
    ];
    let output = gpustall(&args, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = gpustall(&["report", "--json"], &[&trace]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["devices"][0]["name"], "GPU 0 (rank 0)");
    assert_eq!(report["devices"][1]["name"], "GPU 1 (rank 1)");
    assert_eq!(
        report["devices"][0]["charges_ns"]["comm.straggler"],
        20 * 400_000
    );
    assert_eq!(report["ranks"][1]["last_in"], 20);
    assert_eq!(report["findings"][0]["cause"], "comm.straggler");
}
