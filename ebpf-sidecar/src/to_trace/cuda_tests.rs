use crate::cuda::{CudaCall, CudaFunction};
use crate::recording::{Faults, Recording, ThreadRecord, Totals};
use gpustall_trace::vocab::{arg, cat};
use gpustall_trace::{Pid, Tid, Trace, TraceTime, TrackKind, Value};

fn at(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

fn thread(number: u32, tid: u32) -> ThreadRecord {
    ThreadRecord {
        number,
        tid: Tid(tid),
        pid: Pid(7),
        name: "trainer".to_owned(),
        parent: None,
        first: at(0),
        last: at(100),
        ended: true,
        faults_before: Faults::default(),
        totals: Totals::default(),
    }
}

/// The number that the probes know the function by.
fn function(name: &str) -> CudaFunction {
    let mut all = (0..).map_while(CudaFunction::of_number);
    all.find(|function| function.name() == name)
        .expect("in the table")
}

/// A copy with another inside it, by the second of two threads that had one id after each other.
fn trace() -> Trace {
    let outer = CudaCall {
        thread: 1,
        function: function("cuMemcpyHtoD_v2"),
        begin: at(10),
        end: at(60),
        bytes: Some(4096),
        stream: None,
        result: 0,
        depth: 0,
        unfinished: false,
    };
    let inner = CudaCall {
        function: function("cuStreamSynchronize"),
        begin: at(20),
        bytes: None,
        stream: Some(0x7f00),
        result: 700,
        depth: 1,
        unfinished: true,
        ..outer
    };
    Recording {
        end: at(100),
        threads: vec![thread(0, 9), thread(1, 9)],
        // In the order they returned.
        cuda_calls: vec![inner, outer],
        ..Recording::default()
    }
    .to_trace("job", Pid(7))
}

#[test]
fn calls_are_slices_on_the_thread_itself_the_outer_before_the_inner() {
    let trace = trace();
    let [outer, inner] = &trace.slices[..] else {
        panic!("two slices");
    };
    for (slice, name) in [(outer, "cuMemcpyHtoD_v2"), (inner, "cuStreamSynchronize")] {
        let track = trace.track(slice.track).expect("a track");
        assert_eq!((track.tid, track.kind), (Tid(9), TrackKind::Thread));
        assert_eq!(trace.text(slice.name), name);
        assert_eq!(trace.text(slice.cat), cat::CUDA_DRIVER);
    }
    assert_eq!((outer.span.start, outer.span.end), (at(10), at(60)));
    assert_eq!((inner.span.start, inner.span.end), (at(20), at(60)));
}

#[test]
fn a_call_says_what_its_arguments_told_and_nothing_else() {
    let trace = trace();
    let [outer, inner] = &trace.slices[..] else {
        panic!("two slices");
    };
    assert_eq!(trace.arg_u64(&outer.args, arg::BYTES), Some(4096));
    assert_eq!(outer.args.len(), 1);
    assert_eq!(trace.arg_u64(&inner.args, arg::STREAM_HANDLE), Some(0x7f00));
    assert_eq!(trace.arg_u64(&inner.args, arg::RESULT), Some(700));
    let unfinished = trace.arg(&inner.args, arg::UNFINISHED);
    assert_eq!(unfinished, Some(Value::Bool(true)));
    assert_eq!(inner.args.len(), 3);
}
