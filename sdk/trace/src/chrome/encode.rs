//! One event as lines of Chrome JSON. Every line ends in `,\n`.

use super::json;
use crate::schema::{COUNTER_EVENT, END_EVENT, LOSS_CAT, META_EVENT, NOTE_EVENT, TRACE_SCHEMA};
use crate::{EventRef, Interval, Meta, Pid, Tid, TraceTime, TrackKind, ValueRef, vocab};

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

/// The line that makes a file ours: the schema and the recording's `meta`.
pub(super) fn meta(out: &mut Vec<u8>, meta: &Meta) {
    let mut line = Line::start(out, b'M', meta.pid);
    line.text("name", META_EVENT);
    line.raw(",\"args\":{\"schema\":");
    json::integer(line.out, TRACE_SCHEMA);
    line.raw(",\"meta\":");
    serde_json::to_writer(&mut *line.out, meta).expect("a Vec takes every write");
    line.raw("}");
    line.end();
}

/// The line after the last event of a finished file.
pub(super) fn end(out: &mut Vec<u8>, owner: Pid) {
    let mut line = Line::start(out, b'M', owner);
    line.text("name", END_EVENT);
    line.end();
}

pub(super) fn process(out: &mut Vec<u8>, pid: Pid, name: &str, sort: i32) {
    let mut line = Line::start(out, b'M', pid);
    line.text("name", "process_name");
    line.args([("name", ValueRef::Str(name))].into_iter());
    line.end();
    let mut line = Line::start(out, b'M', pid);
    line.text("name", "process_sort_index");
    line.args([("sort_index", ValueRef::I64(sort.into()))].into_iter());
    line.end();
}

/// A track; `lane_of` names the track whose overlapping slices an extra lane holds.
pub(super) fn track(
    out: &mut Vec<u8>,
    place: Place,
    name: &str,
    sort: i32,
    kind: TrackKind,
    lane_of: Option<Tid>,
) {
    let mut line = Line::at(out, b'M', place);
    line.text("name", "thread_name");
    let kind = match kind {
        TrackKind::Thread => "thread",
        TrackKind::Synthetic => "synthetic",
    };
    let own = [("name", ValueRef::Str(name)), ("kind", ValueRef::Str(kind))];
    let lane = lane_of.map(|tid| ("lane_of", ValueRef::U64(tid.0.into())));
    line.args(own.into_iter().chain(lane));
    line.end();
    let mut line = Line::at(out, b'M', place);
    line.text("name", "thread_sort_index");
    line.args([("sort_index", ValueRef::I64(sort.into()))].into_iter());
    line.end();
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

fn note(out: &mut Vec<u8>, owner: Pid, text: &str) {
    let mut line = Line::start(out, b'M', owner);
    line.text("name", NOTE_EVENT);
    line.args([("text", ValueRef::Str(text))].into_iter());
    line.end();
}

/// An event that is being appended.
struct Line<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Line<'o> {
    fn start(out: &'o mut Vec<u8>, ph: u8, pid: Pid) -> Self {
        out.extend_from_slice(b"{\"ph\":\"");
        out.push(ph);
        out.extend_from_slice(b"\",\"pid\":");
        json::integer(out, pid.0);
        Self { out }
    }

    fn at(out: &'o mut Vec<u8>, ph: u8, (pid, tid): Place) -> Self {
        let line = Self::start(out, ph, pid);
        line.out.extend_from_slice(b",\"tid\":");
        json::integer(line.out, tid.0);
        line
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn key(&mut self, key: &str) {
        self.raw(",\"");
        self.raw(key);
        self.raw("\":");
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json::string(self.out, text);
    }

    fn named(&mut self, name: &str, cat: &str) {
        self.text("name", name);
        self.text("cat", cat);
    }

    fn time(&mut self, key: &str, ns: u64) {
        self.key(key);
        json::micros(self.out, ns);
    }

    /// An id that is unique in the process and category of the event only.
    fn local_id(&mut self, id: u64) {
        self.raw(&format!(",\"id2\":{{\"local\":\"{id:#x}\"}}"));
    }

    fn args<'a>(&mut self, args: impl Iterator<Item = (&'a str, ValueRef<'a>)>) {
        let mut before = ",\"args\":{";
        let mut any = false;
        for (key, value) in args {
            self.raw(before);
            json::string(self.out, key);
            self.out.push(b':');
            json::value(self.out, value);
            before = ",";
            any = true;
        }
        if any {
            self.out.push(b'}');
        }
    }

    fn end(self) {
        self.out.extend_from_slice(b"},\n");
    }
}
