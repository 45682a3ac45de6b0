//! Traces for the tests of this crate: arbitrary ones, and how two are compared.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpustall_trace::*;
use proptest::prelude::*;
use std::path::Path;

/// Everything in a trace as text, symbols resolved and numbers as bits, one line a thing.
pub(crate) fn canonical(trace: &Trace) -> Vec<String> {
    let t = |s: Symbol| format!("{:?}", trace.text(s));
    let track = |id: TrackId| {
        let track = trace.track(id).unwrap();
        (track.pid.0, track.tid.0)
    };
    let mut out = vec![format!("{:?}", trace.meta), format!("{:?}", trace.report)];
    for p in &trace.processes {
        out.push(format!("process {} {} {}", p.pid, t(p.name), p.sort));
    }
    for x in &trace.tracks {
        out.push(format!(
            "track {} {} {} {} {:?}",
            x.pid,
            x.tid,
            t(x.name),
            x.sort,
            x.kind
        ));
    }
    for s in &trace.slices {
        let (at, args) = (track(s.track), args(trace, &s.args));
        out.push(format!(
            "slice {at:?} {} {} {:?} {args}",
            t(s.name),
            t(s.cat),
            s.span
        ));
    }
    for i in &trace.instants {
        let (at, args) = (track(i.track), args(trace, &i.args));
        out.push(format!(
            "instant {at:?} {} {} {:?} {args}",
            t(i.name),
            t(i.cat),
            i.at
        ));
    }
    for c in &trace.counters {
        let series = trace.counter_series[c.series as usize];
        let value = bits(c.value);
        out.push(format!(
            "counter {} {} {:?} {value}",
            series.pid,
            t(series.name),
            c.at
        ));
    }
    for f in &trace.flows {
        let (from, to) = (track(f.from.track), track(f.to.track));
        let (name, cat) = (t(f.name), t(f.cat));
        let (leaves, arrives) = (f.from.at, f.to.at);
        out.push(format!(
            "flow {} {name} {cat} {from:?} {leaves:?} {to:?} {arrives:?}",
            f.id
        ));
    }
    for a in &trace.async_slices {
        let (name, cat, args) = (t(a.name), t(a.cat), args(trace, &a.args));
        out.push(format!(
            "async {} {name} {cat} {} {:?} {args}",
            a.pid, a.id, a.span
        ));
    }
    for l in &trace.losses {
        out.push(format!("loss {} {:?} {}", t(l.source), l.at, l.total));
    }
    out
}

fn args(trace: &Trace, args: &[Arg]) -> String {
    let one = |&(key, value): &Arg| {
        let value = match value {
            Value::Str(s) => format!("{:?}", trace.text(s)),
            Value::F64(v) => bits(v),
            other => format!("{other:?}"),
        };
        format!("{:?}={value}", trace.text(key))
    };
    args.iter().map(one).collect::<Vec<_>>().join(",")
}

fn bits(v: f64) -> String {
    if v.is_nan() {
        "NaN".into()
    } else {
        format!("{v:e} {:x}", v.to_bits())
    }
}

/// Appends everything in `trace` to a partial file at `path`, as a recorder would.
pub(crate) fn write_partial(path: &Path, trace: &Trace) -> PartialWriter {
    let mut writer = PartialWriter::create(path, &trace.meta).unwrap();
    push_all(trace, &mut |event| writer.push(event));
    writer.flush().unwrap();
    writer
}

