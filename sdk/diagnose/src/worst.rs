//! The longest stalls of a finding, each with what filled it.

use crate::chain::walk;
use crate::charge::{Source, Stall};
use crate::finding::Run;
use crate::piece::Piece;
use crate::report;
use crate::stats::round_share;
use crate::tally::on_cpu;
use gpustall_trace::Nanos;
use std::cmp::Reverse;

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
        let walked = joined(walk(self.timeline, stall));
        let (shown, rest) = walked.split_at(walked.len().min(MAX_PIECES));
        let unlisted: Nanos = rest.iter().map(|&(_, ns)| ns).sum();
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
            pieces: shown
                .iter()
                .map(|(piece, ns)| self.piece(stall, piece, *ns))
                .collect(),
            unlisted_ns: unlisted.get(),
        }
    }

    fn piece(&self, stall: &Stall, piece: &Piece, ns: Nanos) -> report::StallPiece {
        let stage = piece
            .stage
            .and_then(|stage| self.timeline.stages.get(stage));
        report::StallPiece {
            what: piece.kind,
            who: piece.track.map(|track| self.timeline.thread_name(track)),
            batch: stage.and_then(|stage| stage.batch),
            ns: ns.get(),
            share: round_share(ns.share_of(stall.lost)),
            on_cpu: piece
                .stage
                .and_then(|s| on_cpu(self.timeline, s))
                .map(round_share),
            edge: piece.edge,
        }
    }
}

/// The pieces with their lengths; those that follow each other and say the same are one, whatever
/// of other causes lies between them.
fn joined(pieces: Vec<Piece>) -> Vec<(Piece, Nanos)> {
    let mut joined: Vec<(Piece, Nanos)> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let ns = piece.span.len();
        let says = |of: &Piece| (of.kind, of.track, of.stage, of.slice, of.named, of.edge);
        match joined.last_mut() {
            Some((last, sum)) if says(last) == says(&piece) => *sum += ns,
            _ => joined.push((piece, ns)),
        }
    }
    joined
}
