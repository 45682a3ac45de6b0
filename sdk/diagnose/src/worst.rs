//! The longest stalls of a finding, each with what filled it.

use crate::chain::walk;
use crate::charge::{Source, Stall};
use crate::finding::Run;
use crate::piece::{Piece, PieceKind};
use crate::report;
use crate::state_links;
use crate::stats::round_share;
use crate::tally::{covers, on_cpu};
use crate::threads::{StateSums, tid_of};
use gpustall_trace::{Nanos, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How many of the longest stalls a finding lists.
pub const WORST_STALLS: usize = 5;

/// How many pieces of one stall are listed, the earliest first.
pub const MAX_PIECES: usize = 12;

impl Run<'_> {
    pub(crate) fn worst(&self, stalls: &[&Stall]) -> Vec<report::Stall> {
        let mut worst: Vec<&Stall> = stalls.to_vec();
        worst.sort_by_key(|stall| (Reverse(stall.lost), stall.start()));
        worst.truncate(WORST_STALLS);
        worst.into_iter().map(|stall| self.one(stall)).collect()
    }

    fn one(&self, stall: &Stall) -> report::Stall {
        let wait = match stall.source {
            Source::Wait(i) => self.timeline.waits.get(i),
            _ => None,
        };
        let walked = self.joined(walk(self.timeline, stall));
        let (shown, rest) = walked.split_at(walked.len().min(MAX_PIECES));
        let unlisted: Nanos = rest.iter().map(|part| part.ns).sum();
        // Without steps nobody trains; the device stands for itself.
        let trainer = self
            .trainers
            .get(stall.trainer)
            .map(|trainer| &trainer.name);
        let name = trainer.or_else(|| self.accounts.get(stall.device).map(|of| &of.name));
        report::Stall {
            start_ns: stall.start().as_nanos(),
            lost_ns: stall.lost.get(),
            thread: name.cloned().unwrap_or_default(),
            epoch: wait.and_then(|wait| wait.epoch),
            step: wait.and_then(|wait| wait.step),
            batch: wait.and_then(|wait| wait.batch),
            unfinished: wait.is_some_and(|wait| wait.unfinished),
            pieces: shown.iter().map(|part| self.piece(stall, part)).collect(),
            unlisted_ns: unlisted.get(),
            states: self.states(stall, &walked),
        }
    }

    /// What the scheduler says of the threads of a stall, the most first.
    fn states(&self, stall: &Stall, walked: &[Part]) -> Vec<report::StallState> {
        let mut by_thread: BTreeMap<TrackId, (Nanos, StateSums)> = BTreeMap::new();
        // Who waits for a batch that is made, or for one that nobody knows, is asleep.
        let told = |part: &&Part| {
            use PieceKind::{HandOff, UnknownWorker};
            !matches!(part.piece.kind, HandOff | UnknownWorker)
        };
        for part in walked.iter().filter(told) {
            if let Some(track) = part.piece.track {
                let of = by_thread.entry(track).or_default();
                of.0 += part.ns;
                of.1.merge(&part.states);
            }
        }
        let links = by_thread.iter().flat_map(|(&track, (ns, sums))| {
            let who = self.timeline.thread_name(track);
            state_links::links(self.timeline, sums, (0, &who, *ns), stall.lost)
        });
        let mut states: Vec<report::StallState> = links
            .map(|link| report::StallState {
                who: link.who,
                what: link.what,
                ns: link.ns,
                share: link.share,
                edge: link.edge,
                evidence: link.evidence,
            })
            .collect();
        states.sort_by_key(|state| Reverse(state.ns));
        states
    }

    fn piece(&self, stall: &Stall, part: &Part) -> report::StallPiece {
        let (piece, ns) = (&part.piece, part.ns);
        let watched = covers(part.states.known(), ns);
        let stage_share = || on_cpu(self.timeline, piece.stage?);
        let on_cpu = match watched {
            true => Some(part.states.on_cpu.share_of(part.states.known())),
            false => stage_share(),
        };
        let stage = piece
            .stage
            .and_then(|stage| self.timeline.stages.get(stage));
        report::StallPiece {
            what: piece.kind,
            who: piece.track.map(|track| self.timeline.thread_name(track)),
            batch: stage.and_then(|stage| stage.batch),
            ns: ns.get(),
            share: round_share(ns.share_of(stall.lost)),
            on_cpu: on_cpu.map(round_share),
            edge: piece.edge,
        }
    }

    /// The pieces with their lengths; those that follow each other and say the same are one, whatever
    /// of other causes lies between them.
    fn joined(&self, pieces: Vec<Piece>) -> Vec<Part> {
        let mut joined: Vec<Part> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let says = |of: &Piece| (of.kind, of.track, of.stage, of.slice, of.named, of.edge);
            match joined.last_mut() {
                Some(last) if says(&last.piece) == says(&piece) => {}
                _ => joined.push(Part {
                    piece,
                    ns: Nanos::ZERO,
                    states: StateSums::default(),
                }),
            }
            let Some(part) = joined.last_mut() else {
                continue;
            };
            part.ns += piece.span.len();
            if let Some(track) = piece.track
                && let Some(tid) = tid_of(self.timeline.trace, track)
                && let Some(lane) = self.timeline.lane(track)
            {
                part.states
                    .add(&self.timeline.kernel, tid, lane, piece.span);
            }
        }
        joined
    }
}

/// Pieces of a stall that follow each other and say the same.
struct Part {
    piece: Piece,
    ns: Nanos,
    states: StateSums,
}
