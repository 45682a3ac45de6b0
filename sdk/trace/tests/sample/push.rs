//! A trace through the writer of partial files.

use gpustall_trace::*;
use std::path::Path;

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
