//! What the pieces of many stalls add up to.

use crate::piece::{Edge, Piece, PieceKind};
use crate::stages::StageKind;
use crate::threads::{StateSums, tid_of};
use crate::timeline::Timeline;
use gpustall_trace::{Nanos, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Pieces of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    pub(crate) ns: Nanos,
    /// Of that, what was only inferred.
    pub(crate) inferred: Nanos,
    /// By thread name.
    pub(crate) by_thread: BTreeMap<String, Nanos>,
    /// Length of the pieces whose stage says its CPU time.
    cpu_known: Nanos,
    /// Of that, the part on a CPU.
    on_cpu: f64,
    /// Length of the pieces whose stage says how long it waited for a CPU.
    runnable_known: Nanos,
    /// Of that, the part in which it waited for one.
    runnable: f64,
    /// The stages that the pieces are of.
    pub(crate) stages: BTreeSet<usize>,
    /// The slices of device operations that the pieces are of.
    pub(crate) operations: BTreeSet<usize>,
    /// By the name of the call, of the copy, or of the phase around it.
    pub(crate) by_name: BTreeMap<Symbol, Nanos>,
    /// By the user's own span, the innermost one.
    pub(crate) by_span: BTreeMap<Symbol, Nanos>,
    /// What the kernel says of their threads.
    pub(crate) states: StateSums,
}

impl Sum {
    /// Share of the time on a CPU, where it was measured for nearly all of it: by the scheduler, or else
    /// by the stages. A stage that never ended says nothing of its CPU time, and the others do not
    /// speak for it.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        if self.is_watched() {
            return Some(self.states.on_cpu.share_of(self.states.known()));
        }
        let known = self.cpu_known;
        covers(known, self.ns).then(|| self.on_cpu / known.get() as f64)
    }

    /// Share of the time in which the thread was ready and waited for a CPU, where it was measured.
    pub(crate) fn runnable_share(&self) -> Option<f64> {
        if self.is_watched() {
            return Some(self.states.waiting.share_of(self.states.known()));
        }
        let known = self.runnable_known;
        covers(known, self.ns).then(|| self.runnable / known.get() as f64)
    }

    /// Whether the scheduler says what the threads did in nearly all of it.
    pub(crate) fn is_watched(&self) -> bool {
        covers(self.states.known(), self.ns)
    }

    pub(crate) fn edge(&self) -> Edge {
        if self.inferred == Nanos::ZERO {
            Edge::Observed
        } else {
            Edge::Inferred
        }
    }
}

/// Whether what is known of a time may stand for all of it: at least nine tenths are.
pub(crate) fn covers(known: Nanos, all: Nanos) -> bool {
    known > Nanos::ZERO && known.get().saturating_mul(10) >= all.get().saturating_mul(9)
}

/// Sums by kind of piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) sums: BTreeMap<PieceKind, Sum>,
}

impl Tally {
    /// Adds the pieces of one stall.
    pub(crate) fn add(&mut self, timeline: &Timeline<'_>, pieces: &[Piece]) {
        for piece in pieces {
            let ns = piece.span.len();
            let sum = self.sums.entry(piece.kind).or_default();
            sum.ns += ns;
            if piece.edge == Edge::Inferred {
                sum.inferred += ns;
            }
            if let Some(track) = piece.track {
                *sum.by_thread
                    .entry(timeline.thread_name(track))
                    .or_default() += ns;
                for (name, ns) in timeline.spans.during(track, piece.span) {
                    *sum.by_span.entry(name).or_default() += ns;
                }
                if let (Some(tid), Some(lane)) =
                    (tid_of(timeline.trace, track), timeline.lane(track))
                {
                    sum.states.add(&timeline.kernel, tid, lane, piece.span);
                }
            }
            if let Some(name) = piece.named {
                *sum.by_name.entry(name).or_default() += ns;
            }
            if on_device(piece.kind) {
                sum.operations.extend(piece.slice);
            }
            if let Some(stage) = piece.stage {
                sum.stages.insert(stage);
                if let Some(share) = on_cpu(timeline, stage) {
                    sum.cpu_known += ns;
                    sum.on_cpu += share * ns.get() as f64;
                }
                if let Some(share) = waited_for_cpu(timeline, stage) {
                    sum.runnable_known += ns;
                    sum.runnable += share * ns.get() as f64;
                }
            }
        }
    }

