//! The findings as they are drawn into the trace.

mod common;

use common::kernel::{blocked, preempted};
use common::{Builder, in_process, with_workers};
use gpustall_diagnose::{MAX_DRAWN_STALLS, TRACK_NAME, annotate, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{Interval, Nanos, Slice, Trace, TraceTime, TrackId};

fn annotated(mut trace: Trace) -> Trace {
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    trace
}

fn drawn(trace: &Trace) -> Vec<&Slice> {
    trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::FINDING)
        .collect()
}

/// Everything in a trace that can be compared, with names for numbers.
fn contents(trace: &Trace) -> String {
    let mut text = format!("{:?} {:?}", trace.meta, trace.report);
    for slice in &trace.slices {
        let args: Vec<_> = slice
            .args
            .iter()
            .map(|&(key, value)| (trace.text(key), value))
            .collect();
        text += &format!(
            "{:?} {} {:?} {args:?}\n",
            slice.track,
            trace.text(slice.name),
            slice.span
        );
    }
    text + &format!("{:?} {:?} {:?}", trace.flows, trace.tracks, trace.processes)
}

#[test]
fn each_stall_is_a_slice_whose_chain_partitions_it() {
    let trace = annotated(with_workers(50, 7000, 12_000));
    let drawn = drawn(&trace);
    let (stalls, pieces): (Vec<&Slice>, Vec<&Slice>) = drawn
        .into_iter()
        .partition(|slice| trace.text(slice.name).starts_with("starved: "));
    assert_eq!(stalls.len(), 49);
    assert_eq!(trace.text(stalls[0].name), "starved: data 7.00 ms");
    assert_eq!(trace.arg_u64(&stalls[0].args, "step"), Some(1));
    assert_eq!(trace.arg_str(&stalls[0].args, "cause"), Some("data"));
    for stall in stalls {
        let mut at = stall.span.start;
        for piece in pieces.iter().filter(|p| stall.span.contains(p.span.start)) {
            assert_eq!(piece.span.start, at);
            at = piece.span.end;
        }
        assert_eq!(at, stall.span.end);
    }
    assert!(
        pieces
            .iter()
            .any(|piece| trace.text(piece.name) == "get on dataloader-1")
    );
    let track = trace.track(pieces[0].track).expect("the track is there");
    assert_eq!(trace.text(track.name), TRACK_NAME);
    assert!(track.pid.is_synthetic());
}

fn inside(trace: &Trace, track: TrackId, at: TraceTime, what: &str) -> bool {
    let on_track = trace.slices.iter().filter(|slice| slice.track == track);
    on_track
        .filter(|slice| slice.span.contains(at))
        .any(|slice| trace.text(slice.cat) == what)
}

#[test]
fn arrows_lead_from_the_chain_into_the_wait_and_the_stages() {
    for (trace, to_worker) in [
        (with_workers(50, 7000, 12_000), true),
        (in_process(50, 7000, 97), false),
    ] {
        let trace = annotated(trace);
        let of_finding = || {
            trace
                .flows
                .iter()
                .filter(|flow| trace.text(flow.cat) == cat::FINDING)
        };
        assert!(of_finding().count() > 0);
        let mut ids: Vec<u64> = of_finding().map(|flow| flow.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), of_finding().count());
        for flow in of_finding() {
            assert!(flow.from.at <= flow.to.at);
            assert!(inside(&trace, flow.from.track, flow.from.at, cat::FINDING));
            let at = (flow.to.track, flow.to.at);
            let stages = [cat::DATA_GET, cat::DATA_COLLATE, cat::DATA_WAIT];
            assert!(stages.iter().any(|stage| inside(&trace, at.0, at.1, stage)));
        }
        let name = |track: TrackId| {
            trace
                .track(track)
                .map_or("", |track| trace.text(track.name))
        };
        assert!(of_finding().any(|flow| name(flow.to.track) == "main"));
        assert_eq!(
            of_finding().any(|flow| name(flow.to.track) == "dataloader-1"),
            to_worker
        );
    }
}

#[test]
fn a_second_call_changes_nothing_and_the_diagnosis_does_not_see_the_first() {
    let once = annotated(with_workers(50, 7000, 12_000));
    assert_eq!(diagnose(&once), diagnose(&with_workers(50, 7000, 12_000)));
    let twice = annotated(once.clone());
    assert_eq!(contents(&once), contents(&twice));
}

#[test]
fn the_report_is_embedded() {
    let trace = annotated(with_workers(50, 7000, 12_000));
    let report = trace.report.clone().expect("it was embedded");
    let report: gpustall_diagnose::Report = serde_json::from_value(report).expect("it is ours");
    assert_eq!(report, diagnose(&trace));
}

