//! What a thread that calls the driver for others was asked for: a rule on marks and counts.
//!
//! A thread that asks puts a mark into the runner's queue where a phase of it begins or ends. What
//! the runner does *for that thread* between two marks was asked for between them. For which
//! thread it does something, its calls do not say; but every thread has a stream of its own, and each
//! mark has the number of launches that its thread had asked for by then. So:
//!
//! 1. Between two marks of one thread with no mark lost, as many kernels must have been launched on
//!    its stream as the counts differ by.
//! 2. Its stream is the one on which that holds for most of the intervals in which something was
//!    launched, and for more than twice as many as on any other stream. Without such a one, or where
//!    two threads claim one stream, nothing is known.
//! 3. In an interval in which the number is another one (launches that failed or were not
//!    recorded), nothing is known. Every mark begins anew.

use super::{Asker, Devices};
use crate::device::Call;
use crate::device::ops::OpKind;
use crate::names::{flag, integer, text};
use crate::timeline::Timeline;
use gpustall_trace::{TraceTime, TrackId};
use std::collections::{BTreeMap, HashMap};

/// A stream of a device.
type Stream = (u64, u64);

/// One mark in the queue of a runner.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: TraceTime,
    /// Counts the marks of its thread.
    number: u64,
    /// Launches that its thread had asked for.
    launches: u64,
    asker: Asker,
}

/// The marks of one thread in one runner, and what is known by them.
#[derive(Debug, Default)]
struct Queue {
    marks: Vec<Mark>,
    /// Kernels launched from each mark to the next, by stream.
    launched: Vec<BTreeMap<Stream, u64>>,
    stream: Option<Stream>,
}

/// The threads that call for others.
pub(super) struct Runners(HashMap<TrackId, BTreeMap<u64, Queue>>);

impl Runners {
    /// Reads the marks, and finds the stream of each thread.
    pub(super) fn of(timeline: &Timeline<'_>, devices: &Devices) -> Self {
        let mut runners = Self(marks(timeline));
        for device in &devices.list {
            for op in device.ops.iter().filter(|op| op.kind == OpKind::Kernel) {
                let call = op.call.and_then(|call| devices.calls.get(call));
                let Some(call) = call else { continue };
                let Some(queues) = runners.0.get_mut(&call.track) else {
                    continue;
                };
                for queue in queues.values_mut() {
                    if let Some(launched) = queue.interval(call).map(|at| &mut queue.launched[at]) {
                        *launched.entry((device.key, op.stream)).or_default() += 1;
                    }
                }
            }
        }
        for queues in runners.0.values_mut() {
            for queue in queues.values_mut() {
                queue.stream = queue.find_stream();
            }
            let claims = |stream| {
                queues
                    .values()
                    .filter(|queue| queue.stream == stream)
                    .count()
            };
            let contested: Vec<u64> = (queues.iter())
                .filter(|(_, queue)| queue.stream.is_some() && claims(queue.stream) > 1)
                .map(|(number, _)| *number)
                .collect();
            for number in contested {
                if let Some(queue) = queues.get_mut(&number) {
                    queue.stream = None;
                }
            }
        }
        runners
    }

    /// Who asked for what `call` submitted to `stream`. `None` if the caller calls for itself.
    pub(super) fn asker(&self, stream: Stream, call: &Call) -> Option<Asker> {
        let queues = self.0.get(&call.track)?;
        let mut own = queues.values().filter(|queue| queue.stream == Some(stream));
        if let Some(queue) = own.next() {
            return Some(queue.asker(stream, call));
        }
        // Of a thread that marks no phases; unless it is the stream of one that was not found.
        let all_known = queues.values().all(|queue| queue.stream.is_some());
        Some(if all_known {
            Asker::Outside
        } else {
            Asker::Unknown
        })
    }
}

impl Queue {
    /// The mark after which `call` was made. The middle of the call counts: clocks differ by less.
    fn interval(&self, call: &Call) -> Option<usize> {
        let middle = call.span.start + gpustall_trace::Nanos::new(call.span.len().get() / 2);
        let before = self.marks.partition_point(|mark| mark.at <= middle);
        before.checked_sub(1)
    }

    /// Launches that were asked for from this mark to the next; `None` if marks between were lost.
    fn asked(&self, at: usize) -> Option<u64> {
        let (mark, next) = (self.marks.get(at)?, self.marks.get(at + 1)?);
        let follows = next.number == mark.number + 1;
        follows.then(|| next.launches.checked_sub(mark.launches))?
    }

    /// Whether on `stream` was launched what was asked for from this mark to the next.
    fn agrees(&self, at: usize, stream: Stream) -> bool {
        let launched = self.launched.get(at).and_then(|of| of.get(&stream));
        self.asked(at) == Some(launched.copied().unwrap_or(0))
    }

    fn find_stream(&self) -> Option<Stream> {
        let mut agreeing: BTreeMap<Stream, usize> = BTreeMap::new();
        let mut telling = 0;
        for (at, launched) in self.launched.iter().enumerate() {
            if launched.is_empty() || self.asked(at).is_none_or(|asked| asked == 0) {
                continue;
            }
            telling += 1;
            for &stream in launched.keys() {
                *agreeing.entry(stream).or_default() += usize::from(self.agrees(at, stream));
            }
        }
        let mut best: Vec<(usize, Stream)> = agreeing.into_iter().map(|(s, n)| (n, s)).collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        let (first, stream) = *best.first()?;
        let second = best.get(1).map_or(0, |(second, _)| *second);
        (first * 2 > telling && first > second * 2).then_some(stream)
    }

    fn asker(&self, stream: Stream, call: &Call) -> Asker {
        let mark = self.interval(call).filter(|&at| self.agrees(at, stream));
        let mark = mark.and_then(|at| self.marks.get(at));
        mark.map_or(Asker::Unknown, |mark| mark.asker)
    }
}

fn marks(timeline: &Timeline<'_>) -> HashMap<TrackId, BTreeMap<u64, Queue>> {
    let names = &timeline.names;
    let mut runners: HashMap<TrackId, BTreeMap<u64, Queue>> = HashMap::new();
    let Some(category) = names.cat.phase_mark else {
        return runners;
    };
    let instants = timeline.trace.instants.iter();
    for instant in instants.filter(|instant| instant.cat == category) {
        let number = |key| integer(&instant.args, key);
        let key = &names.key;
        let parts = (number(key.queue), number(key.mark), number(key.launches));
        let (Some(queue), Some(number), Some(launches)) = parts else {
            continue;
        };
        let queues = runners.entry(instant.track).or_default();
        queues.entry(queue).or_default().marks.push(Mark {
            at: instant.at,
            number,
            launches,
            asker: match text(&instant.args, key.phase) {
                Some(name) => Asker::Phase(name),
                None if flag(&instant.args, key.unknown) => Asker::Unknown,
                None if flag(&instant.args, key.several) => Asker::Several,
                None => Asker::Outside,
            },
        });
    }
    for queue in runners.values_mut().flat_map(BTreeMap::values_mut) {
        queue.marks.sort_by_key(|mark| (mark.at, mark.number));
        queue.launched = vec![BTreeMap::new(); queue.marks.len()];
    }
    runners
}
