//! Traces that nobody would think of.

use super::skeleton;
use gpustall_trace::*;
use proptest::prelude::*;

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
