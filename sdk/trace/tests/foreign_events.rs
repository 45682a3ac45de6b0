//! Each kind of event of other programs, and each way to spell it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;

use foreign::{of, place, read_bytes, read_events};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Pid, Source, Tid, TrackKind};

#[test]
fn ids_may_be_integers_texts_or_negative() {
    let outcome = read_events(
        r#"{"ph":"X","cat":"cpu_op","name":"a","pid":7,"tid":"25738","ts":1,"dur":1},
        {"ph":"X","cat":"cpu_op","name":"b","pid":"7","tid":25738,"ts":3,"dur":1},
        {"ph":"X","cat":"Trace","name":"c","pid":"Spans","tid":"PyTorch Profiler","ts":1,"dur":9},
        {"ph":"X","cat":"overhead","name":"d","pid":-1,"tid":0,"ts":1,"dur":1},
        {"ph":"X","cat":"cpu_op","name":"e","pid":7,"tid":139872345678901,"ts":1,"dur":1},
        {"ph":"X","cat":"cpu_op","name":"f","ts":1,"dur":1}"#,
    );
    assert_eq!(outcome.warnings, [""; 0]);
    let trace = outcome.trace;
    let track = |name: &str| {
        let slice = trace.slices.iter().find(|s| trace.text(s.name) == name);
        *trace.track(slice.unwrap().track).unwrap()
    };
    assert_eq!((track("a").pid, track("a").tid), (Pid(7), Tid(25738)));
    assert_eq!(track("a"), track("b"));
    assert_eq!(track("a").kind, TrackKind::Thread);
    assert!(track("c").pid.is_synthetic() && track("d").pid.is_synthetic());
    assert_eq!(track("c").kind, TrackKind::Synthetic);
    assert_eq!(trace.text(track("c").name), "PyTorch Profiler");
    assert_eq!(track("e").kind, TrackKind::Thread);
    assert_eq!(trace.text(track("e").name), "thread 139872345678901");
    assert_eq!((track("f").pid, track("f").tid), (Pid(0), Tid(0)));
    assert_eq!(trace.meta.pid, Pid(7));
}

#[test]
fn a_process_whose_id_is_that_of_a_device_stays_apart() {
    let outcome = read_events(
        r#"{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}},
        {"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":7,"ts":1,"dur":1},
        {"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":2,"dur":1},
        {"ph":"X","cat":"Kernel","name":"k","pid":1,"tid":"stream 20","ts":2,"dur":1},
        {"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":4,"dur":1,
            "args":{"device":0,"stream":"13"}},
        {"ph":"X","cat":"gpu_user_annotation","name":"step","pid":1,"tid":7,"ts":1,"dur":3},
        {"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":1,"tid":7,"ts":1,"dur":3,
            "args":{"cuda_sync_kind":"Stream Sync","stream":7}}"#,
    );
    let trace = outcome.trace;
    let places: Vec<_> = trace.slices.iter().map(|s| place(&trace, s)).collect();
    for expected in [
        ("python", "thread 7"),
        ("GPU 1", "stream 7"),
        ("GPU 1", "stream 20"),
        ("GPU 0", "stream 13"),
        ("GPU 1", "stream 7 annotations"),
        ("GPU 1", "stream 7 waits"),
    ] {
        assert!(places.contains(&expected), "{expected:?} in {places:?}");
    }
    let sync = of(&trace, cat::CUDA_SYNC).next().unwrap();
    assert_eq!(
        trace.arg_str(&sync.args, arg::SYNC_KIND),
        Some("Stream Sync")
    );
    assert_eq!(trace.arg_u64(&sync.args, arg::DEVICE), Some(1));
}

