//! A trace of hundreds of thousands of events, more than a buffer, a chunk or a block of gzip.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sample;

use gpustall_trace::{
    Args, CounterSample, Interval, Nanos, PARTIAL_BUFFER_BYTES, Slice, TraceTime, TrackId, Value,
    read, write_finished,
};
use sample::{as_partial, canonical, skeleton, write_partial};

#[test]
fn three_hundred_thousand_events_survive_both_forms() {
    let mut trace = skeleton(vec![], [0; 3], 0);
    let cat = trace.strings.intern("phase");
    let step = trace.strings.intern("step");
    for i in 0..100_000u64 {
        let name = trace.strings.intern(&format!("name {}", i % 10_000));
        for (track, start, length) in [(0, 10 * i, 9), (1, 7 * i, 6)] {
            let (start, track) = (TraceTime::from_nanos(start), TrackId(track));
            let span = Interval::new(start, start + Nanos::new(length));
            let args: Args = Box::new([(step, Value::U64(i))]);
            trace.slices.push(Slice {
                track,
                name,
                cat,
                span,
                args,
            });
        }
        let (at, value) = (TraceTime::from_nanos(10 * i), i as f64 / 3.0);
        trace.counters.push(CounterSample {
            series: 0,
            at,
            value,
        });
    }
    trace.sort();
    let directory = tempfile::tempdir().unwrap();
    for name in ["t.json", "t.json.gz"] {
        let path = directory.path().join(name);
        let stats = write_finished(&path, &trace).unwrap();
        assert_eq!(
            (stats.slices, stats.counters, stats.lanes),
            (200_000, 100_000, 0)
        );
        let outcome = read(&path).unwrap();
        assert_eq!(outcome.warnings, Vec::<String>::new());
        assert!(
            canonical(&outcome.trace) == canonical(&trace),
            "{name} differs"
        );
    }
    let path = directory.path().join("t.json.partial");
    let writer = write_partial(&path, &trace);
    assert_eq!(writer.events_written() as usize, 300_000 + 5);
    assert!(path.metadata().unwrap().len() > PARTIAL_BUFFER_BYTES as u64);
    let outcome = read(&path).unwrap();
    assert!(
        canonical(&outcome.trace) == canonical(&as_partial(trace)),
        "the partial differs"
    );
}
