//! Records in, a trace out.

use super::*;
use gpustall_trace::{Meta, Trace, read};

const PID: Pid = Pid(7);

/// What the emitter is told.
#[derive(Clone, Copy)]
enum Told {
    Record(Record<'static>),
    Call(Call),
}

/// A trace of these records; the emitter's counts.
fn trace(records: &[Record<'static>]) -> (Trace, Counts) {
    let records: Vec<Told> = records.iter().copied().map(Told::Record).collect();
    told(&records)
}

/// A trace of what the emitter was told in this order; its counts.
fn told(all: &[Told]) -> (Trace, Counts) {
    let folder = tempfile::tempdir().expect("the directory for temporary files is writable");
    let path = folder.path().join("x.json.partial");
    let mut partial = PartialWriter::create(&path, &Meta::default()).expect("it is writable");
    let mut emitter = emitter();
    tell(&mut emitter, all, &mut partial);
    partial.flush().expect("there is room");
    let read = read(&path).expect("it was just written");
    (read.trace, emitter.counts)
}

fn emitter() -> Emitter {
    let mut calls = Calls::default();
    let launch = vec![(3, "cuLaunchKernel".to_owned()), (4, "cuInit".to_owned())];
    calls.add(Api::Driver, launch);
    calls.add(Api::Runtime, vec![(5, "cudaGraphLaunch_v10000".to_owned())]);
    Emitter::new(PID, MonoTime::from_nanos(1_000), calls)
}

fn tell(emitter: &mut Emitter, all: &[Told], sink: &mut dyn EventSink) {
    for told in all {
        match told {
            Told::Record(record) => emitter.record(record, sink),
            Told::Call(call) => emitter.call(call, sink),
        }
    }
}

fn place(device: u32, stream: u32) -> Place {
    Place {
        device,
        context: 1,
        stream,
    }
}

fn kernel(correlation: u32, span: Span, graph_node: u64) -> Record<'static> {
    Record::Kernel {
        place: place(0, 7),
        span,
        correlation,
        name: b"_Z4axpyPff",
        graph_node,
    }
}

fn call(api: Api, callback: u32, correlation: u32, span: Span) -> Told {
    Told::Call(Call {
        api,
        callback,
        span,
        thread: 9,
        correlation,
        returned: 0,
    })
}

#[test]
fn a_kernel_lies_on_the_track_of_its_stream_with_an_arrow_from_its_call() {
    let launched = call(Api::Driver, 3, 42, (2_000, 2_500));
    let ran = Told::Record(kernel(42, (3_000, 5_000), 0));
    // Calls and records come in any order.
    for all in [[launched, ran], [ran, launched]] {
        let (trace, _) = told(&all);
        let find = |cat: &str| trace.slices.iter().find(|s| trace.text(s.cat) == cat);
        let slice = find(cat::KERNEL).expect("the kernel is there");
        assert_eq!(trace.text(slice.name), "axpy(float*, float)");
        assert_eq!(slice.span.start.as_nanos(), 2_000);
        assert_eq!(slice.span.len().get(), 2_000);
        assert_eq!(trace.arg_u64(&slice.args, arg::STREAM), Some(7));
        let track = trace.track(slice.track).expect("it has a track");
        assert_eq!(trace.text(track.name), "stream 7");
        assert_eq!(track.pid, Pid::of_device(0));
        let submitted = find(cat::CUDA_DRIVER).expect("the call is there");
        assert_eq!(trace.text(submitted.name), "cuLaunchKernel");
        let [flow] = trace.flows.as_slice() else {
            panic!("one arrow: {:?}", trace.flows);
        };
        assert_eq!(
            (flow.from.track, flow.to.track),
            (submitted.track, slice.track)
        );
    }
}

#[test]
fn the_nodes_of_a_graph_share_their_launch_and_are_told_apart() {
    let launched = call(Api::Runtime, 5, 42, (2_000, 2_500));
    let nodes = [
        kernel(42, (3_000, 4_000), 11),
        kernel(42, (4_000, 5_000), 12),
    ];
    let nodes = nodes.map(Told::Record);
    let (trace, counts) = told(&[launched, nodes[0], nodes[1]]);
    assert_eq!(counts.kernels, 2);
    let node = |slice: &gpustall_trace::Slice| trace.arg_u64(&slice.args, arg::GRAPH_NODE);
    let found: Vec<u64> = trace.slices.iter().filter_map(node).collect();
    assert_eq!(found, [11, 12]);
    let call = trace
        .slices
        .iter()
        .find(|s| trace.text(s.cat) == cat::CUDA_RUNTIME);
    assert_eq!(
        call.map(|call| trace.text(call.name)),
        Some("cudaGraphLaunch")
    );
}

#[test]
fn copies_say_what_they_reached() {
    let copy = Record::Copy {
        place: place(1, 9),
        span: (2_000, 3_000),
        correlation: 1,
        kind: 1,
        memory: (1, 3),
        bytes: 25_000,
    };
    let (trace, _) = trace(&[copy]);
    let slice = &trace.slices[0];
    assert_eq!(trace.text(slice.name), "Memcpy HtoD (Pageable -> Device)");
    assert_eq!(trace.arg_u64(&slice.args, arg::BYTES), Some(25_000));
    let reached = trace
        .arg(&slice.args, arg::BANDWIDTH)
        .and_then(|v| v.as_f64());
    assert_eq!(reached, Some(25.0));
}

#[test]
fn a_wait_for_an_event_names_the_stream_that_recorded_it() {
    let recorded = Record::Event {
        correlation: 5,
        context: 1,
        stream: 13,
        event: 2,
    };
    let wait = Record::Wait {
        what: 2,
        span: (2_000, 2_100),
        correlation: 6,
        context: 1,
        stream: 7,
        event: 2,
    };
    let (trace, _) = trace(&[recorded, wait]);
    let slice = &trace.slices[0];
    assert_eq!(
        trace.arg_str(&slice.args, arg::SYNC_KIND),
        Some("Stream Wait Event")
    );
    assert_eq!(trace.arg_u64(&slice.args, arg::WAIT_ON_STREAM), Some(13));
    assert_eq!(trace.arg_u64(&slice.args, arg::WAIT_ON_RECORD), Some(5));
}

#[test]
fn calls_that_nobody_asked_for_and_operations_without_times_leave_no_slice() {
    let (trace, counts) = told(&[
        call(Api::Driver, 4, 1, (2_000, 2_100)),
        Told::Record(kernel(2, (0, 0), 0)),
        Told::Record(Record::Other),
    ]);
    assert!(trace.slices.is_empty());
    assert_eq!((counts.calls, counts.unfinished), (0, 1));
}

#[test]
fn a_second_stream_of_a_device_is_noticed() {
    let folder = tempfile::tempdir().expect("the directory for temporary files is writable");
    let path = folder.path().join("x.json.partial");
    let mut partial = PartialWriter::create(&path, &Meta::default()).expect("it is writable");
    let mut emitter = Emitter::new(PID, MonoTime::from_nanos(1_000), Calls::default());
    let mut noticed = |place: Place| {
        let set = Record::Set {
            place,
            span: (2_000, 3_000),
            correlation: 1,
            memory: 2,
            bytes: 8,
        };
        emitter.record(&set, &mut partial);
        emitter.has_several_streams()
    };
    assert!(!noticed(place(0, 7)));
    assert!(!noticed(place(0, 7)));
    // One stream on each of two devices.
    assert!(!noticed(place(1, 7)));
    assert!(noticed(place(0, 13)));
}

#[test]
fn launches_without_any_kernel_are_told() {
    struct Nothing;
    impl EventSink for Nothing {
        fn push(&mut self, _: &EventRef<'_>) {}
    }
    let after = |launches: u32, kernels: u32| {
        let mut emitter = emitter();
        let launch = |n| call(Api::Driver, 3, n, (2_000, 2_500));
        let ran = |n| Told::Record(kernel(n, (3_000, 5_000), 0));
        let all: Vec<Told> = (0..launches)
            .map(launch)
            .chain((0..kernels).map(ran))
            .collect();
        tell(&mut emitter, &all, &mut Nothing);
        emitter
    };
    assert_eq!(after(200, 0).take_unanswered(), Some(200));
    assert_eq!(after(199, 0).take_unanswered(), None);
    assert_eq!(after(500, 1).take_unanswered(), None);
    let mut asked = after(200, 0);
    asked.take_unanswered();
    assert_eq!(asked.take_unanswered(), None);
}
