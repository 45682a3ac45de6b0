//! From frames to events for a trace's writer.

use crate::error::ProtocolError;
use crate::event::{Arg, Event, TextId, Value};
use crate::{MAX_TEXT_BYTES, MAX_TEXTS_BYTES};
use gpustall_trace::{EventRef, Interval, Nanos, Pid, Tid, TraceTime, TrackKind, ValueRef};
use std::collections::HashMap;

/// Most arguments of one event.
const MAX_ARGS: usize = 256;

/// Most tracks of one connection.
const MAX_TRACKS: usize = 1 << 20;

/// What one connection has introduced so far.
#[derive(Debug, Default)]
pub struct Decoder {
    texts: Vec<Box<str>>,
    texts_bytes: usize,
    tracks: HashMap<u32, (Pid, Tid)>,
}

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// More follows.
    More,
    /// It was the last.
    End,
}

impl Decoder {
    /// Hands each event of a frame to `take`.
    ///
    /// # Errors
    /// When the frame is not well-formed; the events before that were handed over.
    pub fn frame(
        &mut self,
        mut frame: &[u8],
        mut take: impl FnMut(&EventRef<'_>),
    ) -> Result<Decoded, ProtocolError> {
        while !frame.is_empty() {
            let (event, rest) = postcard::take_from_bytes::<Event<'_>>(frame)
                .map_err(|_| ProtocolError::Malformed("an event"))?;
            frame = rest;
            if self.event(&event, &mut take)? == Decoded::End {
                return Ok(Decoded::End);
            }
        }
        Ok(Decoded::More)
    }

    fn event(
        &mut self,
        event: &Event<'_>,
        take: &mut impl FnMut(&EventRef<'_>),
    ) -> Result<Decoded, ProtocolError> {
        match event {
            Event::ForgetTexts => {
                self.texts.clear();
                self.texts_bytes = 0;
            }
            Event::Text(text) => self.introduce_text(text)?,
            &Event::Process { pid, name, sort } => take(&EventRef::Process {
                pid: Pid(pid),
                name: self.text(name)?,
                sort,
            }),
            &Event::Track {
                track,
                pid,
                tid,
                name,
                sort,
                synthetic,
            } => {
                let (pid, tid) = (Pid(pid), Tid(tid));
                if self.tracks.len() >= MAX_TRACKS && !self.tracks.contains_key(&track) {
                    return Err(limit("all tracks", self.tracks.len(), MAX_TRACKS));
                }
                self.tracks.insert(track, (pid, tid));
                let kind = match synthetic {
                    true => TrackKind::Synthetic,
                    false => TrackKind::Thread,
                };
                let name = self.text(name)?;
                take(&EventRef::Track {
                    pid,
                    tid,
                    name,
                    sort,
                    kind,
                });
            }
            Event::Slice {
                track,
                name,
                cat,
                start,
                length,
                args,
            } => {
                let (pid, tid) = self.track(*track)?;
                take(&EventRef::Slice {
                    pid,
                    tid,
                    name: self.text(*name)?,
                    cat: self.text(*cat)?,
                    span: span(*start, *length),
                    args: &self.args(args)?,
                });
            }
            Event::Instant {
                track,
                name,
                cat,
                at,
                args,
            } => {
                let (pid, tid) = self.track(*track)?;
                take(&EventRef::Instant {
                    pid,
                    tid,
                    name: self.text(*name)?,
                    cat: self.text(*cat)?,
                    at: TraceTime::from_nanos(*at),
                    args: &self.args(args)?,
                });
            }
            &Event::Counter {
                pid,
                name,
                at,
                value,
            } => take(&EventRef::Counter {
                pid: Pid(pid),
                name: self.text(name)?,
                at: TraceTime::from_nanos(at),
                value,
            }),
            &Event::Flow {
                id,
                name,
                cat,
                from,
                to,
            } => take(&EventRef::Flow {
                id,
                name: self.text(name)?,
                cat: self.text(cat)?,
                from: self.end(from)?,
                to: self.end(to)?,
            }),
            Event::Async {
                pid,
                name,
                cat,
                id,
                start,
                length,
                args,
            } => take(&EventRef::Async {
                pid: Pid(*pid),
                name: self.text(*name)?,
                cat: self.text(*cat)?,
                id: *id,
                span: span(*start, *length),
                args: &self.args(args)?,
            }),
            &Event::Loss { source, at, total } => take(&EventRef::Loss {
                source: self.text(source)?,
                at: TraceTime::from_nanos(at),
                total,
            }),
            Event::Note(text) => take(&EventRef::Note { text }),
            Event::End => return Ok(Decoded::End),
        }
        Ok(Decoded::More)
    }

    fn introduce_text(&mut self, text: &str) -> Result<(), ProtocolError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(limit("a text", text.len(), MAX_TEXT_BYTES));
        }
        // An empty text takes place too.
        self.texts_bytes += text.len() + size_of::<Box<str>>();
        if self.texts_bytes > MAX_TEXTS_BYTES {
            return Err(limit("all texts", self.texts_bytes, MAX_TEXTS_BYTES));
        }
        self.texts.push(text.into());
        Ok(())
    }

    fn text(&self, number: TextId) -> Result<&str, ProtocolError> {
        let what = "text";
        let text = self.texts.get(number as usize);
        text.map(AsRef::as_ref)
            .ok_or(ProtocolError::Unknown { what, number })
    }

    fn track(&self, number: u32) -> Result<(Pid, Tid), ProtocolError> {
        let what = "track";
        let place = self.tracks.get(&number).copied();
        place.ok_or(ProtocolError::Unknown { what, number })
    }

    fn end(&self, (track, at): (u32, u64)) -> Result<(Pid, Tid, TraceTime), ProtocolError> {
        let (pid, tid) = self.track(track)?;
        Ok((pid, tid, TraceTime::from_nanos(at)))
    }

    fn args(&self, args: &[Arg]) -> Result<Vec<(&str, ValueRef<'_>)>, ProtocolError> {
        if args.len() > MAX_ARGS {
            return Err(limit("all arguments", args.len(), MAX_ARGS));
        }
        let value = |value| {
            Ok(match value {
                Value::Bool(value) => ValueRef::Bool(value),
                Value::U64(value) => ValueRef::U64(value),
                Value::I64(value) => ValueRef::I64(value),
                Value::F64(value) => ValueRef::F64(value),
                Value::Text(number) => ValueRef::Str(self.text(number)?),
            })
        };
        let args = args.iter();
        args.map(|&(key, v)| Ok((self.text(key)?, value(v)?)))
            .collect()
    }
}

fn span(start: u64, length: u64) -> Interval {
    let start = TraceTime::from_nanos(start);
    Interval::new(start, start + Nanos::new(length))
}

fn limit(what: &'static str, bytes: usize, limit: usize) -> ProtocolError {
    ProtocolError::TooLong { what, bytes, limit }
}
