//! The processes and threads that events name, and the tracks that their slices get.

use super::category::Place;
use super::event::Id;
use super::text::Texts;
use crate::{Strings, Symbol, TrackId};
use std::collections::HashMap;

/// A process or thread id: an integer, or the number of a text, far below all integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(i64);

const FIRST_TEXT: i64 = i64::MIN;

impl Key {
    /// The key of `id`; of an event without one, that of 0.
    #[inline]
    pub(super) fn new(id: Id<'_>, strings: &mut Strings, texts: &mut Texts) -> Self {
        match id {
            Id::None => Self(0),
            Id::Int(number) => Self(number),
            Id::Text(text) => {
                let symbol = texts.symbol(text, strings);
                Self(FIRST_TEXT + i64::from(symbol.0))
            }
        }
    }

    /// The key of an integer.
    pub(super) fn of_number(number: i64) -> Self {
        Self(number)
    }

    /// The integer, if it is one.
    pub(super) fn number(self) -> Option<i64> {
        self.text().is_none().then_some(self.0)
    }

    /// The text, if it is one.
    pub(super) fn text(self) -> Option<Symbol> {
        u32::try_from(self.0.wrapping_sub(FIRST_TEXT))
            .ok()
            .map(Symbol)
    }
}

/// The process and thread id of events.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) pid: Key,
    pub(super) tid: Key,
    /// Track of its slices that belong on a thread.
    pub(super) thread: Option<TrackId>,
    /// Track of its device operations that came last.
    stream: Option<((i64, i64), TrackId)>,
}

/// What a track is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Made {
    /// The thread of a lane, by its position.
    Thread(u32),
    /// A stream of a device.
    Device {
        device: i64,
        stream: i64,
        place: Place,
    },
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    by_key: HashMap<(Key, Key), u32>,
    last: Option<((Key, Key), u32)>,
    /// What the tracks are for, by [`TrackId`].
    pub(super) tracks: Vec<Made>,
    devices: HashMap<(i64, i64, Place), TrackId>,
}

impl Lanes {
    /// The position of the lane with these ids.
    #[inline]
    pub(super) fn lane(&mut self, pid: Key, tid: Key) -> u32 {
        let key = (pid, tid);
        if let Some((last, lane)) = self.last
            && last == key
        {
            return lane;
        }
        let lanes = &mut self.lanes;
        let lane = *self.by_key.entry(key).or_insert_with(|| {
            lanes.push(Lane {
                pid,
                tid,
                thread: None,
                stream: None,
            });
            lanes.len() as u32 - 1
        });
        self.last = Some((key, lane));
        lane
    }

    /// The track of the thread of `lane`.
    #[inline]
    pub(super) fn thread(&mut self, lane: u32) -> TrackId {
        let tracks = &mut self.tracks;
        let thread = &mut self.lanes[lane as usize].thread;
        *thread.get_or_insert_with(|| {
            tracks.push(Made::Thread(lane));
            TrackId(tracks.len() as u32 - 1)
        })
    }

    /// The track of a stream, and its device and stream. Where the event does not name them, the
    /// ids of its lane do: `pid` is the device, `tid` the stream (`7` or `stream 7`).
    pub(super) fn device(
        &mut self,
        lane: u32,
        place: Place,
        named: (Option<i64>, Option<i64>),
        strings: &Strings,
    ) -> (TrackId, (i64, i64)) {
        let own = &self.lanes[lane as usize];
        let device = named.0.or_else(|| own.pid.number()).unwrap_or(0);
        let stream = named.1.or_else(|| stream(own.tid, strings)).unwrap_or(0);
        let at = (device, stream);
        if let Some((last, track)) = own.stream
            && last == at
            && place == Place::Stream
        {
            return (track, at);
        }
        let tracks = &mut self.tracks;
        let track = *self
            .devices
            .entry((device, stream, place))
            .or_insert_with(|| {
                tracks.push(Made::Device {
                    device,
                    stream,
                    place,
                });
                TrackId(tracks.len() as u32 - 1)
            });
        if place == Place::Stream {
            self.lanes[lane as usize].stream = Some((at, track));
        }
        (track, at)
    }

    /// The track on which a flow ends that names `lane`; the stream's, if `stream` and it has one.
    pub(super) fn flow_end(&self, lane: u32, stream: bool) -> Option<TrackId> {
        let lane = self.lanes.get(lane as usize)?;
        let on_stream = lane.stream.map(|(_, track)| track);
        match stream {
            true => on_stream.or(lane.thread),
            false => lane.thread.or(on_stream),
        }
    }
}

fn stream(tid: Key, strings: &Strings) -> Option<i64> {
    match tid.text() {
        None => tid.number(),
        Some(text) => strings
            .get(text)
            .strip_prefix("stream ")?
            .trim()
            .parse()
            .ok(),
    }
}
