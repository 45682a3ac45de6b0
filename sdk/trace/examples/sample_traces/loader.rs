//! A data loader: a trace as large as one likes.

use crate::{Result, empty, slice, span, time};
use gpustall_trace::{
    AsyncSlice, CounterSample, CounterSeries, EventRef, Flow, FlowEnd, Interval, Nanos,
    PartialWriter, Pid, Tid, Trace, Track, TrackId, Value, ValueRef, vocab,
};
use std::path::Path;

/// Three workers that make `batches` batches for one consumer that mostly waits for them.
pub(crate) fn loader(batches: u64) -> Trace {
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
pub(crate) fn write_partial(path: &Path, batches: u64) -> Result<()> {
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