#[test]
fn begins_and_ends_are_joined_in_the_order_of_their_times() {
    let outcome = read_events(
        r#"{"ph":"E","pid":1,"tid":1,"ts":90},
        {"ph":"B","name":"outer","cat":"app","pid":1,"tid":1,"ts":10},
        {"ph":"E","pid":1,"tid":1,"ts":30},
        {"ph":"B","name":"inner","cat":"app","pid":1,"tid":1,"ts":20},
        {"ph":"B","name":"open","cat":"app","pid":1,"tid":2,"ts":50},
        {"ph":"E","pid":1,"tid":3,"ts":95}"#,
    );
    assert_eq!(outcome.source, Source::Chrome);
    assert_eq!(
        outcome.warnings,
        ["1 ends of slices have no begin and were left out"]
    );
    let trace = outcome.trace;
    assert_eq!(trace.meta.recorder, "chrome");
    let spans: Vec<_> = trace
        .slices
        .iter()
        .map(|s| {
            let (start, end) = (s.span.start.as_nanos(), s.span.end.as_nanos());
            let unfinished = trace.arg(&s.args, arg::UNFINISHED).is_some();
            (trace.text(s.name), start, end, unfinished)
        })
        .collect();
    assert_eq!(
        spans,
        [
            ("outer", 0, 80_000, false),
            ("inner", 10_000, 20_000, false),
            ("open", 40_000, 85_000, true)
        ]
    );
}

#[test]
fn counters_async_slices_and_instants_are_read() {
    let outcome = read_events(
        r#"{"ph":"C","name":"mem","pid":1,"ts":5,"args":{"value":1.5}},
        {"ph":"C","name":"mem","pid":1,"ts":6,"args":{"used":2,"free":3,"unit":"MB"}},
        {"ph":"b","name":"batch","cat":"q","id":"0x1f","pid":1,"ts":5},
        {"ph":"e","name":"batch","cat":"q","id":"0x1f","pid":1,"ts":8},
        {"ph":"b","name":"batch","cat":"q","id2":{"local":"0x1f"},"pid":2,"ts":6},
        {"ph":"i","name":"mark","pid":1,"tid":4,"ts":7,"s":"t"},
        {"ph":"N","name":"object","pid":1,"ts":7},
        {"ph":"C","name":"none","pid":1,"ts":5,"args":{"text":"a"}}"#,
    );
    assert_eq!(
        outcome.warnings,
        ["1 events could not be used and were left out"]
    );
    let trace = outcome.trace;
    let counters: Vec<_> = trace
        .counters
        .iter()
        .map(|c| {
            let name = trace.counter_series[c.series as usize].name;
            (trace.text(name), c.at.as_nanos(), c.value)
        })
        .collect();
    assert_eq!(
        counters,
        [
            ("mem", 0, 1.5),
            ("mem used", 1_000, 2.0),
            ("mem free", 1_000, 3.0)
        ]
    );
    let spans: Vec<_> = trace
        .async_slices
        .iter()
        .map(|a| (a.pid, a.span.start.as_nanos(), a.span.end.as_nanos()))
        .collect();
    assert_eq!(spans, [(Pid(1), 0, 3_000), (Pid(2), 1_000, 3_000)]);
    assert_eq!(trace.instants.len(), 1);
}

#[test]
fn arrows_are_joined_whichever_end_comes_first() {
    let outcome = read_events(
        r#"{"ph":"f","id":5,"cat":"async","name":"launch","pid":0,"tid":"stream 7","ts":4},
        {"ph":"s","id":5,"cat":"async","name":"launch","pid":9,"tid":9,"ts":1},
        {"ph":"s","id":6,"cat":"ac2g","name":"ac2g","pid":9,"tid":9,"ts":8},
        {"ph":"f","id":6,"cat":"ac2g","name":"ac2g","pid":0,"tid":"stream 7","ts":4},
        {"ph":"s","id":7,"cat":"ac2g","name":"ac2g","pid":9,"tid":9,"ts":1},
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":9,"tid":"9","ts":1,"dur":1},
        {"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":4,"dur":1}"#,
    );
    assert_eq!(outcome.warnings, [""; 0], "an end alone is no fault");
    let trace = outcome.trace;
    assert_eq!(
        trace.flows.len(),
        1,
        "one leads back in time, one has no end"
    );
    let flow = trace.flows[0];
    assert_eq!((flow.id, trace.text(flow.cat)), (5, cat::AC2G));
    let to = trace.track(flow.to.track).unwrap();
    assert_eq!(trace.text(to.name), "stream 7");
}

