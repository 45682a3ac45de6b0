//! Writes traces with everything that viewers stumble over, for the check against real Perfetto.
//!
//! `cargo run --release -p gpustall-trace --example sample_traces -- DIRECTORY`

use gpustall_trace::{
    AsyncSlice, CounterSample, CounterSeries, EventRef, Flow, FlowEnd, Instant, Interval, Loss,
    Meta, Nanos, PartialWriter, Pid, Process, Slice, State, Tid, Trace, TraceTime, Track, TrackId,
    TrackKind, Value, ValueRef, vocab, write_finished,
};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: sample_traces DIRECTORY")?;
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;
    for (name, trace) in [
        ("empty.trace.json", empty()),
        ("corners.trace.json", corners()),
        ("corners.trace.json.gz", corners()),
        ("loader.trace.json.gz", loader(2_000)),
        ("large.trace.json", loader(60_000)),
        ("large.trace.json.gz", loader(60_000)),
    ] {
        let stats = write_finished(&directory.join(name), &trace)?;
        println!("{name}: {stats:?}");
    }
    let partial = directory.join("loader.trace.json.partial");
    write_partial(&partial, 2_000)?;
    let bytes = std::fs::read(&partial)?;
    std::fs::write(
        directory.join("cut.trace.json.partial"),
        &bytes[..bytes.len() - 77],
    )?;
    write_partial(&directory.join("large.trace.json.partial"), 60_000)?;
    Ok(())
}

fn time(ns: u64) -> TraceTime {
    TraceTime::from_nanos(ns)
}

fn span(start: u64, length: u64) -> Interval {
    Interval::new(time(start), time(start + length))
}

fn empty() -> Trace {
    let meta = Meta {
        name: "sample".into(),
        recorder: env!("CARGO_PKG_VERSION").into(),
        pid: Pid(100),
        cpus: 4,
        state: State::Finished,
        ..Meta::default()
    };
    let mut trace = Trace {
        meta,
        ..Trace::default()
    };
    let name = trace.strings.intern("trainer");
    trace.processes.push(Process {
        pid: Pid(100),
        name,
        sort: 0,
    });
    for tid in 100..104 {
        let text = if tid == 100 {
            "main".into()
        } else {
            format!("dataloader-{}", tid - 101)
        };
        let name = trace.strings.intern(&text);
        let (pid, tid, kind) = (Pid(100), Tid(tid), TrackKind::Thread);
        trace.tracks.push(Track {
            pid,
            tid,
            name,
            sort: tid.0 as i32 - 100,
            kind,
        });
    }
    trace
}