/// Hands every event of `trace` to `push`.
pub(crate) fn push_all(trace: &Trace, push: &mut dyn FnMut(&EventRef<'_>)) {
    let place = |id: TrackId| {
        let track = trace.track(id).unwrap();
        (track.pid, track.tid)
    };
    for p in &trace.processes {
        push(&EventRef::Process {
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
        push(&EventRef::Track {
            pid,
            tid,
            name: trace.text(t.name),
            sort,
            kind,
        });
    }
    for s in &trace.slices {
        let ((pid, tid), span, args) = (place(s.track), s.span, borrowed(trace, &s.args));
        let (name, cat) = (trace.text(s.name), trace.text(s.cat));
        push(&EventRef::Slice {
            pid,
            tid,
            name,
            cat,
            span,
            args: &args,
        });
    }
    for i in &trace.instants {
        let ((pid, tid), at, args) = (place(i.track), i.at, borrowed(trace, &i.args));
        let (name, cat) = (trace.text(i.name), trace.text(i.cat));
        push(&EventRef::Instant {
            pid,
            tid,
            name,
            cat,
            at,
            args: &args,
        });
    }
    for c in &trace.counters {
        let series = trace.counter_series[c.series as usize];
        let (pid, name) = (series.pid, trace.text(series.name));
        push(&EventRef::Counter {
            pid,
            name,
            at: c.at,
            value: c.value,
        });
    }
    for f in &trace.flows {
        let (from, to) = (place(f.from.track), place(f.to.track));
        let (from, to) = ((from.0, from.1, f.from.at), (to.0, to.1, f.to.at));
        let (name, cat) = (trace.text(f.name), trace.text(f.cat));
        push(&EventRef::Flow {
            id: f.id,
            name,
            cat,
            from,
            to,
        });
    }
    for a in &trace.async_slices {
        let (name, cat) = (trace.text(a.name), trace.text(a.cat));
        let args = borrowed(trace, &a.args);
        push(&EventRef::Async {
            pid: a.pid,
            name,
            cat,
            id: a.id,
            span: a.span,
            args: &args,
        });
    }
    for l in &trace.losses {
        push(&EventRef::Loss {
            source: trace.text(l.source),
            at: l.at,
            total: l.total,
        });
    }
}

fn borrowed<'a>(trace: &'a Trace, args: &'a [Arg]) -> Vec<(&'a str, ValueRef<'a>)> {
    let one = |&(key, value): &'a Arg| {
        let value = match value {
            Value::Bool(v) => ValueRef::Bool(v),
            Value::U64(v) => ValueRef::U64(v),
            Value::I64(v) => ValueRef::I64(v),
            Value::F64(v) => ValueRef::F64(v),
            Value::Str(v) => ValueRef::Str(trace.text(v)),
        };
        (trace.text(key), value)
    };
    args.iter().map(one).collect()
}

/// What reading a partial file of `trace` gives: it is partial, and its end is its last event.
pub(crate) fn as_partial(mut trace: Trace) -> Trace {
    let ends = trace.slices.iter().map(|s| s.span.end);
    let ends = ends.chain(trace.instants.iter().map(|i| i.at));
    let ends = ends.chain(trace.counters.iter().map(|c| c.at));
    let ends = ends.chain(trace.flows.iter().flat_map(|f| [f.from.at, f.to.at]));
    let ends = ends.chain(trace.async_slices.iter().map(|a| a.span.end));
    let ends = ends.chain(trace.losses.iter().map(|l| l.at));
    trace.meta.end = ends.max().unwrap_or_default();
    trace.meta.state = State::Partial;
    trace.report = None;
    trace.sort();
    trace
}

/// A value whose text is not interned yet.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Str(String),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["forward", "data wait", "train", "batch", "", "a.b[0]"]),
        1 => prop::sample::select(vec!["\"\\\n\r\t\u{0}\u{1f}", "漢字 🚀", "\u{2028}", "NaN", "]"]),
    ]
    .prop_map(String::from)
    .boxed()
    .prop_union(any::<String>().boxed())
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..2_000u64, 2 => 0..10_000_000_000u64, 1 => any::<u64>()]
}

fn span() -> impl Strategy<Value = Interval> {
    (time(), prop_oneof![Just(0), 0..500u64, time()]).prop_map(|(start, dur)| {
        let start = TraceTime::from_nanos(start);
        Interval::new(start, start + Nanos::new(dur))
    })
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        Just(2.0),
        Just(-0.0),
        Just(0.1)
    ]
}

fn raw() -> impl Strategy<Value = Raw> {
    prop_oneof![
        any::<bool>().prop_map(Raw::Bool),
        any::<u64>().prop_map(Raw::U64),
        (i64::MIN..0).prop_map(Raw::I64),
        float().prop_map(Raw::F64),
        text().prop_map(Raw::Str),
    ]
}

type RawArgs = Vec<(String, Raw)>;

fn raw_args() -> impl Strategy<Value = RawArgs> {
    prop::collection::vec((text(), raw()), 0..4)
}

fn own(trace: &mut Trace, args: RawArgs) -> Args {
    let one = |(key, value): (String, Raw)| {
        let value = match value {
            Raw::Bool(v) => Value::Bool(v),
            Raw::U64(v) => Value::U64(v),
            Raw::I64(v) => Value::I64(v),
            Raw::F64(v) => Value::F64(v),
            Raw::Str(v) => Value::Str(trace.strings.intern(&v)),
        };
        (trace.strings.intern(&key), value)
    };
    args.into_iter().map(one).collect()
}

const TRACKS: u32 = 3;

