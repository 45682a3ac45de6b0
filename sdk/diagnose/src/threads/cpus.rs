//! Who had each CPU, as far as the intervals of the watched threads tell.
//!
//! Every interval off CPU says at its start who took the CPU, and at its end who had it until then. So
//! each CPU has moments of which it is known who had it just before and just after, and between two
//! of them one thread that is named on both sides had it all the time. Where two are named, neither is
//! watched, and when the one gave way to the other is not recorded: it is inferred from how long
//! they were seen to have a CPU elsewhere.

use super::read::{Off, Other};
use super::{Lane, Who};
use crate::id_map::IdMap;
use gpustall_trace::{Interval, Nanos, Symbol, Tid, Trace, TraceTime, TrackKind};
use std::collections::{BTreeMap, HashMap};

/// A stretch of a CPU between two moments of which it is known who had it.
#[derive(Debug, Clone, Copy)]
struct Between {
    span: Interval,
    /// Who had it just after the first one, and just before the second one; `None` if nobody, or
    /// nobody knows.
    first: Option<Who>,
    last: Option<Who>,
}

/// Who had a CPU for how long of a stretch, and whether that is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) by: Who,
    pub(crate) ns: Nanos,
    pub(crate) certain: bool,
}

/// All CPUs.
#[derive(Default)]
pub(crate) struct Cpus {
    /// Disjoint, in order.
    by_cpu: HashMap<u64, Vec<Between>>,
    /// How long threads had a CPU where they are the only one that is named: sum and number.
    alone: HashMap<Who, (Nanos, u64)>,
    /// Names of the watched threads.
    names: HashMap<Tid, Symbol>,
}

/// A moment of a CPU.
struct Moment {
    at: TraceTime,
    /// Whether a watched thread came back; else one left.
    came: bool,
    before: Option<Who>,
    after: Option<Who>,
}

impl Cpus {
    /// From the intervals of all threads.
    pub(super) fn of(trace: &Trace, by_tid: &IdMap<Tid, Lane>) -> Self {
        let mut names = HashMap::new();
        for track in &trace.tracks {
            if track.kind == TrackKind::Thread && by_tid.contains_key(&track.tid) {
                names.entry(track.tid).or_insert(track.name);
            }
        }
        let mut cpus = Self {
            names,
            ..Self::default()
        };
        let mut moments: BTreeMap<u64, Vec<Moment>> = BTreeMap::new();
        for (&tid, lane) in by_tid {
            let Some(own) = cpus.names.get(&tid).map(|&name| (name, Some(tid))) else {
                continue;
            };
            for off in &lane.off {
                if let Some(cpu) = left(off) {
                    moments.entry(cpu).or_default().push(Moment {
                        at: off.span.start,
                        came: false,
                        before: Some(own),
                        after: off.displaced_by.map(|by| cpus.who(by)),
                    });
                }
                if let Some(cpu) = off.cpu_in {
                    moments.entry(cpu).or_default().push(Moment {
                        at: off.span.end,
                        came: true,
                        before: off.gave_back.map(|by| cpus.who(by)),
                        after: Some(own),
                    });
                }
            }
        }
        for (cpu, mut moments) in moments {
            moments.sort_by_key(|moment| (moment.at, moment.came));
            let pairs = moments.iter().zip(moments.iter().skip(1));
            let between = pairs.map(|(one, next)| Between {
                span: Interval::new(one.at, next.at),
                first: one.after,
                last: next.before,
            });
            let between: Vec<Between> = between.filter(|of| !of.span.is_empty()).collect();
            for of in &between {
                if let (Some(who), true) = (of.first, of.first == of.last) {
                    let sum = cpus.alone.entry(who).or_default();
                    sum.0 += of.span.len();
                    sum.1 += 1;
                }
            }
            cpus.by_cpu.insert(cpu, between);
        }
        cpus
    }

    /// A thread; a watched one under the name of its track.
    pub(crate) fn who(&self, other: Other) -> Who {
        let own = other.tid.and_then(|tid| self.names.get(&tid));
        (own.copied().unwrap_or(other.name), other.tid)
    }

    /// Who had the CPU in `span`, in which thread `tid` waited for one in `off`. They add up to at most
    /// its length.
    pub(crate) fn held(&self, tid: Tid, off: &Off, span: Interval) -> Vec<Held> {
        let mut held = Vec::new();
        let not_itself = |who: Option<Who>| who.filter(|who| who.1 != Some(tid));
        let cpu = waited_on(off).and_then(|cpu| self.by_cpu.get(&cpu));
        let between = cpu.map_or(&[][..], Vec::as_slice);
        let first = between.partition_point(|of| of.span.end <= span.start);
        let mut known = between[first..]
            .iter()
            .take_while(|of| of.span.start < span.end)
            .map(|of| Between {
                first: not_itself(of.first),
                last: not_itself(of.last),
                ..*of
            })
            .peekable();
        if known.peek().is_none() {
            let taker = off.displaced_by.filter(|_| off.preempted);
            let own = Between {
                span: Interval::new(off.ready, off.span.end),
                first: taker.map(|by| self.who(by)),
                last: off.gave_back.map(|by| self.who(by)),
            };
            self.divide(own, span, &mut held);
        }
        known.for_each(|of| self.divide(of, span, &mut held));
        held
    }

    fn divide(&self, of: Between, span: Interval, held: &mut Vec<Held>) {
        let mut add = |by: Who, part: Interval, certain: bool| {
            let ns = part.intersection(span).len();
            if ns > Nanos::ZERO {
                held.push(Held { by, ns, certain });
            }
        };
        match (of.first, of.last) {
            (None, None) => {}
            (Some(one), Some(other)) if one == other => add(one, of.span, true),
            (Some(one), None) | (None, Some(one)) => add(one, of.span, false),
            (Some(first), Some(last)) => {
                let turn = of.span.start + self.until_the_turn(first, last, of.span.len());
                add(first, Interval::new(of.span.start, turn), false);
                add(last, Interval::new(turn, of.span.end), false);
            }
        }
    }

    /// How long the first of two threads had a CPU that both had for `length`. Where both were seen
    /// alone, in the ratio of their means; where one was, it had it for no longer than its mean; where
    /// none was, it was the first one's until the end.
    fn until_the_turn(&self, first: Who, last: Who, length: Nanos) -> Nanos {
        let mean = |who: Who| {
            let &(sum, count) = self.alone.get(&who)?;
            Some(sum.get() / count.max(1)).filter(|&mean| mean > 0)
        };
        match (mean(first), mean(last)) {
            (Some(first), Some(last)) => {
                let share = first as f64 / (first as f64 + last as f64);
                Nanos::new((length.get() as f64 * share) as u64).min(length)
            }
            (Some(first), None) => Nanos::new(first).min(length),
            (None, Some(last)) => length - Nanos::new(last),
            (None, None) => length,
        }
    }
}

/// The CPU that the thread left.
fn left(off: &Off) -> Option<u64> {
    match off.preempted {
        true => off.cpu_out.or(off.cpu_in),
        false => off.cpu_out,
    }
}

/// The CPU that the thread waited for: the one that was taken from it, or the one it was woken on.
pub(crate) fn waited_on(off: &Off) -> Option<u64> {
    match off.preempted {
        true => left(off),
        false => off.cpu_in,
    }
}