#[test]
fn a_healthy_trace_gets_no_track() {
    let plain = with_workers(50, 400, 1200);
    let trace = annotated(plain.clone());
    assert_eq!(trace.tracks, plain.tracks);
    assert_eq!(trace.processes, plain.processes);
    assert_eq!(trace.slices.len(), plain.slices.len());
    assert!(trace.report.is_some());
}

#[test]
fn two_trainers_have_a_track_each() {
    let mut b = Builder::new();
    let threads = [b.thread(100, "rank 0"), b.thread(101, "rank 1")];
    for step in 0..10 {
        let at = step * 10_000;
        for (i, &thread) in threads.iter().enumerate() {
            b.step("train", 0, step, 100 + i as u32, (at, at + 10_000));
            b.wait(thread, "train", (0, step), None, (at, at + 4000 + i as u64));
        }
    }
    let trace = annotated(b.build(100_000));
    let names: Vec<&str> = trace
        .tracks
        .iter()
        .map(|track| trace.text(track.name))
        .collect();
    assert!(names.contains(&"starvation chains: rank 0"));
    assert!(names.contains(&"starvation chains: rank 1"));
    for (i, slice) in drawn(&trace).iter().enumerate() {
        let others = drawn(&trace)
            .into_iter()
            .skip(i + 1)
            .filter(|s| s.track == slice.track);
        for other in others {
            let both: Interval = other.span.intersection(slice.span);
            assert!(
                both.is_empty() || both == other.span,
                "slices of one track nest"
            );
        }
    }
}

#[test]
fn what_is_left_out_is_said() {
    let steps = MAX_DRAWN_STALLS as u64 + 101;
    let trace = annotated(with_workers(steps, 7000, 1000));
    let stalls: Vec<&Slice> = drawn(&trace)
        .into_iter()
        .filter(|slice| trace.text(slice.name).starts_with("starved: "))
        .collect();
    assert_eq!(stalls.len(), MAX_DRAWN_STALLS);
    assert_eq!(trace.arg_u64(&stalls[0].args, "left_out"), Some(100));
    assert!(
        stalls
            .iter()
            .all(|stall| stall.span.len() >= Nanos::new(7_000_000))
    );
}

/// Twenty steps of 10 ms with a wait of 6 ms, in which the worker runs, has no CPU, and is blocked
/// in a read for most of the time.
fn with_states() -> Trace {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..20 {
        let at = 100_000 + step * 10_000;
        b.step("train", 0, step + 1, 100, (at, at + 10_000));
        b.wait(
            main,
            "train",
            (0, step + 1),
            Some((step, 101)),
            (at, at + 6_000),
        );
        b.stage(worker, cat::DATA_GET, step, None, (at, at + 6_000));
        b.off(101, preempted("spinner", 900), (at + 500, at + 1_500));
        b.off(
            101,
            blocked("file read", "filemap_read"),
            (at + 2_000, at + 2_500),
        );
        b.off(
            101,
            blocked("file read", "filemap_read"),
            (at + 3_000, at + 5_500),
        );
    }
    for tid in [100, 101] {
        b.watch(tid, (0, 300_000), &[]);
    }
    b.build(300_000)
}

#[test]
fn an_arrow_reaches_the_worst_stretch_off_cpu_of_each_stall() {
    let mut trace = with_states();
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    assert_eq!(diagnose(&trace), report);
    let lane = trace
        .slices
        .iter()
        .find(|slice| trace.text(slice.cat) == cat::OFF_CPU);
    let lane = lane.expect("there are intervals").track;
    let reached: Vec<&Slice> = trace
        .flows
        .iter()
        .filter(|flow| flow.to.track == lane)
        .filter_map(|flow| {
            let mut around = trace.slices.iter().filter(|slice| slice.track == lane);
            around.find(|slice| slice.span.contains(flow.to.at))
        })
        .collect();
    let long = |slice: &&&Slice| slice.span.len().get() == 2_500_000;
    assert_eq!(
        reached.iter().filter(long).count(),
        20,
        "one for each read of 2.5 ms"
    );
    // The other reads of the same stalls are not the worst.
    assert!(
        reached
            .iter()
            .all(|slice| slice.span.len().get() != 500_000)
    );
}

#[test]
fn the_parts_of_stalls_of_several_causes_do_not_overlap() {
    let mut trace = with_states();
    let report = diagnose(&trace);
    annotate(&mut trace, &report);
    let mut drawn: Vec<&Slice> = trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::FINDING)
        .filter(|slice| trace.text(slice.name).starts_with("starved"))
        .collect();
    drawn.sort_by_key(|slice| slice.span.start);
    assert!(drawn.len() > 60);
    let disjoint = drawn
        .windows(2)
        .all(|two| two[0].span.end <= two[1].span.start);
    assert!(disjoint);
}
