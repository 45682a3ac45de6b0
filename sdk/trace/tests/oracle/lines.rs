//! The lines of the simple reader, of a trace that the crate read.

use gpustall_trace::{Args, Trace, Value as Kept};
use serde_json::json;

fn read_args(trace: &Trace, args: &Args) -> String {
    let one = |&(key, value): &(_, Kept)| {
        let value = match value {
            Kept::Bool(v) => json!(v),
            Kept::U64(v) => json!(v),
            Kept::I64(v) => json!(v),
            Kept::F64(v) => json!(v),
            Kept::Str(v) => json!(trace.text(v)),
        };
        format!("{}={value}", trace.text(key))
    };
    args.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The lines that describe a trace.
pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    let mut out = Vec::new();
    let place = |id| {
        let track = trace.track(id).unwrap();
        let process = trace.processes.iter().find(|p| p.pid == track.pid).unwrap();
        format!(
            "{:?} {:?}",
            trace.text(process.name),
            trace.text(track.name)
        )
    };
    for s in &trace.slices {
        out.push(format!(
            "slice {} {} {:?} {} +{} {}",
            place(s.track),
            trace.text(s.cat),
            trace.text(s.name),
            s.span.start.as_nanos(),
            s.span.len().get(),
            read_args(trace, &s.args)
        ));
    }
    for i in &trace.instants {
        let (cat, name) = (trace.text(i.cat), trace.text(i.name));
        let args = read_args(trace, &i.args);
        out.push(format!(
            "instant {} {cat} {name:?} {} {args}",
            place(i.track),
            i.at.as_nanos()
        ));
    }
    for c in &trace.counters {
        let name = trace.text(trace.counter_series[c.series as usize].name);
        out.push(format!(
            "counter {name:?} {} {:?}",
            c.at.as_nanos(),
            c.value.to_bits()
        ));
    }
    for f in &trace.flows {
        let (cat, name) = (trace.text(f.cat), trace.text(f.name));
        let (from, to) = (f.from.at.as_nanos(), f.to.at.as_nanos());
        out.push(format!("flow {cat} {name:?} {} {from} -> {to}", f.id));
    }
    out.sort();
    out
}