    /// Time of the kinds that `which` picks.
    pub(crate) fn total(&self, which: impl Fn(PieceKind) -> bool) -> Nanos {
        self.picked(which).map(|(_, sum)| sum.ns).sum()
    }

    /// Share of the stages of the kinds that `which` picks in which their thread waited for a CPU.
    pub(crate) fn runnable_share(&self, which: impl Fn(PieceKind) -> bool) -> Option<f64> {
        let sums = self.picked(which).map(|(_, sum)| sum);
        let (known, runnable) = sums.fold((0.0, 0.0), |(known, runnable), sum| {
            (
                known + sum.runnable_known.get() as f64,
                runnable + sum.runnable,
            )
        });
        (known > 0.0).then(|| runnable / known)
    }

    /// What the kernel says of the threads of all pieces.
    pub(crate) fn states(&self) -> StateSums {
        let mut states = StateSums::default();
        for sum in self.sums.values() {
            states.merge(&sum.states);
        }
        states
    }

    /// Time per thread, of the kinds that `which` picks, the most first.
    pub(crate) fn threads(&self, which: impl Fn(PieceKind) -> bool) -> Vec<(String, Nanos)> {
        let mut threads: BTreeMap<&str, Nanos> = BTreeMap::new();
        for (name, &ns) in self.picked(which).flat_map(|(_, sum)| &sum.by_thread) {
            *threads.entry(name).or_default() += ns;
        }
        let mut threads: Vec<_> = threads
            .into_iter()
            .map(|(n, ns)| (n.to_owned(), ns))
            .collect();
        threads.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        threads
    }

    /// The sums of the kinds that `which` picks, the most first.
    pub(crate) fn largest(&self, which: impl Fn(PieceKind) -> bool) -> Vec<(PieceKind, &Sum)> {
        let mut sums: Vec<_> = self.picked(which).collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
        sums
    }

    fn picked(&self, which: impl Fn(PieceKind) -> bool) -> impl Iterator<Item = (PieceKind, &Sum)> {
        let sums = self.sums.iter().map(|(&kind, sum)| (kind, sum));
        sums.filter(move |&(kind, _)| which(kind))
    }
}

/// Share of a stage in which its thread was on a CPU, where it was measured.
pub(crate) fn on_cpu(timeline: &Timeline<'_>, stage: usize) -> Option<f64> {
    let stage = timeline.stages.get(stage)?;
    let share = stage.cpu?.share_of(stage.span.len());
    (!stage.span.is_empty()).then_some(share)
}

/// Share of a stage in which its thread was ready and waited for a CPU, where it was measured.
pub(crate) fn waited_for_cpu(timeline: &Timeline<'_>, stage: usize) -> Option<f64> {
    let stage = timeline.stages.get(stage)?;
    let share = stage.runnable?.share_of(stage.span.len());
    (!stage.span.is_empty()).then_some(share)
}

/// Whether pieces of this kind are operations of a device.
pub(crate) fn on_device(kind: PieceKind) -> bool {
    use PieceKind::{Collective, Copy, Straggler};
    matches!(kind, Copy | Collective | Straggler)
}

/// Whether pieces of this kind lie on a worker.
pub(crate) fn on_worker(kind: PieceKind) -> bool {
    use PieceKind::{Collate, EarlierCollate, EarlierGet, Get, Idle, LaterCollate, LaterGet};
    matches!(
        kind,
        Get | Collate | EarlierGet | EarlierCollate | LaterGet | LaterCollate | Idle
    )
}

/// The kind of stage of a piece, if it is one.
pub(crate) fn stage_kind(kind: PieceKind) -> Option<StageKind> {
    match kind {
        PieceKind::Get | PieceKind::EarlierGet | PieceKind::LaterGet => Some(StageKind::Get),
        PieceKind::Collate | PieceKind::EarlierCollate | PieceKind::LaterCollate => {
            Some(StageKind::Collate)
        }
        _ => None,
    }
}
