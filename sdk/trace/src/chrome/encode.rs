//! One event as lines of Chrome JSON. Every line ends in `,\n`.

use super::introduce::{note, process, track};
use super::json;
use super::line::Line;
use crate::schema::{COUNTER_EVENT, LEFT_OUT_CAT, LOSS_CAT};
use crate::{EventRef, Interval, Nanos, Pid, Tid, TraceTime, ValueRef, vocab};

/// Where an event lies.
pub(super) type Place = (Pid, Tid);

/// Appends the lines of one event. `owner` is the process that losses are shown under.
pub(super) fn event(out: &mut Vec<u8>, event: &EventRef<'_>, owner: Pid) {
    match *event {
        EventRef::Process { pid, name, sort } => process(out, pid, name, sort),
        EventRef::Track {
            pid,
            tid,
            name,
            sort,
            kind,
        } => {
            track(out, (pid, tid), name, sort, kind, None);
        }
        EventRef::Slice {
            pid,
            tid,
            name,
            cat,
            span,
            args,
        } => {
            slice(out, (pid, tid), name, cat, span, args.iter().copied());
        }
        EventRef::Open {
            pid,
            tid,
            name,
            cat,
            start,
            at,
            args,
        } => {
            open(out, (pid, tid), name, cat, start, at, args.iter().copied());
        }
        EventRef::Instant {
            pid,
            tid,
            name,
            cat,
            at,
            args,
        } => {
            instant(out, (pid, tid), name, cat, at, args.iter().copied());
        }
        EventRef::Counter {
            pid,
            name,
            at,
            value,
        } => counter(out, pid, name, at, value),
        EventRef::Flow {
            id,
            name,
            cat,
            from,
            to,
        } => {
            let end = |(pid, tid, at)| FlowEnd::plain((pid, tid), at);
            flow(out, id, name, cat, end(from), end(to));
        }
        EventRef::Async {
            pid,
            name,
            cat,
            id,
            span,
            args,
        } => {
            async_slice(out, pid, name, cat, id, span, args.iter().copied());
        }
        EventRef::Loss { source, at, total } => loss(out, owner, source, at, total),
        EventRef::Note { text } => note(out, owner, text),
    }
}

pub(super) fn slice<'a>(
    out: &mut Vec<u8>,
    place: Place,
    name: &str,
    cat: &str,
    span: Interval,
    args: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) {
    let mut line = Line::at(out, b'X', place);
    line.time("ts", span.start.as_nanos());
    line.time("dur", span.len().get());
    line.named(name, cat);
    line.args(args);
    line.end();
}

fn open<'a>(
    out: &mut Vec<u8>,
    place: Place,
    name: &str,
    cat: &str,
    start: TraceTime,
    at: TraceTime,
    args: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) {
    let mut line = Line::at(out, b'i', place);
    line.time("ts", at.as_nanos());
    line.text("s", "t");
    line.named(name, vocab::cat::OPEN);
    line.raw(",\"open\":{\"start_ns\":");
    json::integer(line.out, start.as_nanos());
    line.text("cat", cat);
    line.raw("}");
    line.args(args);
    line.end();
}

pub(super) fn instant<'a>(
    out: &mut Vec<u8>,
    place: Place,
    name: &str,
    cat: &str,
    at: TraceTime,
    args: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) {
    let mut line = Line::at(out, b'i', place);
    line.time("ts", at.as_nanos());
    line.text("s", "t");
    line.named(name, cat);
    line.args(args);
    line.end();
}