/// Any trace at all, small, its events in no order.
pub(crate) fn any_trace() -> impl Strategy<Value = Trace> {
    use prop::collection::vec;
    let slices = vec((0..TRACKS, text(), text(), span(), raw_args()), 0..12);
    let instants = vec((0..TRACKS, text(), text(), time(), raw_args()), 0..6);
    let counters = vec((0..2u32, time(), float()), 0..6);
    let flows = vec((any::<u64>(), 0..TRACKS, 0..TRACKS, time(), time()), 0..6);
    let asyncs = vec((text(), span(), raw_args()), 0..6);
    let losses = vec((text(), time(), any::<u64>()), 0..4);
    let report = prop::option::of((text(), float(), any::<u64>()));
    let notes = vec(text(), 0..3);
    let events = (slices, instants, counters, flows, asyncs, losses);
    (events, report, notes, any::<[u64; 3]>(), any::<i32>()).prop_map(
        |((slices, instants, counters, flows, asyncs, losses), report, notes, numbers, sort)| {
            let mut trace = skeleton(notes, numbers, sort);
            for (track, name, cat, span, args) in slices {
                let (track, args) = (TrackId(track), own(&mut trace, args));
                let (name, cat) = (trace.strings.intern(&name), trace.strings.intern(&cat));
                trace.slices.push(Slice {
                    track,
                    name,
                    cat,
                    span,
                    args,
                });
            }
            for (track, name, cat, at, args) in instants {
                let (track, args) = (TrackId(track), own(&mut trace, args));
                let (name, cat) = (trace.strings.intern(&name), trace.strings.intern(&cat));
                let at = TraceTime::from_nanos(at);
                trace.instants.push(Instant {
                    track,
                    name,
                    cat,
                    at,
                    args,
                });
            }
            for (series, at, value) in counters {
                let at = TraceTime::from_nanos(at);
                trace.counters.push(CounterSample { series, at, value });
            }
            let (name, cat) = (trace.strings.intern("batch"), trace.strings.intern("flow"));
            for (i, (id, a, b, from, to)) in flows.into_iter().enumerate() {
                let end = |track, at| FlowEnd {
                    track: TrackId(track),
                    at: TraceTime::from_nanos(at),
                };
                let id = id & !7 | i as u64;
                let (from, to) = (end(a, from.min(to)), end(b, from.max(to)));
                trace.flows.push(Flow {
                    id,
                    name,
                    cat,
                    from,
                    to,
                });
            }
            for (id, (name, span, args)) in asyncs.into_iter().enumerate() {
                let (name, args) = (trace.strings.intern(&name), own(&mut trace, args));
                let (pid, id) = (Pid(7), u64::MAX - id as u64);
                trace.async_slices.push(AsyncSlice {
                    pid,
                    name,
                    cat,
                    id,
                    span,
                    args,
                });
            }
            for (source, at, total) in losses {
                let (source, at) = (trace.strings.intern(&source), TraceTime::from_nanos(at));
                trace.losses.push(Loss { source, at, total });
            }
            trace.report = report.map(|(text, number, id)| {
                serde_json::json!({"text": text, "number": number, "list": [id, null, true]})
            });
            trace
        },
    )
}

/// A trace with its processes and tracks, and no events.
pub(crate) fn skeleton(notes: Vec<String>, numbers: [u64; 3], sort: i32) -> Trace {
    let meta = Meta {
        name: "run \"1\"".into(),
        recorder: "0.1.0".into(),
        start_mono: MonoTime::from_nanos(numbers[0]),
        start_unix_ns: numbers[1],
        end: TraceTime::from_nanos(numbers[2]),
        pid: Pid(7),
        cpus: 4,
        state: State::Finished,
        notes,
    };
    let mut trace = Trace {
        meta,
        ..Trace::default()
    };
    let trainer = trace.strings.intern("trainer");
    let lanes = trace.strings.intern("lanes");
    let group = Pid(Pid::SYNTHETIC + 1);
    trace.processes.push(Process {
        pid: Pid(7),
        name: trainer,
        sort,
    });
    trace.processes.push(Process {
        pid: group,
        name: lanes,
        sort: -1,
    });
    for (pid, tid, kind) in [
        (Pid(7), 7, TrackKind::Thread),
        (Pid(7), 8, TrackKind::Thread),
        (group, 0xE000_0000, TrackKind::Synthetic),
    ] {
        let name = trace.strings.intern(&format!("track {tid}"));
        trace.tracks.push(Track {
            pid,
            tid: Tid(tid),
            name,
            sort,
            kind,
        });
    }
    for name in ["queue depth train", "memory"] {
        let name = trace.strings.intern(name);
        trace
            .counter_series
            .push(CounterSeries { pid: Pid(7), name });
    }
    trace
}
