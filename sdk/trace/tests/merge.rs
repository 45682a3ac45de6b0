//! Several recordings of one job as one: nothing is lost, nothing is mixed up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kernel;
mod sample;

use gpustall_trace::vocab::{arg, cat, host, totals};
use gpustall_trace::*;
use kernel::{sleep, time};
use proptest::prelude::*;
use sample::any_trace;

/// When the machine of these tests was started, on the wall clock.
const BOOT_UNIX: u64 = 1_700_000_000_000_000_000;

fn at(mut trace: Trace, start_mono: u64, length: u64, recorder: &str) -> Trace {
    trace.meta.start_mono = MonoTime::from_nanos(start_mono);
    trace.meta.start_unix_ns = BOOT_UNIX + start_mono;
    trace.meta.end = time(length);
    trace.meta.recorder = recorder.into();
    trace
}

fn part(label: &str, trace: Trace) -> Part {
    let label = label.into();
    Part { label, trace }
}

/// What the SDK records: thread 11 of process 7, a batch, a counter, a loss.
fn sdk(start_mono: u64) -> Trace {
    let mut trace = Trace::default();
    trace.meta.pid = Pid(7);
    trace.meta.name = "mlp".into();
    let mut text = |text: &str| trace.strings.intern(text);
    let (trainer, steps, main) = (text("trainer"), text("steps"), text("main thread"));
    let (wait, batch, lost, depth) = (
        text(cat::DATA_WAIT),
        text(arg::BATCH),
        text("ring"),
        text("depth"),
    );
    let group = Pid(Pid::SYNTHETIC);
    for (pid, name) in [(Pid(7), trainer), (group, steps)] {
        trace.processes.push(Process { pid, name, sort: 0 });
    }
    for (pid, tid, kind) in [
        (Pid(7), 11, TrackKind::Thread),
        (group, 0xF000_0001, TrackKind::Synthetic),
    ] {
        let (tid, name, sort) = (Tid(tid), main, 0);
        trace.tracks.push(Track {
            pid,
            tid,
            name,
            sort,
            kind,
        });
    }
    trace.slices.push(Slice {
        track: TrackId(0),
        name: wait,
        cat: wait,
        span: Interval::new(time(100), time(300)),
        args: Box::new([(batch, Value::U64(4))]),
    });
    let end = |at| FlowEnd {
        track: TrackId(0),
        at: time(at),
    };
    trace.flows.push(Flow {
        id: 4,
        name: batch,
        cat: batch,
        from: end(110),
        to: end(120),
    });
    trace.async_slices.push(AsyncSlice {
        pid: Pid(7),
        name: batch,
        cat: batch,
        id: 4,
        span: Interval::new(time(100), time(150)),
        args: Box::default(),
    });
    trace.losses.push(Loss {
        source: lost,
        at: time(10),
        total: 3,
    });
    trace.counter_series.push(CounterSeries {
        pid: Pid(7),
        name: depth,
    });
    trace.counters.push(CounterSample {
        series: 0,
        at: time(10),
        value: 1.0,
    });
    trace.report = Some(serde_json::json!({"old": true}));
    at(trace, start_mono, 1_000, "0.1.0")
}

/// What the sidecar records: threads 11 and 12 with their lanes, totals, the host.
fn record(start_mono: u64) -> Trace {
    let mut trace = kernel::trace(&[sleep(11, 600, 50), sleep(12, 610, 50)]);
    let name = trace.strings.intern(host::PROCESS);
    trace.processes.push(Process {
        pid: Pid(host::PID),
        name,
        sort: 0,
    });
    trace.counter_series.push(CounterSeries {
        pid: Pid(host::PID),
        name,
    });
    for (sort, track) in (0..).zip(&mut trace.tracks) {
        track.sort = sort;
    }
    let (of, first) = (
        trace.strings.intern(cat::THREAD_TOTALS),
        trace.strings.intern(totals::FIRST_NS),
    );
    trace.instants.push(Instant {
        track: TrackId(1),
        name: of,
        cat: of,
        at: time(900),
        args: Box::new([(first, Value::U64(20))]),
    });
    at(trace, start_mono, 2_000, "gpustall-sidecar 0.1.0")
}

