//! Where tracks stand: a lane that came with a thread stays beside it when the thread is joined.

use crate::{Pid, Track, TrackId, TrackKind};
use std::collections::BTreeMap;

/// The tracks of each process from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Order(BTreeMap<Pid, Vec<TrackId>>);

impl Order {
    /// Adds the tracks of one recording: for each what it was, what it became, and whether that was
    /// there before.
    pub(super) fn add(&mut self, mut tracks: Vec<(Track, TrackId, bool)>) {
        tracks.sort_by_key(|(track, ..)| (track.pid, track.sort));
        let mut beside: Option<(Pid, TrackId)> = None;
        for (track, id, joined) in tracks {
            let list = self.0.entry(track.pid).or_default();
            if joined {
                beside = Some((track.pid, id));
                continue;
            }
            let thread = beside.filter(|(pid, _)| *pid == track.pid);
            let at = match (track.kind, thread) {
                (TrackKind::Synthetic, Some((_, thread))) => {
                    list.iter().rposition(|other| *other == thread)
                }
                _ => None,
            };
            list.insert(at.map_or(list.len(), |at| at + 1), id);
            // What follows comes after this one.
            beside = match track.kind {
                TrackKind::Synthetic if at.is_some() => Some((track.pid, id)),
                _ => None,
            };
        }
    }

    /// Numbers the tracks of each process.
    pub(super) fn finish(&self, tracks: &mut [Track]) {
        for list in self.0.values() {
            for (sort, id) in (0..).zip(list) {
                tracks[id.index()].sort = sort;
            }
        }
    }
}