#[test]
fn slices_without_a_length_are_kept_and_counted() {
    let outcome = read_events(
        r#"{"ph":"X","name":"a","pid":1,"tid":1,"ts":1},
        {"ph":"X","name":"b","pid":1,"tid":1,"ts":2,"dur":0},
        {"ph":"X","name":"c","pid":1,"tid":1,"ts":3,"dur":-4}"#,
    );
    assert_eq!(
        outcome.warnings,
        ["2 slices have no length; they count as zero long"]
    );
    assert!(outcome.trace.slices.iter().all(|s| s.span.is_empty()));
    assert_eq!(outcome.trace.slices.len(), 3);
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let outcome = read_events(
        r#"{"ph":"i","ph":"X","cat":"x","cat":"kernel","name":"a","na\u006de":"b","pid":1,"pid":0,
        "tid":7,"ts":1,"ts":2,"dur":1,"args":{"bytes":1,"stream":3,"stream":4},
        "args":{"correlation":5,"correlation":6,"stream":8}}"#,
    );
    let trace = outcome.trace;
    let slice = &trace.slices[0];
    assert_eq!(trace.text(slice.name), "b");
    let args: Vec<_> = slice
        .args
        .iter()
        .map(|&(key, value)| (trace.text(key), value.as_u64().unwrap()))
        .collect();
    assert_eq!(args, [("device", 0), ("stream", 8), ("correlation", 6)]);
}

#[test]
fn the_file_of_tracing_chrome_is_read() {
    let outcome = read_bytes(
        r#"[
{"ph":"M","pid":1,"name":"thread_name","tid":0,"args":{"name":"main"}},
{"ph":"B","pid":1,"ts":12.345,"name":"forward","cat":"trainer::model","tid":0,".file":"a.rs",".line":3,"args":{}},
{"ph":"i","pid":1,"ts":13.0,"name":"event","cat":"trainer","tid":0,"s":"t"},
{"ph":"E","pid":1,"ts":20.345,"name":"forward","cat":"trainer::model","tid":0,".file":"a.rs",".line":3}
]"#,
    )
    .unwrap();
    assert_eq!(
        (outcome.source, outcome.warnings.len()),
        (Source::Chrome, 0)
    );
    let trace = outcome.trace;
    assert_eq!(trace.slices[0].span.len().get(), 8_000);
    assert_eq!(place(&trace, &trace.slices[0]), ("process 1", "main"));
    assert_eq!(trace.meta.start_unix_ns, 0);
}

#[test]
fn anchors_give_a_file_the_clock_and_the_ids_of_the_machine() {
    let outcome = read_events(
        r#"{"ph":"M","name":"thread_name","pid":1,"tid":0,"args":{"name":"0"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"worker"}},
        {"ph":"i","s":"t","pid":1,"tid":0,"ts":3.0,
            "name":"gpustall.anchor mono_ns=5003400 unix_ns=9000003400 pid=70 tid=71"},
        {"ph":"X","name":"a","pid":1,"tid":0,"ts":4.5,"dur":1},
        {"ph":"i","s":"t","pid":1,"tid":1,"ts":6.0,
            "name":"gpustall.anchor mono_ns=5006100 unix_ns=9000006100 pid=70 tid=72"},
        {"ph":"X","name":"b","pid":1,"tid":1,"ts":7,"dur":1},
        {"ph":"X","name":"c","pid":1,"tid":2,"ts":7,"dur":1},
        {"ph":"i","s":"t","pid":1,"tid":2,"ts":8,"name":"gpustall.anchor mono_ns=x"}"#,
    );
    assert_eq!(
        outcome.warnings,
        ["1 events could not be used and were left out"]
    );
    let trace = outcome.trace;
    // The second reading is the closer one: the file's clock began at 5,000,100 ns, and the trace
    // begins with the first anchor.
    assert_eq!(trace.meta.start_mono.as_nanos(), 5_003_100);
    assert_eq!(trace.meta.start_unix_ns, 9_000_003_100);
    assert_eq!(trace.meta.pid, Pid(70));
    let threads: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let slice = trace.slices.iter().find(|s| trace.text(s.name) == *name);
            let track = trace.track(slice.unwrap().track).unwrap();
            (track.pid.0, track.tid.0, trace.text(track.name), track.kind)
        })
        .collect();
    assert_eq!(threads[0], (70, 71, "thread 71", TrackKind::Thread));
    assert_eq!(threads[1], (70, 72, "worker", TrackKind::Thread));
    let (pid, tid, _, kind) = threads[2];
    assert_eq!((pid, kind), (70, TrackKind::Synthetic));
    assert!(
        tid >= 0xC000_0000,
        "an id of the file is none of the machine"
    );
    assert_eq!(trace.slices[0].span.start.as_nanos(), 1_500);
    assert!(trace.instants.is_empty());
}