#[test]
fn a_recording_of_the_kernel_is_set_beside_the_threads_of_the_sdk() {
    let merged = merge(vec![part("a", sdk(5_000)), part("b", record(4_400))]).unwrap();
    let meta = &merged.meta;
    assert_eq!((meta.name.as_str(), meta.pid), ("mlp", Pid(7)));
    assert_eq!(meta.recorder, "0.1.0 + gpustall-sidecar 0.1.0");
    assert_eq!(meta.start_mono, MonoTime::from_nanos(4_400));
    assert_eq!(meta.start_unix_ns, BOOT_UNIX + 4_400);
    // That of the first recording, 600 ns later.
    assert_eq!(meta.end, time(1_600));
    assert_eq!(merged.report, None);

    let named = |tid| {
        merged
            .tracks
            .iter()
            .position(|track| track.tid == Tid(tid))
            .unwrap()
    };
    let (main, lane) = (
        &merged.tracks[named(11)],
        &merged.tracks[named(0xD000_0000 + 11)],
    );
    assert_eq!(merged.text(main.name), "main thread");
    assert_eq!(lane.sort, main.sort + 1, "the lane is beside its thread");
    assert!(merged.tracks[named(12)].sort > lane.sort);
    let threads = merged
        .tracks
        .iter()
        .filter(|track| track.kind == TrackKind::Thread);
    assert_eq!(threads.count(), 2);

    let wait = merged
        .slices
        .iter()
        .find(|slice| merged.text(slice.cat) == cat::DATA_WAIT)
        .unwrap();
    assert_eq!(wait.span, Interval::new(time(700), time(900)));
    let off = merged
        .slices
        .iter()
        .find(|slice| merged.text(slice.cat) == cat::OFF_CPU)
        .unwrap();
    assert_eq!(off.span, Interval::new(time(600), time(650)));
    assert_eq!(
        merged.arg_u64(&merged.instants[0].args, totals::FIRST_NS),
        Some(20)
    );
    let host_process = merged
        .processes
        .iter()
        .find(|p| p.pid == Pid(host::PID))
        .unwrap();
    assert_eq!(host_process.sort, i32::MAX);
}

#[test]
fn times_inside_arguments_are_moved_too() {
    let merged = merge(vec![part("a", sdk(4_000)), part("b", record(4_400))]).unwrap();
    assert_eq!(
        merged.arg_u64(&merged.instants[0].args, totals::FIRST_NS),
        Some(420)
    );
}

#[test]
fn what_two_recordings_number_alike_stays_apart() {
    let mut other = sdk(5_200);
    other.meta.recorder = "0.1.1".into();
    let merged = merge(vec![part("a", sdk(5_000)), part("x/b.json", other)]).unwrap();
    let batches: Vec<_> = merged
        .slices
        .iter()
        .map(|s| merged.arg_u64(&s.args, arg::BATCH))
        .collect();
    assert_eq!(batches, [Some(4), Some(9)]);
    assert_eq!(
        merged.flows.iter().map(|f| f.id).collect::<Vec<_>>(),
        [4, 9]
    );
    assert_eq!(
        merged.async_slices.iter().map(|a| a.id).collect::<Vec<_>>(),
        [4, 9]
    );
    // The second group of lanes is another process.
    let groups = merged
        .processes
        .iter()
        .filter(|process| process.pid.is_synthetic());
    assert_eq!(groups.count(), 2);
    let lost = merged.lost_by_source();
    assert_eq!((lost["ring"], lost["ring (b.json)"]), (3, 3));
    let series: Vec<_> = merged
        .counter_series
        .iter()
        .map(|s| merged.text(s.name))
        .collect();
    assert_eq!(series, ["depth", "depth (b.json)"]);
}

