//! Each thing that a viewer may stumble over, once.

use crate::{empty, slice, span, time};
use gpustall_trace::{
    AsyncSlice, CounterSample, CounterSeries, Flow, FlowEnd, Instant, Loss, Pid, Process, Tid,
    Trace, Track, TrackId, TrackKind, Value, vocab,
};

fn flow(trace: &mut Trace, id: u64, from: (u32, u64), to: (u32, u64)) {
    let (name, cat) = (
        trace.strings.intern("batch"),
        trace.strings.intern("sample"),
    );
    let end = |(track, at)| FlowEnd {
        track: TrackId(track),
        at: time(at),
    };
    trace.flows.push(Flow {
        id,
        name,
        cat,
        from: end(from),
        to: end(to),
    });
}

/// Each thing once: overlaps, zero lengths, shared starts, odd names, extreme numbers.
pub(crate) fn corners() -> Trace {
    let mut trace = empty();
    let t = &mut trace;
    for (start, length, name) in [
        (1_000, 10_000, "parent"),
        (1_000, 10_000, "same span"),
        (1_000, 0, "zero length at the start"),
        (2_000, 20_000, "overlaps the parent"),
        (3_000, 30_000, "overlaps both"),
        (11_000, 0, "zero length at the end"),
        (11_000, 1, "one nanosecond"),
        (40_000, 100, ""),
        (
            41_000,
            100,
            "漢字 🚀 \u{2028} \"quoted\" \\ \n \u{0} \u{1f}",
        ),
        (42_000, 0, "twice at once"),
        (42_000, 0, "twice at once"),
    ] {
        slice(t, 0, name, "phase", span(start, length));
    }
    slice(
        t,
        1,
        "collate",
        vocab::cat::DATA_COLLATE,
        span(50_000, 5_000),
    );
    slice(t, 1, "inner", "span", span(50_000, 1_000));
    slice(t, 1, "inner", "span", span(52_000, 1_000));
    slice(
        t,
        0,
        "starved wait",
        vocab::cat::DATA_WAIT,
        span(48_000, 8_000),
    );
    slice(t, 0, "inner", "span", span(48_500, 500));
    slice(t, 0, "ready wait", vocab::cat::DATA_WAIT, span(60_000, 500));
    slice(t, 0, "empty wait", vocab::cat::DATA_WAIT, span(70_000, 0));
    for (id, at) in [
        (1, 55_999),
        (2, 56_000),
        (u64::MAX, 60_000),
        (1 << 63, 60_500),
        (5, 70_000),
    ] {
        flow(t, id, (1, 54_000), (0, at));
    }
    flow(t, 6, (1, 55_000), (0, 55_000));
    // Left out by viewers: outside every slice, backwards, an id that is taken.
    flow(t, 7, (1, 54_000), (0, 65_000));
    flow(t, 8, (0, 70_000), (1, 54_000));
    let (name, cat) = (t.strings.intern("odd"), t.strings.intern("event"));
    let text = t.strings.intern("text \u{1F680}");
    let keys = [
        "", "a.b", "a.b[0]", "a", "long", "big", "nan", "negative", "yes", "text", "text",
    ];
    let values = [
        Value::F64(1.0),
        Value::U64(1),
        Value::F64(f64::MIN_POSITIVE),
        Value::F64(f64::INFINITY),
        Value::U64((1 << 53) + 1),
        Value::U64(u64::MAX),
        Value::F64(f64::NAN),
        Value::I64(i64::MIN),
        Value::Bool(true),
        Value::Str(text),
        Value::Str(text),
    ];
    let args = keys
        .map(|key| t.strings.intern(key))
        .into_iter()
        .zip(values)
        .collect();
    let track = TrackId(2);
    t.instants.push(Instant {
        track,
        name,
        cat,
        at: time(77_000),
        args,
    });
    let series = CounterSeries {
        pid: Pid(100),
        name,
    };
    t.counter_series.push(series);
    for (i, value) in [0.0, -0.0, 1.5, f64::NAN, 1e308, f64::NEG_INFINITY]
        .into_iter()
        .enumerate()
    {
        t.counters.push(CounterSample {
            series: 0,
            at: time(1_000 * i as u64),
            value,
        });
    }
    for (id, pid) in [(1, 100), (1, 200), (u64::MAX, 100), (0, 100)] {
        let (pid, span, args) = (Pid(pid), span(5_000, 20_000), Box::new([]));
        t.async_slices.push(AsyncSlice {
            pid,
            name,
            cat,
            id,
            span,
            args,
        });
    }
    for (at, total) in [(10_000, 1), (20_000, u64::MAX)] {
        t.losses.push(Loss {
            source: name,
            at: time(at),
            total,
        });
    }
    let group = Pid(Pid::SYNTHETIC);
    let name = t.strings.intern("steps");
    t.processes.push(Process {
        pid: group,
        name,
        sort: -1,
    });
    for tid in [0xE000_0000, 0xF000_0001] {
        let (tid, kind) = (Tid(tid), TrackKind::Synthetic);
        t.tracks.push(Track {
            pid: group,
            tid,
            name,
            sort: -5,
            kind,
        });
        let track = t.tracks.len() as u32 - 1;
        slice(t, track, "step 1", vocab::cat::STEP, span(1_000, 50_000));
    }
    t.meta.end = time(100_000);
    t.report = Some(serde_json::json!({"findings": [], "text": "\u{1F680}"}));
    trace
}
