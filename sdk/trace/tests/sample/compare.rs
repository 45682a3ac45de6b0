//! When two traces are the same.

use gpustall_trace::*;

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