#[test]
fn what_cannot_be_merged_is_told_with_what_to_do() {
    let told = |parts: Vec<Trace>| {
        let parts = parts.into_iter().zip(["a.json", "b.json"]);
        let parts = parts.map(|(trace, label)| part(label, trace)).collect();
        merge(parts).unwrap_err().to_string()
    };
    assert!(told(vec![sdk(5_000)]).contains("at least two"));

    let mut foreign = sdk(5_000);
    foreign.meta.start_mono = MonoTime::default();
    let text = told(vec![foreign, record(5_000)]);
    assert!(
        text.starts_with("a.json does not say when") && text.contains("tracing-chrome"),
        "{text}"
    );

    let text = told(vec![sdk(5_000), sdk(5_000)]);
    assert!(text.contains("the same recording"), "{text}");

    let mut other_boot = record(5_000);
    other_boot.meta.start_unix_ns += 90_000_000_000;
    let text = told(vec![sdk(5_000), other_boot]);
    assert!(text.contains("clocks are 90 s apart"), "{text}");

    let text = told(vec![sdk(5_000), record(9_000_000)]);
    assert!(
        text.contains("no moment in common") && text.contains("ended 9 ms before"),
        "{text}"
    );

    let mut other_job = record(5_000);
    other_job
        .tracks
        .iter_mut()
        .for_each(|track| track.pid = Pid(70));
    other_job.meta.pid = Pid(70);
    let text = told(vec![sdk(5_000), other_job]);
    assert!(text.contains("(70) than a.json (7)"), "{text}");
}

#[test]
fn findings_are_left_out_with_their_track() {
    let mut found = sdk(5_000);
    let finding = found.strings.intern(cat::FINDING);
    let (pid, tid, kind) = (
        Pid(Pid::SYNTHETIC + 9),
        Tid(0xF100_0000),
        TrackKind::Synthetic,
    );
    found.processes.push(Process {
        pid,
        name: finding,
        sort: -1,
    });
    found.tracks.insert(
        1,
        Track {
            pid,
            tid,
            name: finding,
            sort: 0,
            kind,
        },
    );
    found.slices.push(Slice {
        track: TrackId(1),
        name: finding,
        cat: finding,
        span: Interval::new(time(0), time(9)),
        args: Box::default(),
    });
    let merged = merge(vec![part("a", found), part("b", record(5_000))]).unwrap();
    let plain = merge(vec![part("a", sdk(5_000)), part("b", record(5_000))]).unwrap();
    assert_eq!(merged.tracks.len(), plain.tracks.len());
    assert_eq!(merged.processes.len(), plain.processes.len());
    assert_eq!(merged.slices.len(), plain.slices.len());
}

/// The slices of a trace by what can be seen of them, `later` than they were.
fn seen(trace: &Trace, later: u64) -> Vec<String> {
    let mut list: Vec<String> = (trace.slices.iter())
        .map(|slice| {
            let track = trace.track(slice.track).unwrap();
            let span = [slice.span.start, slice.span.end].map(|t| t + Nanos::new(later));
            let keys: Vec<_> = slice.args.iter().map(|(key, _)| trace.text(*key)).collect();
            let (name, cat) = (trace.text(slice.name), trace.text(slice.cat));
            format!("{} {name} {cat} {span:?} {keys:?}", trace.text(track.name))
        })
        .collect();
    list.sort();
    list
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_event_of_every_recording_is_there(a in any_trace(), b in any_trace(), later in 1..1_000u64) {
        let a = at(a, 5_000, 1_000_000, "a");
        let b = at(b, 5_000 + later, 1_000_000, "b");
        let merged = merge(vec![part("a", a.clone()), part("b", b.clone())]).unwrap();
        prop_assert_eq!(merged.event_count(), a.event_count() + b.event_count());
        prop_assert_eq!(merged.losses.len(), a.losses.len() + b.losses.len());
        let mut both = seen(&a, 0);
        both.extend(seen(&b, later));
        both.sort();
        prop_assert_eq!(seen(&merged, 0), both);
        let mut ids: Vec<_> = merged.tracks.iter().map(|t| (t.pid, t.tid)).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), merged.tracks.len());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("merged.json");
        write_finished(&path, &merged).unwrap();
        prop_assert_eq!(sample::canonical(&read(&path).unwrap().trace), sample::canonical(&merged));
    }
}
