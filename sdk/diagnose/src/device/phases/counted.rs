//! The same where the calls of a runner were not recorded: by counting alone.
//!
//! Kernels of one stream start in the order in which they were launched. So when from the first mark of a
//! thread to its last one exactly as many kernels ran on a stream as the thread asked for, and on no
//! other stream that nobody was seen to launch on, they are its kernels one by one. None may have
//! started before the mark after which it was asked for. Copies are not counted, so they stay
//! unknown.

use super::runner::{Mark, Stream};
use super::{Asker, Devices};
use crate::device::ops::OpKind;
use gpustall_trace::TraceTime;
use std::collections::BTreeMap;

/// When kernels started whose launch was not seen, by stream, in order.
pub(super) struct Unseen(BTreeMap<Stream, Vec<TraceTime>>);

impl Unseen {
    pub(super) fn of(devices: &Devices) -> Self {
        let mut starts: BTreeMap<Stream, Vec<TraceTime>> = BTreeMap::new();
        for device in &devices.list {
            let kernels = device.ops.iter().filter(|op| op.kind == OpKind::Kernel);
            for op in kernels.filter(|op| op.call.is_none()) {
                let stream = (device.key, op.stream);
                starts.entry(stream).or_default().push(op.span.start);
            }
        }
        Self(starts)
    }

    /// The kernels of the thread that made `marks`, if they can be told.
    pub(super) fn kernels(&self, marks: &[Mark]) -> Option<Counted> {
        let (first, last) = (marks.first()?, marks.last()?);
        let complete = marks.windows(2).all(|pair| {
            pair[1].number == pair[0].number + 1 && pair[1].launches >= pair[0].launches
        });
        let asked = last.launches.checked_sub(first.launches)? as usize;
        if !complete || asked == 0 {
            return None;
        }
        let mut fitting = self.0.iter().filter_map(|(stream, starts)| {
            let own = &starts[starts.partition_point(|start| *start < first.at)..];
            (own.len() == asked).then_some((*stream, own))
        });
        let (stream, starts) = fitting.next()?;
        if fitting.next().is_some() {
            return None;
        }
        let counted = Counted {
            stream,
            kernels: starts
                .iter()
                .enumerate()
                .map(|(at, start)| Some((*start, mark_of(marks, first.launches + at as u64)?)))
                .collect::<Option<Vec<_>>>()?,
        };
        let in_time = |(start, mark): &(TraceTime, usize)| marks[*mark].at <= *start;
        counted.kernels.iter().all(in_time).then_some(counted)
    }
}

/// The mark after which the launch of this number was asked for.
fn mark_of(marks: &[Mark], launch: u64) -> Option<usize> {
    marks
        .partition_point(|mark| mark.launches <= launch)
        .checked_sub(1)
}

/// The kernels of one thread: when they started, and after which of its marks they were asked for.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) stream: Stream,
    kernels: Vec<(TraceTime, usize)>,
}

impl Counted {
    /// Who asked for the kernel that started then.
    pub(super) fn asker(&self, marks: &[Mark], start: TraceTime) -> Asker {
        let found = self
            .kernels
            .binary_search_by_key(&start, |(start, _)| *start);
        let mark = found.ok().and_then(|at| marks.get(self.kernels[at].1));
        mark.map_or(Asker::Unknown, |mark| mark.asker)
    }
}