fn slice(trace: &mut Trace, track: u32, name: &str, cat: &str, span: Interval) {
    let (name, cat) = (trace.strings.intern(name), trace.strings.intern(cat));
    let args = Box::new([]);
    trace.slices.push(Slice {
        track: TrackId(track),
        name,
        cat,
        span,
        args,
    });
}

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
fn corners() -> Trace {
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

/// Three workers that make `batches` batches for one consumer that mostly waits for them.
fn loader(batches: u64) -> Trace {
    let mut trace = empty();
    let t = &mut trace;
    let name = t.strings.intern("queue depth train");
    t.counter_series.push(CounterSeries {
        pid: Pid(100),
        name,
    });
    let [batch, items] = [vocab::arg::BATCH, vocab::arg::ITEMS].map(|key| t.strings.intern(key));
    let flow_cat = t.strings.intern(vocab::cat::BATCH);
    for i in 0..batches {
        let (worker, taken) = (1 + (i % 3) as u32, 100_000 + i * 10_007);
        // Every fourth batch was ready long before; the others are waited for.
        let made = if i % 4 == 0 {
            taken - 9_000
        } else {
            taken - 1_000
        };
        let waits = if i % 4 == 0 { 300 } else { 4_000 };
        slice(
            t,
            worker,
            "get",
            vocab::cat::DATA_GET,
            span(made - 20_000, 18_000),
        );
        slice(
            t,
            worker,
            "collate",
            vocab::cat::DATA_COLLATE,
            span(made - 2_000, 2_000),
        );
        slice(
            t,
            worker,
            "decode",
            vocab::cat::SPAN,
            span(made - 1_500, 1_000),
        );
        slice(
            t,
            0,
            "next",
            vocab::cat::DATA_WAIT,
            span(taken - waits, waits),
        );
        slice(t, 0, "forward", vocab::cat::PHASE, span(taken, 5_000));
        for slice in t.slices.iter_mut().rev().take(4) {
            slice.args = Box::new([(batch, Value::U64(i)), (items, Value::U64(256))]);
        }
        let from = FlowEnd {
            track: TrackId(worker),
            at: time(made - 1),
        };
        let to = FlowEnd {
            track: TrackId(0),
            at: time(taken - 1),
        };
        t.flows.push(Flow {
            id: i,
            name: batch,
            cat: flow_cat,
            from,
            to,
        });
        let (pid, span, args) = (
            Pid(100),
            Interval::new(time(made), time(taken)),
            Box::new([]),
        );
        let queued = AsyncSlice {
            pid,
            name: batch,
            cat: flow_cat,
            id: i,
            span,
            args,
        };
        t.async_slices.push(queued);
        let value = (i % 7) as f64;
        t.counters.push(CounterSample {
            series: 0,
            at: time(taken),
            value,
        });
    }
    t.meta.end = time(100_000 + batches * 10_007);
    t.sort();
    trace
}

/// The same, as the recorder would write it; ends while a slice is open.
fn write_partial(path: &Path, batches: u64) -> Result<()> {
    let trace = loader(batches);
    let mut writer = PartialWriter::create(path, &trace.meta)?;
    let at = |track: TrackId| {
        trace
            .track(track)
            .map_or((Pid(0), Tid(0)), |t| (t.pid, t.tid))
    };
    for p in &trace.processes {
        writer.push(&EventRef::Process {
            pid: p.pid,
            name: trace.text(p.name),
            sort: p.sort,
        });
    }
    for t in &trace.tracks {
        let Track {
            pid,
            tid,
            sort,
            kind,
            ..
        } = *t;
        writer.push(&EventRef::Track {
            pid,
            tid,
            name: trace.text(t.name),
            sort,
            kind,
        });
    }
    let args = [(vocab::arg::BATCH, ValueRef::U64(1))];
    for s in &trace.slices {
        let ((pid, tid), span) = (at(s.track), s.span);
        let (name, cat) = (trace.text(s.name), trace.text(s.cat));
        writer.push(&EventRef::Slice {
            pid,
            tid,
            name,
            cat,
            span,
            args: &args,
        });
    }
    for f in &trace.flows {
        let ((from, a), (to, b)) = ((at(f.from.track), f.from.at), (at(f.to.track), f.to.at));
        let (name, cat) = (trace.text(f.name), trace.text(f.cat));
        let (from, to) = ((from.0, from.1, a), (to.0, to.1, b));
        writer.push(&EventRef::Flow {
            id: f.id,
            name,
            cat,
            from,
            to,
        });
    }
    for a in &trace.async_slices {
        let (name, cat) = (trace.text(a.name), trace.text(a.cat));
        writer.push(&EventRef::Async {
            pid: a.pid,
            name,
            cat,
            id: a.id,
            span: a.span,
            args: &[],
        });
    }
    let end = trace.meta.end;
    writer.push(&EventRef::Counter {
        pid: Pid(100),
        name: "memory",
        at: end,
        value: f64::NAN,
    });
    writer.push(&EventRef::Loss {
        source: "ring",
        at: end,
        total: 3,
    });
    writer.push(&EventRef::Note {
        text: "the sidecar was not there",
    });
    for flushed in [end, end + Nanos::new(1_000_000)] {
        writer.push(&EventRef::Open {
            pid: Pid(100),
            tid: Tid(100),
            name: "forward",
            cat: vocab::cat::PHASE,
            start: end,
            at: flushed,
            args: &args,
        });
    }
    Ok(writer.flush()?)
}
