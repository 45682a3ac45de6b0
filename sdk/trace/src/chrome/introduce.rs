//! The lines that say what the others are about: the recording, processes, tracks, notes.

use super::encode::Place;
use super::json;
use super::line::Line;
use crate::schema::{END_EVENT, META_EVENT, NOTE_EVENT, TRACE_SCHEMA};
use crate::{Meta, Pid, Tid, TrackKind, ValueRef};

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

/// A sentence for the user.
pub(super) fn note(out: &mut Vec<u8>, owner: Pid, text: &str) {
    let mut line = Line::start(out, b'M', owner);
    line.text("name", NOTE_EVENT);
    line.args([("text", ValueRef::Str(text))].into_iter());
    line.end();
}