/// A counter sample. One that is not finite stands in a metadata event, since viewers refuse it.
pub(super) fn counter(out: &mut Vec<u8>, pid: Pid, name: &str, at: TraceTime, value: f64) {
    if value.is_finite() {
        let mut line = Line::start(out, b'C', pid);
        line.time("ts", at.as_nanos());
        line.text("name", name);
        line.args([("value", ValueRef::F64(value))].into_iter());
        line.end();
    } else {
        let mut line = Line::start(out, b'M', pid);
        line.text("name", COUNTER_EVENT);
        let at = ValueRef::U64(at.as_nanos());
        let args = [
            ("name", ValueRef::Str(name)),
            ("at_ns", at),
            ("value", ValueRef::F64(value)),
        ];
        line.args(args.into_iter());
        line.end();
    }
}

/// One end of a flow as viewers take it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowEnd<'a> {
    pub(super) place: Place,
    /// When viewers look for the slice.
    pub(super) ts: TraceTime,
    /// The end's own time.
    pub(super) at: TraceTime,
    /// The category of an instant that viewers take in place of the slice.
    pub(super) marker: Option<&'a str>,
}

impl FlowEnd<'_> {
    fn plain(place: Place, at: TraceTime) -> Self {
        Self {
            place,
            ts: at,
            at,
            marker: None,
        }
    }
}

pub(super) fn flow(
    out: &mut Vec<u8>,
    id: u64,
    name: &str,
    cat: &str,
    from: FlowEnd<'_>,
    to: FlowEnd<'_>,
) {
    for (ph, end) in [(b's', from), (b'f', to)] {
        if let Some(cat) = end.marker {
            let mut line = Line::at(out, b'i', end.place);
            line.time("ts", end.ts.as_nanos());
            line.text("s", "t");
            line.named(name, cat);
            line.raw(",\"marker\":true");
            line.args([("flow_marker", ValueRef::Bool(true))].into_iter());
            line.end();
        }
        let mut line = Line::at(out, ph, end.place);
        line.time("ts", end.ts.as_nanos());
        line.named(name, cat);
        line.key("id");
        // Viewers take signed integers.
        json::integer(line.out, id as i64);
        if ph == b'f' {
            line.text("bp", "e");
        }
        if end.at != end.ts {
            line.key("at_ns");
            json::integer(line.out, end.at.as_nanos());
        }
        line.end();
    }
}

pub(super) fn async_slice<'a>(
    out: &mut Vec<u8>,
    pid: Pid,
    name: &str,
    cat: &str,
    id: u64,
    span: Interval,
    args: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) {
    let mut line = Line::start(out, b'b', pid);
    line.time("ts", span.start.as_nanos());
    line.named(name, cat);
    line.local_id(id);
    line.args(args);
    line.end();
    let mut line = Line::start(out, b'e', pid);
    line.time("ts", span.end.as_nanos());
    line.named(name, cat);
    line.local_id(id);
    line.end();
}

/// An instant that says what the scheduler tracks lack. It is no event of the recording.
pub(super) fn left_out(out: &mut Vec<u8>, owner: Pid, drawn: u64, left_out: u64, longest: Nanos) {
    let mut line = Line::at(out, b'i', (owner, Tid(owner.0)));
    line.time("ts", 0);
    line.text("s", "t");
    line.named("scheduler tracks are not complete", LEFT_OUT_CAT);
    line.raw(",\"marker\":true");
    let args = [
        ("drawn", ValueRef::U64(drawn)),
        ("left_out", ValueRef::U64(left_out)),
        ("longest_left_out_ns", ValueRef::U64(longest.get())),
    ];
    line.args(args.into_iter());
    line.end();
}

/// A count of lost events, as a counter track of its own.
pub(super) fn loss(out: &mut Vec<u8>, owner: Pid, source: &str, at: TraceTime, total: u64) {
    let mut line = Line::start(out, b'C', owner);
    line.time("ts", at.as_nanos());
    line.raw(",\"name\":");
    json::string(line.out, &format!("{} {source}", vocab::LOST_EVENTS));
    line.text("cat", LOSS_CAT);
    line.key("total");
    json::integer(line.out, total);
    line.args([("value", ValueRef::F64(total as f64))].into_iter());
    line.end();
}
