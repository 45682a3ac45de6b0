//! The stages of each batch, and what each thread that makes batches did when.

use crate::names::{Names, flag, integer, text};
use crate::partition::{Claim, partition};
use gpustall_trace::{Interval, Nanos, Slice, TraceTime, TrackId};
use std::collections::HashMap;

/// What is done to make a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StageKind {
    /// Items read from the data set.
    Get,
    /// Items made into a batch.
    Collate,
}

/// One stage of one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) track: TrackId,
    pub(crate) kind: StageKind,
    pub(crate) batch: Option<u64>,
    pub(crate) items: Option<u64>,
    pub(crate) span: Interval,
    /// CPU time of the thread inside it, at most its length.
    pub(crate) cpu: Option<Nanos>,
    /// Time in which it was ready to run and waited for a CPU; known only with `cpu`, and with it
    /// at most its length.
    pub(crate) runnable: Option<Nanos>,
    pub(crate) unfinished: bool,
    pub(crate) panicked: bool,
    /// Whether it came to its end: not where its process ended in it, it failed, or the recording ended. How long
    /// it took says nothing of what such a stage takes.
    pub(crate) whole: bool,
}

/// A stretch in which a thread worked on one stage; of nested stages, the innermost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    pub(crate) span: Interval,
    /// Position of the stage.
    pub(crate) stage: usize,
}

/// All stages of a trace.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    list: Vec<Stage>,
    by_batch: HashMap<u64, Vec<usize>>,
    by_track: HashMap<TrackId, Vec<Busy>>,
}

impl Stages {
    /// Takes in one slice of a stage's category, its span cut to the recording.
    pub(crate) fn take(&mut self, names: &Names, slice: &Slice, span: Interval) {
        let args = &slice.args;
        let get = Some(slice.cat) == names.cat.data_get;
        let batch = integer(args, names.key.batch);
        if let Some(batch) = batch {
            self.by_batch
                .entry(batch)
                .or_default()
                .push(self.list.len());
        }
        let cpu = integer(args, names.key.cpu_ns).map(|ns| Nanos::new(ns).min(span.len()));
        let runnable = integer(args, names.key.runnable_ns).map(Nanos::new);
        let unfinished = flag(args, names.key.unfinished);
        let panicked = flag(args, names.key.panicked);
        let failed = text(args, names.key.error).is_some();
        self.list.push(Stage {
            track: slice.track,
            kind: if get {
                StageKind::Get
            } else {
                StageKind::Collate
            },
            batch,
            items: integer(args, names.key.items),
            span,
            cpu,
            runnable: cpu.and_then(|cpu| Some(runnable?.min(span.len() - cpu))),
            unfinished,
            panicked,
            whole: !(unfinished || panicked || failed),
        });
    }

    /// Lays out each thread's stages, once all are in.
    pub(crate) fn finish(&mut self, end: TraceTime) {
        let whole = [Interval::new(TraceTime::ZERO, end)];
        let mut of_track: HashMap<TrackId, Vec<usize>> = HashMap::new();
        for (i, stage) in self.list.iter().enumerate() {
            of_track.entry(stage.track).or_default().push(i);
        }
        for (track, stages) in of_track {
            let claims: Vec<Claim> = stages
                .iter()
                .map(|&i| Claim {
                    span: self.list[i].span,
                    rank: 0,
                })
                .collect();
            let busy = partition(&whole, &claims)
                .into_iter()
                .filter_map(|part| {
                    Some(Busy {
                        span: part.span,
                        stage: stages[part.claim?],
                    })
                })
                .collect();
            self.by_track.insert(track, busy);
        }
    }

    /// The stage at this position.
    pub(crate) fn get(&self, stage: usize) -> Option<&Stage> {
        self.list.get(stage)
    }

    /// All of them, in the order of the trace.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stage> {
        self.list.iter()
    }

    /// Those whose end was not recorded, with their positions.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Stage)> {
        self.list
            .iter()
            .enumerate()
            .filter(|(_, stage)| stage.unfinished)
    }

    /// Positions of the stages of a batch.
    pub(crate) fn of_batch(&self, batch: u64) -> &[usize] {
        self.by_batch.get(&batch).map_or(&[], Vec::as_slice)
    }

    /// Whether the thread worked on a stage in `span`.
    pub(crate) fn works(&self, track: TrackId, span: Interval) -> bool {
        let lane = self.by_track.get(&track).map_or(&[][..], Vec::as_slice);
        let first = lane.partition_point(|busy| busy.span.end <= span.start);
        lane.get(first)
            .is_some_and(|busy| busy.span.start < span.end)
    }

    /// What the thread did in `span`: disjoint, in order, cut to it.
    pub(crate) fn during(&self, track: TrackId, span: Interval) -> impl Iterator<Item = Busy> {
        let lane = self.by_track.get(&track).map_or(&[][..], Vec::as_slice);
        let first = lane.partition_point(|busy| busy.span.end <= span.start);
        lane[first..]
            .iter()
            .take_while(move |busy| busy.span.start < span.end)
            .map(move |busy| Busy {
                span: busy.span.intersection(span),
                stage: busy.stage,
            })
            .filter(|busy| !busy.span.is_empty())
    }

    /// Every thread that made batches, with what it did when.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (TrackId, &[Busy])> {
        self.by_track
            .iter()
            .map(|(&track, lane)| (track, lane.as_slice()))
    }
}
